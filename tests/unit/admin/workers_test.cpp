#include <doctest/doctest.h>

#include <Poco/DateTimeFormatter.h>
#include <Poco/Timestamp.h>

#include "core/base/clock.hpp"
#include "tests/unit/admin/api_fixture.hpp"

TEST_SUITE_BEGIN("admin/workers");

using namespace sluice;
using namespace sluice::admin;
using rules::Json;
using test::ApiFixture;
using test::code_of;
using test::text_of;

namespace {

const std::string kGpu = "/netlox/v1/config/gpu";
const std::string kWorker = "/netlox/v1/config/worker/metrics";

std::string report(const std::string& endpoint, const std::string& more = "") {
    return R"({"endpoint_ip":")" + endpoint +
           R"(","queued_requests":3,"kv_cache_usage_perc":41.5)" + more + "}";
}

std::string time_text(std::int64_t seconds_from_now, const std::string& form) {
    const Poco::Timestamp at(static_cast<Poco::Timestamp::TimeVal>(wall_us()) +
                             seconds_from_now * 1'000'000);
    return Poco::DateTimeFormatter::format(at, form);
}

}  // namespace

TEST_CASE_FIXTURE(ApiFixture, "load reports are switched on and off, and it survives") {
    Json status = json("GET", kGpu + "/status");
    CHECK(status.dump() == R"({"ebpf_map_loaded":false,"enabled":false,"last_metrics_update":"",)"
                           R"("routing_mode":"standard_chwbl","worker_count":0})");
    CHECK(code_of(ask("POST", kWorker, report("10.0.0.1:8000"))) == "\"gpu_disabled\"");

    const Json on = json("POST", kGpu + "/enable");
    CHECK(text_of(on, "enabled") == "true");
    CHECK(text_of(on, "routing_mode") == "\"gpu_aware\"");
    CHECK(text_of(on, "message") != "!");
    const Response again = ask("POST", kGpu + "/enable");
    CHECK(again.status == 400);
    restart();
    CHECK(text_of(json("GET", kGpu + "/status"), "enabled") == "true");

    json("POST", kWorker, report("10.0.0.1:8000"));
    CHECK(text_of(json("GET", kGpu + "/status"), "worker_count") == "1");
    CHECK(text_of(json("POST", kGpu + "/disable"), "enabled") == "false");
    CHECK(text_of(json("POST", kGpu + "/disable"), "enabled") == "false");
    CHECK(text_of(json("GET", kGpu + "/status"), "worker_count") == "0");
}

TEST_CASE_FIXTURE(ApiFixture, "the newest report of an endpoint is listed") {
    json("POST", kGpu + "/enable");
    const Json stored = json("POST", kWorker, report("10.0.0.1:8000"));
    CHECK(text_of(stored, "endpoint_ip") == "\"10.0.0.1:8000\"");
    CHECK(text_of(stored, "queued_requests") == "3");
    json("POST", kWorker, report("10.0.0.1:8000", R"(,"num_gpu_blocks":7,"swapped_requests":1)"));
    json("POST", kWorker, report("[::1]:8000"));
    const Json list = json("GET", kWorker);
    CHECK(text_of(list, "monitoring_enabled") == "true");
    const Json::Array& workers = *list.object()->find("workers")->second.array();
    REQUIRE(workers.size() == 2);
    CHECK(text_of(workers[0], "num_gpu_blocks") == "7");
    CHECK(text_of(workers[0], "kv_cache_usage_perc") == "41.5");
}

