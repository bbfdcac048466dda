#include <doctest/doctest.h>

#include "core/admin/host_info.hpp"
#include "core/admin/switches.hpp"
#include "core/base/clock.hpp"
#include "tests/unit/admin/api_fixture.hpp"

TEST_SUITE_BEGIN("admin/node");

using namespace sluice;
using namespace sluice::admin;
using rules::Json;
using test::ApiFixture;
using test::code_of;
using test::header_of;
using test::text_of;

namespace {

const std::string kV1 = "/netlox/v1";

}  // namespace

TEST_CASE_FIXTURE(ApiFixture, "readiness is askable without a token, its details are not") {
    use_tokens("ann admin a\nbob viewer b");
    providers.readiness.ready = false;
    providers.readiness.reasons = {"listener_unavailable: 10.0.0.1:80: in use", "draining: stops"};
    const Response anonymous = ask("GET", kV1 + "/status/ready");
    CHECK(anonymous.status == 503);
    CHECK(anonymous.body == R"({"ready":false,"reasons":["listener_unavailable","draining"]})");
    const Response wrong = ask("GET", kV1 + "/status/ready", "", "guess");
    CHECK(wrong.body == anonymous.body);
    const Response known = ask("GET", kV1 + "/status/ready", "", "b");
    CHECK(known.status == 503);
    CHECK(known.body.find("10.0.0.1:80") != std::string::npos);
    CHECK(known.body.find("\"boot\"") != std::string::npos);
}

TEST_CASE_FIXTURE(ApiFixture, "guesses at a public route count like others") {
    use_tokens("ann admin a");
    for (std::uint32_t i = 0; i < Auth::kGuesses; ++i) {
        CHECK(ask("GET", kV1 + "/status/ready", "", "guess").status == 200);
    }
    CHECK(ask("GET", kV1 + "/status/plugins", "", "a").status == 429);
    // The right token is not told from a wrong one either.
    CHECK(ask("GET", kV1 + "/status/ready", "", "a").body.find("boot") == std::string::npos);
}

TEST_CASE_FIXTURE(ApiFixture, "the process, its machine and the file system have figures") {
    const Json process = json("GET", kV1 + "/status/process");
    const Json& row = process.object()->find("processAttr")->second.array()->at(0);
    CHECK(text_of(row, "pid") == "\"" + std::to_string(::getpid()) + "\"");
    CHECK(text_of(row, "threads") != "0");
    CHECK(text_of(row, "resident_bytes") != "0");
    const Json device = json("GET", kV1 + "/status/device");
    CHECK(text_of(device, "kernel") != "\"\"");
    CHECK(text_of(device, "cores") != "0");
    const Json system = json("GET", kV1 + "/status/filesystem");
    const Json& disk = system.object()->find("filesystemAttr")->second.array()->at(0);
    CHECK(text_of(disk, "mountedOn") == "\"/\"");
    CHECK(text_of(disk, "size_bytes") != "0");
}

TEST_CASE("the file system of a file that is not there yet is its folder's") {
    const FileSystemInfo there = file_system_info("/proc");
    CHECK(file_system_info("/proc/no/such").mounted_on == there.mounted_on);
    CHECK(there.type == "proc");
}

TEST_CASE_FIXTURE(ApiFixture, "capabilities say what is ready and why something is not") {
    const Response response = ask("GET", kV1 + "/status/capabilities");
    CHECK(response.status == 200);
    CHECK(response.body == R"({"capabilities":[{"name":"engine_vllm","ready":true},)"
                           R"({"code":"NOT_BUILT","name":"io_uring","ready":false}]})");
}

TEST_CASE_FIXTURE(ApiFixture, "diagnostics are one document, for admins only") {
    providers.readiness.reasons = {"database_set_aside: x"};
    log::error("something to look at", {{"n", 7}});
    const Json report = json("GET", kV1 + "/diagnostics");
    CHECK(text_of(report, "version") == "\"1.2.3\"");
    CHECK(text_of(report, "daemon") == R"({"settings":{"workers":2}})");
    CHECK(text_of(report, "plugins") == R"([{"id":"p"}])");
    CHECK(text_of(report, "log").find("something to look at") != std::string::npos);
    use_tokens("ann admin a\nbob viewer b");
    CHECK(ask("GET", kV1 + "/diagnostics", "", "b").status == 403);
    CHECK(ask("GET", kV1 + "/diagnostics", "", "a").body.find("\"bob\"") == std::string::npos);
}

