// /config/loadbalancer: patches, what is read back and posted again, ranges of one port.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "core/admin/api.hpp"
#include "core/base/log.hpp"
#include "core/rules/field.hpp"
#include "tests/unit/admin/fakes.hpp"
#include "tests/unit/rules/bodies.hpp"
#include "tests/unit/rules/fakes.hpp"

TEST_SUITE_BEGIN("admin/rules");

using namespace sluice;
using namespace sluice::admin;
using rules::Json;
using test::body;

namespace {

const std::string kLb = "/netlox/v1/config/loadbalancer";
const std::string kKey = kLb + "/externalipaddress/127.0.0.1/port/8080/protocol/tcp";

struct Gateway {
    test::MemoryStore store;
    test::RecordingHooks hooks;
    test::FakeProviders providers;
    rules::RuleBook book{store, hooks};
    Api api{Context{book, providers, "1.2.3", "test build"}, Tokens()};

    Response ask(const std::string& method, const std::string& target, const std::string& text = "",
                 const std::string& type = "application/merge-patch+json") {
        Request request;
        request.method = method;
        const auto mark = target.find('?');
        request.path = target.substr(0, mark);
        request.query = mark == std::string::npos ? "" : target.substr(mark + 1);
        request.address = "127.0.0.1";
        request.content_type = type;
        request.body = text;
        bool wants_body = false;
        if (auto early = api.admit(request, wants_body, 1)) {
            return *early;
        }
        return api.answer(request);
    }
    // The one rule as it is read back.
    std::string entry() {
        const auto all = Json::parse(ask("GET", kLb + "/all").body);
        const Json::Array& list = *all->object()->at("lbAttr").array();
        REQUIRE(list.size() == 1);
        return list[0].dump();
    }
};

std::string code_of(const Response& response) {
    const auto value = Json::parse(response.body);
    return value.ok() ? value->object()->at("code").dump() : "!";
}

struct Quiet {
    Quiet() {
        log::set_sink([](log::Level, const std::string&) {});
    }
    ~Quiet() { log::set_sink({}); }
};

}  // namespace

TEST_CASE("a patch changes the rule of its key and answers as a POST does") {
    const Quiet quiet;
    Gateway gw;
    REQUIRE(gw.ask("POST", kLb, body({{"model_name", R"("org/m")"}})).status == 200);
    const std::string patch = R"({"serviceArguments":{"probeRetries":7}})";
    CHECK(gw.ask("PATCH", kKey, patch).status == 404);
    const Response response = gw.ask("PATCH", kKey + "?model_name=org/m", patch);
    CHECK(response.status == 200);
    const auto answer = Json::parse(response.body);
    CHECK(answer->object()->at("result") == Json("Success"));
    CHECK(answer->object()->at("generation") == Json(2));
    CHECK(gw.entry().find(R"("probeRetries":7,)") != std::string::npos);
    CHECK(code_of(gw.ask("PATCH", kKey + "?model_name=org/m",
                         R"({"serviceArguments":{"port":1}})")) == "\"immutable\"");
}

TEST_CASE("the log tells what changed, and nothing of what did not") {
    std::vector<std::string> lines;
    log::set_level(log::Level::Info);
    log::set_sink([&lines](log::Level, const std::string& line) { lines.push_back(line); });
    {
        Gateway gw;
        REQUIRE(gw.ask("POST", kLb, body({{"id", R"("one")"}})).status == 200);
        REQUIRE(lines.size() == 1);
        CHECK(lines[0].find("ip=127.0.0.1 port=8080") != std::string::npos);
        REQUIRE(gw.ask("PATCH", kKey, "{}").status == 200);
        CHECK(lines.size() == 1);
        REQUIRE(gw.ask("DELETE", kLb + "/all").status == 200);
        REQUIRE(lines.size() == 2);
        CHECK(lines[1].find("count=1 ids=one") != std::string::npos);
    }
    log::set_sink({});
}

TEST_CASE("a rule with a host is patched by its host") {
    const Quiet quiet;
    Gateway gw;
    REQUIRE(gw.ask("POST", kLb, body({{"host", R"("Api.x:80")"}})).status == 200);
    const std::string patch = R"({"serviceArguments":{"name":"n"}})";
    CHECK(gw.ask("PATCH", kKey, patch).status == 404);
    CHECK(gw.ask("PATCH", kLb + "/hosturl/api.X/externalipaddress/127.0.0.1/port/8080/protocol/tcp",
                 patch)
              .status == 200);
    CHECK(gw.book.table()->rules()[0]->name == "n");
}

TEST_CASE("a patch is JSON or a merge patch, whatever its parameters") {
    const Quiet quiet;
    Gateway gw;
    REQUIRE(gw.ask("POST", kLb, body()).status == 200);
    struct Row {
        std::string type;
        int status;
    };
    for (const Row& row :
         {Row{"application/merge-patch+json", 200}, Row{"application/json", 200}, Row{"", 200},
          Row{"Application/JSON ; charset=utf-8", 200}, Row{"application/json-patch+json", 415},
          Row{"application/x-www-form-urlencoded", 415}, Row{"text/plain", 415}}) {
        CAPTURE(row.type);
        CHECK(gw.ask("PATCH", kKey, "{}", row.type).status == row.status);
    }
}

TEST_CASE("a secret of a plugin is not read back, in force or as written") {
    const Quiet quiet;
    Gateway gw;
    const std::string config = R"({"nested":{"password":"S3CRET"},"list":[{"token":"S3CRET"}]})";
    REQUIRE(gw.ask("POST", kLb, body({{"plugin_config", config}})).status == 200);
    const std::string read = gw.entry();
    CHECK(read.find("S3CRET") == std::string::npos);
    CHECK(read.find("\"password\":\"***\"") != std::string::npos);
}

