#include "plugins/vllm/facts.hpp"

#include <doctest/doctest.h>

#include "plugins/vllm/replies.hpp"

using namespace sluice::vllm;

namespace {

// Lines of a running 0.32.0, two data-parallel ranks; values as such an engine gives them.
constexpr const char* kTwoRanks =
    R"(# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
vllm:num_requests_running{engine="1",model_name="tiny"} 5.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 9.0
vllm:engine_sleep_state{engine="0",model_name="tiny",sleep_state="awake"} 1.0
vllm:engine_sleep_state{engine="0",model_name="tiny",sleep_state="weights_offloaded"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="tiny"} 0.75
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 320.0
vllm:prefix_cache_hits_created{engine="0",model_name="tiny"} 1.7959e+09
vllm:external_prefix_cache_hits_total{engine="0",model_name="tiny"} 77.0
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 1.5e+06
vllm:prompt_tokens_created{engine="0",model_name="tiny"} 1.79597028e+09
vllm:generation_tokens_total{engine="0",model_name="tiny"} 20.0
vllm:cache_config_info{block_size="32",cache_dtype="auto",enable_prefix_caching="True",engine="0",num_gpu_blocks="600",prefix_caching_hash_algo="sha256"} 1.0
)";

}  // namespace

TEST_SUITE("vllm/facts") {
    TEST_CASE("load is read per rank, never the first sample for all") {
        const Metrics m = parse_metrics(kTwoRanks);
        REQUIRE(m.ranks.size() == 2);
        CHECK(m.ranks.at(0).running == 3);
        CHECK(m.ranks.at(1).running == 5);
        CHECK(m.ranks.at(0).waiting == 1);
        CHECK(m.ranks.at(1).kv_used == 0.75);
        CHECK(m.ranks.at(0).hit_tokens == 320);
        CHECK(m.ranks.at(0).progress == 1'500'020);
        CHECK(m.block_size == 32);
        CHECK(m.total_blocks == 600);
        CHECK(m.prefix_caching == true);
        CHECK(m.hash_algorithm == "sha256");
        CHECK(m.asleep == false);
        CHECK(m.epoch != 0);
        CHECK_FALSE(m.holds_expired);
        CHECK_FALSE(m.holds_read_late);
    }

    TEST_CASE("hand-offs that nobody read are counted over the ranks, where they are counted") {
        const Metrics m = parse_metrics(
            "vllm:nixl_num_kv_expired_reqs_total{engine=\"0\"} 2.0\n"
            "vllm:nixl_num_kv_expired_reqs_created{engine=\"0\"} 1.7959e+09\n"
            "vllm:nixl_num_kv_expired_reqs_total{engine=\"1\"} 3.0\n");
        CHECK(m.holds_expired == 5);
        CHECK(parse_metrics("vllm:nixl_num_notifications_after_expiry_total 7\n").holds_read_late ==
              7);
        CHECK(parse_metrics("vllm:nixl_num_kv_expired_reqs_total{engine=\"0\"} 0.0\n")
                  .holds_expired == 0);
    }

    TEST_CASE("the epoch changes when the engine's counters were made anew") {
        const auto epoch = [](const char* created) {
            return parse_metrics("vllm:prompt_tokens_created{engine=\"0\"} " +
                                 std::string(created) + "\n")
                .epoch;
        };
        CHECK(epoch("1.79597028e+09") == epoch("1795970280.0"));
        CHECK(epoch("1795970280.0") != epoch("1795970281.0"));
        CHECK(parse_metrics("process_start_time_seconds 5.0\n").epoch != 0);
        CHECK(parse_metrics("").epoch == 0);
    }

    TEST_CASE("older names count: the cache gauge before 0.9.2 and samples without a rank") {
        const Metrics m = parse_metrics(
            "vllm:gpu_cache_usage_perc{model_name=\"m\"} "
            "0.5\nvllm:num_requests_running{model_name=\"m\"} 2.0\n"
            "vllm:gpu_prefix_cache_hits_total{model_name=\"m\"} 7.0\n");
        CHECK(m.ranks.at(0).kv_used == 0.5);
        CHECK(m.ranks.at(0).running == 2);
        CHECK(m.ranks.at(0).hit_tokens == 7);
    }

    TEST_CASE("statistics switched off or nonsense give no load") {
        for (const char* text :
             {"", "\n\n", "# only comments\n", "vllm:num_requests_running",
              "vllm:num_requests_running{", "vllm:num_requests_running{engine=\"0\"}",
              "vllm:num_requests_running{engine=\"0\"} x\n", "}{ 5\n",
              "vllm:num_requests_running}{ 5\n"}) {
            CAPTURE(text);
            CHECK(parse_metrics(text).ranks.empty());
        }
        CHECK(parse_metrics("vllm:num_requests_running{engine=\"70\"} 5\n").ranks.empty());
        CHECK(parse_metrics("vllm:num_requests_running{engine=\"0\"} -5\n").ranks.at(0).running ==
              0);
        CHECK(
            parse_metrics("vllm:num_requests_running{engine=\"0\"} 1e300\n").ranks.at(0).running ==
            0);
        CHECK(parse_metrics("vllm:kv_cache_usage_perc{engine=\"0\"} 40\n").ranks.at(0).kv_used ==
              1.0);
    }

    TEST_CASE("any sleeping rank makes the engine asleep") {
        CHECK(parse_metrics("vllm:engine_sleep_state{engine=\"0\",sleep_state=\"awake\"} 1.0\n"
                            "vllm:engine_sleep_state{engine=\"1\",sleep_state=\"awake\"} 0.0\n")
                  .asleep == true);
    }

    TEST_CASE("the version is the text the engine gives") {
        CHECK(parse_version(R"({"version":"0.32.0"})") == "0.32.0");
        for (const char* body : {"", "{}", "[]", R"({"version":7})", "0.32.0"}) {
            CAPTURE(body);
            CHECK_FALSE(parse_version(body).has_value());
        }
    }

    TEST_CASE("models are base models, adapters name their parent") {
        const auto models = parse_models(
            R"({"object":"list","data":[{"id":"tiny","object":"model","root":"/models/tiny","parent":null,"max_model_len":512},)"
            R"({"id":"sql","root":"adapters/sql","parent":"tiny","max_model_len":null},{"object":"model"}]})");
        REQUIRE(models.has_value());
        REQUIRE(models->size() == 2);
        CHECK((*models)[0].name == "tiny");
        CHECK((*models)[0].parent.empty());
        CHECK((*models)[0].max_tokens == 512);
        CHECK((*models)[1].parent == "tiny");
        CHECK((*models)[1].path == "adapters/sql");
        for (const char* body : {"", "{}", "[]", R"({"data":7})"}) {
            CAPTURE(body);
            CHECK_FALSE(parse_models(body).has_value());
        }
    }
}