TEST_CASE_FIXTURE(ApiFixture, "maintenance freezes changes, refuses requests and survives") {
    Json status = json("GET", kV1 + "/maintenance");
    CHECK(text_of(status, "state") == "\"active\"");
    providers.running = 3;
    status = json("PUT", kV1 + "/maintenance", R"({"enabled":true,"drain_timeout_seconds":60})");
    CHECK(text_of(status, "state") == "\"maintenance\"");
    CHECK(text_of(status, "refusing_new_config") == "true");
    CHECK(text_of(status, "refusing_new_inference") == "true");
    CHECK(text_of(status, "in_flight_requests") == "3");
    CHECK(text_of(status, "drain_deadline_exceeded") == "false");
    CHECK(providers.refuses);

    const std::string lb = kV1 + "/config/loadbalancer";
    const Response frozen = ask("POST", lb, test::body());
    CHECK(frozen.status == 503);
    CHECK(code_of(frozen) == "\"maintenance\"");
    CHECK(header_of(frozen, "Retry-After") != "");
    CHECK(ask("DELETE", lb + "/all").status == 503);
    CHECK(ask("POST", kV1 + "/config/params", R"({"logLevel":"info"})").status == 503);
    CHECK(ask("GET", lb + "/all").status == 200);
    CHECK(ask("POST", kV1 + "/config/ai/route/explain", "{}").status == 200);  // changes nothing
    const Response ready = ask("GET", kV1 + "/status/ready");
    CHECK(ready.status == 503);
    CHECK(ready.body.find("maintenance") != std::string::npos);

    restart();
    CHECK(text_of(json("GET", kV1 + "/maintenance"), "state") == "\"maintenance\"");
    status = json("PUT", kV1 + "/maintenance", R"({"enabled":false})");
    CHECK(text_of(status, "state") == "\"active\"");
    CHECK_FALSE(providers.refuses);
    CHECK(ask("POST", lb, test::body()).status == 200);
}

TEST_CASE_FIXTURE(ApiFixture, "maintenance is idempotent both ways and audited once") {
    for (const char* body : {R"({"enabled":true})", R"({"enabled":false})"}) {
        const std::size_t before = store.trail.size();
        json("PUT", kV1 + "/maintenance", body);
        const std::size_t once = store.trail.size();
        json("PUT", kV1 + "/maintenance", body);
        CHECK(store.trail.size() == once);
        CHECK(once == before + 1);
        CHECK(store.trail.back().subject == "maintenance");
    }
}

TEST_CASE_FIXTURE(ApiFixture, "a drain deadline is exceeded only while requests still run") {
    Maintenance long_ago{true, wall_us() - 10'000'000, 5};
    REQUIRE_FALSE(set_maintenance(book, long_ago, {"ann", "127.0.0.1"}).has_value());
    CHECK(text_of(json("GET", kV1 + "/maintenance"), "drain_deadline_exceeded") == "false");
    providers.running = 1;
    CHECK(text_of(json("GET", kV1 + "/maintenance"), "drain_deadline_exceeded") == "true");
    long_ago.drain_timeout_sec = 0;
    REQUIRE_FALSE(set_maintenance(book, long_ago, {"ann", "127.0.0.1"}).has_value());
    CHECK(text_of(json("GET", kV1 + "/maintenance"), "drain_deadline_exceeded") == "false");
}

TEST_CASE_FIXTURE(ApiFixture, "a maintenance body that cannot be meant changes nothing") {
    struct Row {
        std::string body;
        int status;
        std::string code;
    };
    for (const Row& row :
         {Row{"", 400, "malformed_json"}, Row{"[]", 422, "wrong_type"}, Row{"{}", 400, "required"},
          Row{R"({"enabled":1})", 422, "wrong_type"}, Row{R"({"enabled":null})", 422, "wrong_type"},
          Row{R"({"enabled":true,"drain":1})", 400, "unknown_field"},
          Row{R"({"enabled":true,"drain_timeout_seconds":-1})", 422, "out_of_range"},
          Row{R"({"enabled":true,"drain_timeout_seconds":86401})", 422, "out_of_range"},
          Row{R"({"enabled":true,"drain_timeout_seconds":"1"})", 422, "wrong_type"}}) {
        CAPTURE(row.body);
        const Response response = ask("PUT", kV1 + "/maintenance", row.body);
        CHECK(response.status == row.status);
        CHECK(code_of(response) == "\"" + row.code + "\"");
    }
    CHECK(store.settings.empty());
    CHECK_FALSE(providers.refuses);
}

TEST_CASE_FIXTURE(ApiFixture, "a maintenance that cannot be stored does not begin") {
    store.fail_with = Error{Code::Limit, "no room"};
    CHECK(ask("PUT", kV1 + "/maintenance", R"({"enabled":true})").status == 507);
    CHECK_FALSE(providers.refuses);
    CHECK(text_of(json("GET", kV1 + "/maintenance"), "state") == "\"active\"");
}