TEST_CASE("what is read back can be posted again, here and elsewhere, and means the same") {
    const Quiet quiet;
    std::size_t bodies = 0;
    const auto check = [&bodies](const std::string& text) {
        CAPTURE(text);
        Gateway here;
        const Response response = here.ask("POST", kLb, text);
        CAPTURE(response.body);
        REQUIRE(response.status == 200);
        here.providers.endpoint_state = EndpointLive{
            "inactive", true, "refused", 1, 2, "open", KvLive{7, "dead", "unproven", "x", 12}};
        const std::string read = here.entry();
        CHECK(code_of(here.ask("POST", kLb, read)) == "\"lbrule_exists\"");
        const Response patched = here.ask("PATCH", kKey, read);
        CHECK((patched.status == 200 || patched.status == 404));  // 404: it has another key
        CHECK(here.store.commits == 1);
        Gateway there;
        REQUIRE(there.ask("POST", kLb, read).status == 200);
        const rules::Rule& a = *here.book.table()->rules()[0];
        const rules::Rule& b = *there.book.table()->rules()[0];
        CHECK(a.json == b.json);
        CHECK(a.effective == b.effective);
        CHECK(a.id == b.id);
        ++bodies;
    };
    check(body());
    check(body({{"id", R"("r")"}, {"name", R"("n")"}, {"host", R"("Api.x:80")"}}));
    check(body({{"path_prefix", R"("/v1/")"},
                {"path_match_mode", R"("prefix")"},
                {"model_name", R"("a/b")"},
                {"block", "3"}}));
    check(body({{"probetype", R"("http")"}, {"probeport", "8000"}, {"probereq", R"("health")"}}));
    check(body({{"kvExactMode", "3"}, {"kvBlockSize", "32"}, {"kvReplayPort", "0"}}));
    check(body({{"portMax", "8080"}, {"privateIP", R"("10.0.0.1")"}, {"egress", "true"}}));
    check(body({}, {{"backup", "true"}, {"weight", "0"}, {"nixl_port", "5600"}},
               {{"allowedSources", R"([{"prefix":"10.0.0.9/8"}])"}}));
    check(body({{"timeouts", R"({"connect_ms":5})"}, {"retry", R"({"connect":0})"}}));
    check(body({{"annotations", R"({"a":"é"})"}, {"plugin_config", R"({"vllm":{"x":[1.5]}})"}}));
    check(body({{"externalIP", R"("::1")"}}, {{"endpointIP", R"("FD00::2")"}}));
    // Every field at its default, one at a time.
    for (const rules::Field& field : rules::service_fields()) {
        if (field.standing == rules::Standing::ReadOnly || field.fallback.empty() ||
            field.is_required) {
            continue;
        }
        check(body({{std::string(field.name), std::string(field.fallback)}}));
    }
    CHECK(bodies > 60);
}

TEST_CASE("no answer names a key file, and the rule keeps it over what is read back") {
    const Quiet quiet;
    std::string path = "/tmp/sluice-key-XXXXXX";
    const int fd = ::mkstemp(path.data());
    REQUIRE(fd >= 0);
    ::close(fd);
    std::ofstream(path) << "sk-1\n";
    Gateway gw;
    REQUIRE(gw.ask("POST", kLb, body({{"backend_auth_file", "\"" + path + "\""}})).status == 200);
    const std::string read = gw.entry();
    CHECK(read.find(path) == std::string::npos);
    CHECK(read.find(R"("backend_auth_file":"***")") != std::string::npos);
    CHECK(code_of(gw.ask("POST", kLb, read)) == "\"lbrule_exists\"");
    CHECK(gw.ask("PATCH", kKey, read).status == 200);
    CHECK(gw.ask("PATCH", kKey, R"({"serviceArguments":{"probeRetries":3}})").status == 200);
    CHECK(gw.book.table()->rules()[0]->auth_file == path);
    // Elsewhere nobody knows the path: refused, not dropped.
    Gateway other;
    CHECK(code_of(other.ask("POST", kLb, read)) == "\"auth_file_hidden\"");
    CHECK(gw.ask("PATCH", kKey, R"({"serviceArguments":{"backend_auth_file":null}})").status ==
          200);
    CHECK(gw.book.table()->rules()[0]->auth_file.empty());
    std::remove(path.c_str());
}

TEST_CASE("a range of ports is one port") {
    const Quiet quiet;
    Gateway gw;
    const std::string by_range =
        kLb + "/externalipaddress/127.0.0.1/port/8080/portmax/%/protocol/tcp";
    const auto at = [&by_range](const std::string& last) {
        std::string out = by_range;
        return out.replace(out.find('%'), 1, last);
    };
    REQUIRE(gw.ask("POST", kLb, body()).status == 200);
    CHECK(gw.ask("DELETE", at("8090")).status == 404);
    CHECK(gw.ask("DELETE", at("x")).status == 400);
    CHECK(gw.ask("DELETE", at("8080")).status == 200);
    REQUIRE(gw.ask("POST", kLb, body({{"portMax", "8080"}, {"host", R"("h")"}})).status == 200);
    CHECK(gw.ask("DELETE", at("0")).status == 404);
    CHECK(gw.ask("DELETE",
                 kLb + "/hosturl/h/externalipaddress/127.0.0.1/port/8080/portmax/0/protocol/tcp")
              .status == 200);
}

TEST_SUITE_END();