TEST_SUITE("vllm/replies") {
    TEST_CASE("a refusal is the client's fault unless the engine says it is going or full") {
        struct Row {
            std::uint32_t code;
            const char* body;
            ReplyMeaning want;
        };
        // The two 500s as a running 0.32.0 sent them.
        for (
            const Row& row :
            {Row{500,
                 R"({"error":{"message":"cannot schedule new futures after shutdown","type":"InternalServerError","param":null,"code":500}})",
                 ReplyMeaning::Draining},
             Row{500,
                 R"({"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","type":"InternalServerError","param":null,"code":500}})",
                 ReplyMeaning::Dead},
             Row{500,
                 R"({"error":{"message":"Internal server error","type":"InternalServerError"}})",
                 ReplyMeaning::Relay},
             Row{400, R"({"error":{"message":"EngineCore encountered an issue, said the prompt"}})",
                 ReplyMeaning::Relay},
             Row{404, R"({"error":{"message":"The model `x` does not exist."}})",
                 ReplyMeaning::Relay},
             Row{401, R"({"error":"Unauthorized"})", ReplyMeaning::Relay},
             Row{429, "", ReplyMeaning::Busy}, Row{503, "", ReplyMeaning::Elsewhere},
             Row{502, "", ReplyMeaning::Relay}, Row{504, "", ReplyMeaning::Relay}}) {
            CAPTURE(row.body);
            CHECK(meaning_of(row.code, row.body) == row.want);
        }
    }
}
