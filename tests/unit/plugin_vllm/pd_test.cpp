// Which requests split, and what each leg is sent.
#include "plugins/vllm/pd.hpp"

#include "tests/unit/plugin_vllm/legs.hpp"

using namespace sluice::vllm;
using namespace sluice::vllm::test;

namespace {

constexpr const char* kChat = "/v1/chat/completions";
constexpr std::string_view kAsk =
    R"("kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,)"
    R"("remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null})";

}  // namespace

TEST_SUITE("vllm/pd") {
    TEST_CASE(
        "one prompt for one answer splits; what two engines cannot answer as one stays whole") {
        struct Row {
            const char* body;
            const char* path;
            bool splits;
        };
        Pair pair;
        for (const Row& row : {
                 Row{R"({"prompt":"x"})", "/v1/completions", true},
                 Row{R"({"prompt":[1,2,3],"n":1,"best_of":1,"echo":false})", "/v1/completions",
                     true},
                 Row{R"({"prompt":["x"]})", "/v1/completions", true},
                 Row{R"({"prompt":[[1,2]],"best_of":null})", "/v1/completions", true},
                 Row{R"({"messages":[],"logprobs":true,"top_logprobs":2})", kChat, true},
                 Row{R"({"messages":[],"max_tokens":1,"tool_choice":"auto"})", kChat, true},
                 Row{R"({"prompt":["x","y"]})", "/v1/completions", false},
                 Row{R"({"prompt":[[1],[2]]})", "/v1/completions", false},
                 Row{R"({"prompt":[]})", "/v1/completions", false},
                 Row{R"({"prompt":{"a":1}})", "/v1/completions", false},
                 Row{R"({"prompt":"x","prompt":"y"})", "/v1/completions", false},
                 Row{R"({"model":"m"})", "/v1/completions", false},
                 Row{R"({"prompt":"x","n":2})", "/v1/completions", false},
                 Row{R"({"prompt":"x","n":1.0})", "/v1/completions", false},
                 Row{R"({"prompt":"x","n":null})", "/v1/completions", false},
                 Row{R"({"prompt":"x","n":1,"n":3})", "/v1/completions", false},
                 Row{R"({"prompt":"x","best_of":4})", "/v1/completions", false},
                 Row{R"({"prompt":"x","use_beam_search":true})", "/v1/completions", false},
                 Row{R"({"prompt":"x","echo":true,"logprobs":1})", "/v1/completions", false},
                 Row{R"({"prompt":"x","prompt_logprobs":0})", "/v1/completions", false},
                 Row{R"({"prompt":"x","max_tokens":0})", "/v1/completions", false},
                 Row{R"({"prompt":"x","truncate_prompt_tokens":-1})", "/v1/completions", false},
                 Row{R"({"prompt":"x","prompt_embeds":"AAAA"})", "/v1/completions", false},
                 Row{R"({"messages":[],"tool_choice":"required"})", kChat, false},
                 Row{R"({"input":"x"})", "/v1/responses", false},
                 Row{R"({"input":"x"})", "/v1/embeddings", false},
             }) {
            CAPTURE(row.body);
            Request r(row.body, row.path);
            CHECK(pair.plan(r) == (row.splits ? SLUICE_PLAN_SEQUENTIAL : SLUICE_PLAN_WHOLE));
        }
        Request counted(R"({"prompt":"x"})");
        counted.raw.num_choices = 2;
        CHECK(pair.plan(counted) == SLUICE_PLAN_WHOLE);
    }

    TEST_CASE("each connector has its order of legs") {
        struct Row {
            const char* config;
            std::uint32_t kind, flags;
        };
        for (const Row& row :
             {Row{"{}", SLUICE_PLAN_SEQUENTIAL, SLUICE_PLAN_HANDOFF},
              Row{R"({"pd_connector":"nixl"})", SLUICE_PLAN_SEQUENTIAL, SLUICE_PLAN_HANDOFF},
              Row{R"({"pd_connector":"lmcache"})", SLUICE_PLAN_SEQUENTIAL, 0},
              Row{R"({"pd_connector":"mooncake"})", SLUICE_PLAN_CONCURRENT, 0}}) {
            CAPTURE(row.config);
            Pair pair(row.config);
            Request r(R"({"prompt":"x"})");
            std::uint32_t flags = 99;
            CHECK(pair.plan(r, &flags) == row.kind);
            CHECK(flags == row.flags);
        }
    }

    TEST_CASE("the prefill body is the client's for one token, with the six fields") {
        struct Row {
            const char* body;
            const char* path;
            std::string want;
        };
        const std::string ask(kAsk);
        Pair pair;
        for (
            const Row& row : {
                Row{R"({"prompt":"x"})", "/v1/completions",
                    R"({"prompt":"x","max_tokens":1,)" + ask + "}"},
                Row{R"({ "prompt" : "x" , "max_tokens" : 500, "cache_salt":"\u00e9" })",
                    "/v1/completions",
                    R"({ "prompt" : "x" , "max_tokens" : 1, "cache_salt":"\u00e9",)" + ask + " }"},
                Row{R"({"stream":true,"stream_options":{"include_usage":true},"messages":[],)"
                    R"("min_tokens":5,"max_completion_tokens":9,"top_p":1e-1})",
                    kChat,
                    R"({"stream":false,"messages":[],"max_completion_tokens":1,"top_p":1e-1,)"
                    R"("max_tokens":1,)" +
                        ask + "}"},
                Row{R"({"messages":[{"max_tokens":7,"stream":true}],"max_tokens":3,"max_tokens":4})",
                    kChat,
                    R"({"messages":[{"max_tokens":7,"stream":true}],"max_tokens":1,)" + ask + "}"},
                Row{R"({"prompt":"x","kv_transfer_params":{"do_remote_prefill":true},)"
                    R"("kv_transfer_params":7,"max_tokens":2})",
                    "/v1/completions", R"({"prompt":"x",)" + ask + R"(,"max_tokens":1})"},
            }) {
            CAPTURE(row.body);
            Request r(row.body, row.path);
            const Built built = pair.build(r, SLUICE_LEG_PREFILL);
            CHECK(built.status == SLUICE_OK);
            CHECK(built.body == row.want);
        }
    }

    TEST_CASE(
        "the decode leg without a hand-off is the client's body, without what it may not say") {
        Pair pair;
        Request plain(R"({"prompt":"x", "max_tokens": 5,"stream":true})");
        CHECK(pair.build(plain, SLUICE_LEG_DECODE).body == plain.body());
        Request weapon(R"({"kv_transfer_params":{"do_remote_prefill":true},"prompt":"x"})");
        CHECK(pair.build(weapon, SLUICE_LEG_DECODE).body == R"({"prompt":"x"})");
        const Built whole = pair.build(weapon, SLUICE_LEG_SINGLE);
        CHECK(whole.body == weapon.body());
        CHECK(whole.headers.empty());
    }

    TEST_CASE("both legs carry the receipt's id, another attempt another one") {
        Pair pair;
        Request r(R"({"prompt":"x"})");
        const std::string id = pair.id(r);
        const std::string head = "___prefill_addr_10.0.0.7:8000___decode_addr_10.0.0.8:5601_";
        REQUIRE(id.size() == head.size() + 32);
        CHECK(id.substr(0, head.size()) == head);
        CHECK(id.find_first_not_of("0123456789abcdef", head.size()) == std::string::npos);
        CHECK(pair.build(r, SLUICE_LEG_DECODE).headers["X-Request-Id"] == id);
        pair.transfer_id += 1;
        CHECK(pair.id(r) != id);
    }

    TEST_CASE("lmcache: one token of the same prompt, then the client's own body") {
        Pair pair(R"({"pd_connector":"lmcache"})");
        Request r(R"({"prompt":"x","stream":true,"kv_transfer_params":{"a":1}})");
        CHECK(pair.build(r, SLUICE_LEG_PREFILL).body ==
              R"({"prompt":"x","stream":false,"max_tokens":1})");
        const Judged judged = pair.judge(pair.leg(r, SLUICE_LEG_PREFILL), 200,
                                         R"({"kv_transfer_params":{"do_remote_prefill":true}})");
        CHECK(judged.next == SLUICE_NEXT_CONTINUE);
        CHECK(judged.handoff.empty());
        CHECK(judged.lease_us == 0);
        CHECK(judged.hold == 0);
        CHECK(pair.build(r, SLUICE_LEG_DECODE).body == R"({"prompt":"x","stream":true})");
    }

    TEST_CASE("mooncake: both legs meet by the transfer id, at the engine of the rank") {
        Pair pair(R"({"pd_connector":"mooncake","mooncake_bootstrap_port":9001})");
        Request r(R"({"prompt":"x","max_tokens":4})");
        CHECK(pair.build(r, SLUICE_LEG_PREFILL).status == SLUICE_E_UNAVAILABLE);
        CHECK(pair.build(r, SLUICE_LEG_DECODE).status == SLUICE_E_UNAVAILABLE);
        const std::string at = "http://127.0.0.1:9001";
        pair.flow.host.answer(
            at + "/query", {SLUICE_OK,
                            200,
                            R"({"0":{"engine_id":"e0","worker_addr":{}},"1":{"engine_id":"e1"}})",
                            {}});
        pair.flow.host.advance(2'000'000);
        const Built prefill = pair.build(r, SLUICE_LEG_PREFILL);
        const Built decode = pair.build(r, SLUICE_LEG_DECODE);
        const std::string name = "xfer-" + std::to_string(pair.transfer_id);
        CHECK(prefill.body ==
              R"({"prompt":"x","max_tokens":1,"kv_transfer_params":{"do_remote_decode":true,)"
              R"("do_remote_prefill":false,"transfer_id":")" +
                  name + "\"}}");
        CHECK(prefill.headers.at("X-data-parallel-rank") == "1");
        CHECK(decode.body ==
              R"({"prompt":"x","max_tokens":4,"kv_transfer_params":{"do_remote_decode":false,)"
              R"("do_remote_prefill":true,"remote_bootstrap_addr":")" +
                  at + R"(","remote_engine_id":"e1","transfer_id":")" + name + "\"}}");
        CHECK(decode.headers.count("X-data-parallel-rank") == 0);
        sluice_leg pinned = pair.leg(r, SLUICE_LEG_DECODE);
        pinned.peer_dp_rank = 0;
        CHECK(pair.build(r, pinned).body.find("\"e0\"") != std::string::npos);
        pinned.peer_dp_rank = 5;
        CHECK(pair.build(r, pinned).status == SLUICE_E_UNAVAILABLE);
        sluice_leg release = pair.leg(r, SLUICE_LEG_DECODE);
        release.flags = SLUICE_LEG_RELEASE;
        CHECK(pair.build(r, release).status == SLUICE_E_UNSUPPORTED);
        CHECK(pair.judge(pair.leg(r, SLUICE_LEG_PREFILL), 200, "{}").lease_us == 480'000'000);
    }

    TEST_CASE("mooncake: a bootstrap server that is slow for a moment is still where it was") {
        Pair pair(R"({"pd_connector":"mooncake","mooncake_bootstrap_port":9001})");
        Request r(R"({"prompt":"x"})");
        const std::string query = "http://127.0.0.1:9001/query";
        const auto built_after = [&](sluice_status status, std::uint32_t code) {
            pair.flow.host.answer(
                query, {status, code, code == 200 ? R"({"0":{"engine_id":"e"}})" : "", {}});
            pair.flow.host.advance(1'000'000);
            return pair.build(r, SLUICE_LEG_PREFILL).status;
        };
        CHECK(built_after(SLUICE_OK, 200) == SLUICE_OK);
        CHECK(built_after(SLUICE_E_TIMEOUT, 0) == SLUICE_OK);
        CHECK(built_after(SLUICE_E_TIMEOUT, 0) == SLUICE_OK);
        CHECK(built_after(SLUICE_E_TIMEOUT, 0) == SLUICE_E_UNAVAILABLE);
        CHECK(built_after(SLUICE_OK, 200) == SLUICE_OK);
        CHECK(built_after(SLUICE_OK, 404) == SLUICE_E_UNAVAILABLE);
    }

    TEST_CASE("versions compare as numbers, however they are spelled") {
        CHECK(version_number("vLLM 0.32.0") == 32'000);
        CHECK(version_number("0.10.2rc1") == 10'002);
        CHECK(version_number("0.11.1.dev0+gabc") == 11'001);
        CHECK(version_number("1.2") == 1'002'000);
        CHECK(version_number("") == 0);
        CHECK(version_number("dev") == 0);
        CHECK(version_number("7") == 0);
    }

    TEST_CASE("a bootstrap answer of another shape is none") {
        for (const char* body : {"", "[]", R"({"0":{}})", R"({"x":{"engine_id":"a"}})",
                                 R"({"0":{"engine_id":""}})", R"({"0":"e"})"}) {
            CAPTURE(body);
            CHECK_FALSE(parse_bootstrap(body));
        }
    }
}