TEST_CASE_FIXTURE(ApiFixture, "each of the nine words sets a level at once") {
    struct Row {
        const char* word;
        log::Level level;
    };
    for (const Row& row : {Row{"trace", log::Level::Debug}, Row{"debug", log::Level::Debug},
                           Row{"info", log::Level::Info}, Row{"notice", log::Level::Info},
                           Row{"warning", log::Level::Warn}, Row{"error", log::Level::Error},
                           Row{"critical", log::Level::Error}, Row{"alert", log::Level::Error},
                           Row{"emergency", log::Level::Error}}) {
        CAPTURE(row.word);
        json("POST", kV1 + "/config/params", R"({"logLevel":")" + std::string(row.word) + "\"}");
        CHECK(log::enabled(row.level));
        const bool next = row.level == log::Level::Debug ||
                          !log::enabled(row.level == log::Level::Error  ? log::Level::Warn
                                        : row.level == log::Level::Warn ? log::Level::Info
                                                                        : log::Level::Debug);
        CHECK(next);
        const Json now = json("GET", kV1 + "/config/params");
        CHECK(text_of(now, "logLevel") == "\"" + std::string(row.word) + "\"");
        CHECK(text_of(now, "effective") == "\"" + std::string(log::to_string(row.level)) + "\"");
    }
    CHECK(code_of(ask("POST", kV1 + "/config/params", R"({"logLevel":"loud"})")) ==
          "\"unknown_value\"");
    log::set_level(log::Level::Info);
}

TEST_CASE_FIXTURE(ApiFixture, "a switched log level holds until the configuration says another") {
    knobs.log_level = log::Level::Info;
    use_knobs();
    json("POST", kV1 + "/config/params", R"({"logLevel":"critical"})");
    restart();
    CHECK(log_switch(book, log::Level::Info).level == log::Level::Error);
    CHECK(log_switch(book, log::Level::Debug).level == log::Level::Debug);
    CHECK(log_switch(book, log::Level::Debug).word == "debug");
    log::set_level(log::Level::Info);
}

TEST_CASE_FIXTURE(ApiFixture, "monitoring: the enable and disable matrix") {
    const auto state = [this] {
        return text_of(json("GET", kV1 + "/config/metrics"), "prometheus") + " " +
               std::to_string(ask("GET", kV1 + "/metrics").status) + " " +
               std::to_string(ask("GET", "/metrics").status);
    };
    CHECK(state() == "true 200 200");
    for (int round = 0; round < 2; ++round) {
        CHECK(text_of(json("POST", kV1 + "/config/metrics"), "result") ==
              "\"Prometheus already enabled\"");
        CHECK(text_of(json("DELETE", kV1 + "/config/metrics"), "result") == "\"Success\"");
        CHECK(state() == "false 503 503");
        CHECK(ask("GET", "/metrics").body == "Prometheus option is disabled.");
        CHECK(text_of(json("DELETE", kV1 + "/config/metrics"), "result") ==
              "\"Prometheus already disabled\"");
        restart();
        CHECK(state() == "false 503 503");
        CHECK(text_of(json("POST", kV1 + "/config/metrics"), "result") == "\"Success\"");
        CHECK(state() == "true 200 200");
    }
}

TEST_CASE_FIXTURE(ApiFixture, "metrics are open, for token holders, or off, as configured") {
    use_tokens("ann admin a\nbob viewer b");
    CHECK(ask("GET", "/metrics").status == 200);
    knobs.metrics = MetricsAccess::Token;
    use_knobs();
    CHECK(ask("GET", "/metrics").status == 401);
    CHECK(ask("GET", "/metrics", "", "guess").status == 401);
    CHECK(ask("GET", kV1 + "/metrics", "", "b").status == 200);
    knobs.metrics = MetricsAccess::Off;
    use_knobs();
    CHECK(ask("GET", "/metrics", "", "a").status == 503);
    CHECK(ask("POST", kV1 + "/config/metrics", "", "a").status == 409);
    CHECK(ask("GET", kV1 + "/config/metrics", "", "a").body == R"({"prometheus":false})");
}

TEST_CASE_FIXTURE(ApiFixture, "there is no registry of model profiles, and it says so") {
    const Json list = json("GET", kV1 + "/config/ai/model-profiles");
    CHECK(text_of(list, "registryGeneration") == "0");
    CHECK(text_of(list, "profiles") == "[]");
    CHECK(ask("GET", kV1 + "/config/ai/model-profiles/x").status == 404);
}

TEST_SUITE_END();