TEST_CASE_FIXTURE(ApiFixture, "a report that is stale, incomplete or malformed is refused") {
    json("POST", kGpu + "/enable");
    struct Row {
        std::string body;
        int status;
        std::string code;
    };
    const std::string utc = "%Y-%m-%dT%H:%M:%SZ";
    const auto with_time = [](const std::string& text) {
        return report("10.0.0.1:1", R"(,"timestamp":")" + text + "\"");
    };
    for (const Row& row :
         {Row{R"({"queued_requests":1,"kv_cache_usage_perc":1})", 400, "required"},
          Row{R"({"endpoint_ip":"10.0.0.1:1","kv_cache_usage_perc":1})", 400, "required"},
          Row{R"({"endpoint_ip":"10.0.0.1:1","queued_requests":1})", 400, "required"},
          Row{report("10.0.0.1"), 400, "malformed_endpoint"},
          Row{report("engine:8000"), 400, "malformed_endpoint"},
          Row{report("10.0.0.1:0"), 400, "malformed_endpoint"},
          Row{report("10.0.0.1:1", R"(,"more":1)"), 400, "unknown_field"},
          Row{R"({"endpoint_ip":"10.0.0.1:1","queued_requests":-1,"kv_cache_usage_perc":1})", 422,
              "out_of_range"},
          Row{R"({"endpoint_ip":"10.0.0.1:1","queued_requests":1,"kv_cache_usage_perc":100.1})",
              422, "out_of_range"},
          Row{R"({"endpoint_ip":"10.0.0.1:1","queued_requests":"1","kv_cache_usage_perc":1})", 422,
              "wrong_type"},
          Row{with_time(time_text(-11, utc)), 400, "stale_timestamp"},
          Row{with_time(time_text(12, utc)), 400, "stale_timestamp"},
          Row{with_time("yesterday"), 400, "bad_timestamp"},
          Row{with_time("2025-01-31 12:00:00"), 400, "bad_timestamp"},
          Row{with_time("2025-13-31T12:00:00Z"), 400, "bad_timestamp"}}) {
        CAPTURE(row.body);
        const Response response = ask("POST", kWorker, row.body);
        CHECK(response.status == row.status);
        CHECK(code_of(response) == "\"" + row.code + "\"");
    }
    CHECK(text_of(json("GET", kWorker), "workers") == "[]");
}

TEST_CASE_FIXTURE(ApiFixture, "a fresh timestamp is taken with a fraction and a zone") {
    json("POST", kGpu + "/enable");
    for (const std::string& text :
         {time_text(0, "%Y-%m-%dT%H:%M:%SZ"), time_text(-2, "%Y-%m-%dT%H:%M:%S.%iZ"),
          time_text(0, "%Y-%m-%dT%H:%M:%S.123456789Z"), time_text(0, "%Y-%m-%dt%H:%M:%Sz"),
          time_text(2 * 3600, "%Y-%m-%dT%H:%M:%S+02:00"),
          time_text(-5400, "%Y-%m-%dT%H:%M:%S-01:30")}) {
        CAPTURE(text);
        const Response response =
            ask("POST", kWorker, report("10.0.0.1:1", R"(,"timestamp":")" + text + "\""));
        CAPTURE(response.body);
        CHECK(response.status == 200);
    }
}

TEST_CASE_FIXTURE(ApiFixture, "reports of no more endpoints than the bound are kept") {
    json("POST", kGpu + "/enable");
    WorkerBoard& board = api.context().node->workers;
    for (std::size_t i = 0; i < WorkerBoard::kMaxWorkers; ++i) {
        CHECK(board.put({"e" + std::to_string(i), 0, 0, 0, 0, 1}));
    }
    CHECK(code_of(ask("POST", kWorker, report("10.0.0.1:1"))) == "\"too_many_workers\"");
    CHECK(board.put({"e7", 0, 0, 0, 0, 2}));
    CHECK(board.reports().size() == WorkerBoard::kMaxWorkers);
}

TEST_CASE_FIXTURE(ApiFixture, "cleaning up conversations finds none") {
    const Json none = json("POST", kGpu + "/conversations/cleanup?max_age_hours=1");
    CHECK(text_of(none, "deleted_count") == "0");
    CHECK(text_of(none, "oldest_remaining_hours") == "0");
    CHECK(ask("POST", kGpu + "/conversations/cleanup?max_age_hours=x").status == 400);
}

TEST_SUITE_END();
