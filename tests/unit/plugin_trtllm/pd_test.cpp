#include <doctest/doctest.h>

#include "plugins/trtllm/accepts.hpp"
#include "plugins/trtllm/pd.hpp"
#include "tests/unit/plugin_trtllm/legs.hpp"

using namespace sluice;
using namespace sluice::trtllm;
using namespace sluice::trtllm::test;

namespace {

constexpr const char* kParams =
    R"({"request_type":"context_only","first_gen_tokens":[450],"ctx_request_id":9007199254740993,)"
    R"( "encoded_opaque_state":"AAECAw==","draft_tokens":null,"disagg_request_id":1152921504606846977,)"
    R"("ctx_dp_rank":0,"ctx_info_endpoint":null,"schedule_style":0,"later":{"x":[1e400]}})";

std::string completion(const std::string& choice, const std::string& more = "") {
    return R"({"id":"cmpl-1","object":"text_completion","created":1760000000,"model":"m",)"
           R"("choices":[{"index":0,"text":" The",)" +
           choice +
           R"(}],"usage":{"prompt_tokens":3,"total_tokens":4,"completion_tokens":1,)"
           R"("prompt_tokens_details":{"cached_tokens":2}})" +
           more + "}";
}
std::string handed(const std::string& params = kParams,
                   const std::string& more = R"(,"prompt_token_ids":[1, 450,451])") {
    return completion(R"("finish_reason":"length","disaggregated_params":)" + params, more);
}

}  // namespace

TEST_SUITE("trtllm/pd") {
    TEST_CASE("what two engines answer as one would is split, what they cannot is refused") {
        struct Row {
            const char* body;
            std::uint32_t want;  // 0: refused
            bool is_chat = false;
        };
        constexpr std::uint32_t kPair = SLUICE_PLAN_SEQUENTIAL, kWhole = SLUICE_PLAN_WHOLE;
        Pair pair;
        for (
            const Row& row : {
                Row{R"({"model":"m","prompt":"hi"})", kPair},
                Row{R"({"prompt":["hi"]})", kPair},
                Row{R"({"prompt":[1,2,3]})", kPair},
                Row{R"({"prompt":[[1,2,3]]})", kPair},
                Row{R"({"prompt":["a","b"]})", 0},
                Row{R"({"prompt":[[1],[2]]})", 0},
                Row{R"({"prompt":[]})", kWhole},
                Row{R"({"prompt":7})", kWhole},
                Row{R"({"prompt":"a","prompt":"b"})", kWhole},
                Row{R"({"model":"m"})", kWhole},
                Row{R"({"prompt":"hi","n":1,"best_of":1,"use_beam_search":false})", kPair},
                Row{R"({"prompt":"hi","n":null,"best_of":null})", kPair},
                Row{R"({"prompt":"hi","n":2})", 0},
                Row{R"({"prompt":"hi","n":1.5})", 0},
                Row{R"({"prompt":"hi","best_of":4})", 0},
                Row{R"({"prompt":"hi","use_beam_search":true})", 0},
                Row{R"({"prompt":"hi","echo":true})", kWhole},
                Row{R"({"prompt":"hi","echo":false})", kPair},
                Row{R"({"prompt":"hi","return_context_logits":true})", kWhole},
                Row{R"({"prompt":"hi","truncate_prompt_tokens":8})", kWhole},
                Row{R"({"prompt":"hi","thinking_token_budget":8})", kWhole},
                Row{R"({"prompt":"hi","max_tokens":1})", kWhole},
                Row{R"({"prompt":"hi","max_tokens":2})", kPair},
                Row{R"({"prompt":"hi","logprobs":1})", kPair},
                Row{R"({"messages":[{"role":"user","content":"say \"image_url\""}]})", kPair, true},
                Row{R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]})",
                    kWhole, true},
                Row{R"({"messages":[],"max_completion_tokens":1})", kWhole, true},
                Row{R"({"messages":[],"n":3})", 0, true},
            }) {
            CAPTURE(row.body);
            const Request request(row.body, row.is_chat ? kChat : "/v1/completions");
            std::string why;
            CHECK(pair.plan(request, &why) == row.want);
            CHECK(why.empty() == (row.want != 0));
        }
        CHECK(pair.plan(Request(R"({"input":"hi","n":2})", "/v1/responses")) == kWhole);
    }

    TEST_CASE("log-probabilities and grammars are split only where every build hands them on") {
        const Request logprobs(R"({"messages":[],"logprobs":true})", kChat);
        const Request grammar(R"({"messages":[],"response_format":{"type":"json_object"}})", kChat);
        const Request plain(R"({"messages":[],"logprobs":false,"response_format":{"type":"text"}})",
                            kChat);
        for (const bool is_new : {true, false}) {
            Pair pair(is_new ? kNewest : schema("", "prompt_token_ids"));
            const std::uint32_t want = is_new ? SLUICE_PLAN_SEQUENTIAL : SLUICE_PLAN_WHOLE;
            CHECK(pair.plan(logprobs) == want);
            CHECK(pair.plan(grammar) == want);
            CHECK(pair.plan(plain) == SLUICE_PLAN_SEQUENTIAL);
            pair.flow.detach();
            CHECK(pair.plan(logprobs) == SLUICE_PLAN_WHOLE);
        }
    }

    TEST_CASE("a context leg has no stream and only the members its build knows") {
        const Request request(
            R"({"model":"m", "prompt":"hi","stream":true,"stream_options":{"include_usage":true},"max_tokens":16,"seed":1e3})");
        struct Row {
            std::string openapi;
            const char* object;
        };
        for (
            const Row& row :
            {Row{kNewest,
                 R"({"request_type":"context_only","disagg_request_id":1152921504606846977,"schedule_style":0})"},
             Row{schema("disagg_request_id"),
                 R"({"request_type":"context_only","disagg_request_id":1152921504606846977})"},
             Row{schema(""), R"({"request_type":"context_only"})"}}) {
            Pair pair(row.openapi);
            const Built built = pair.build(request, SLUICE_LEG_PREFILL);
            REQUIRE(built.status == SLUICE_OK);
            CHECK(
                built.body ==
                R"({"model":"m", "prompt":"hi","stream":false,"max_tokens":16,"seed":1e3,"disaggregated_params":)" +
                    std::string(row.object) + "}");
            CHECK(built.headers.at("X-Request-Id") ==
                  "___prefill_addr_10.0.0.7:8000___decode_addr_10.0.0.8:8000_"
                  "10000000000000010000000000001267");
        }
    }

    TEST_CASE("a generation leg is the client's body with the object as the engine wrote it") {
        Pair pair;
        const Request request(R"({"prompt":"hi","stream":true,"max_tokens":16})");
        const Judged judged = pair.context(request, handed());
        REQUIRE(judged.next == SLUICE_NEXT_CONTINUE);
        CHECK(judged.lease_us == 60'000'000);
        CHECK(judged.hold == 0);
        CHECK(judged.cached == 2);
        CHECK(judged.ids == std::vector<std::uint32_t>{1, 450, 451});
        const Built built = pair.build(request, SLUICE_LEG_DECODE, judged.handoff);
        REQUIRE(built.status == SLUICE_OK);
        std::string object = kParams;
        object.replace(object.find("context_only"), 12, "generation_only");
        object.pop_back();
        CHECK(built.body ==
              R"({"prompt":[1, 450,451],"stream":true,"max_tokens":16,"disaggregated_params":)" +
                  object +
                  R"(,"ctx_usage":{"prompt_tokens":3,"total_tokens":4,"completion_tokens":1,)"
                  R"("prompt_tokens_details":{"cached_tokens":2}}}})");
        CHECK(built.headers.at("x-trtllm-disagg-auth").empty());
        CHECK(built.headers.at("X-Request-Id") ==
              pair.build(request, SLUICE_LEG_PREFILL).headers.at("X-Request-Id"));
    }

    TEST_CASE("a chat keeps its messages and gets the ids where its build takes them") {
        const Request request(R"({"messages":[{"role":"user","content":"hi"}]})", kChat);
        struct Row {
            std::string openapi, more, want;
        };
        for (const Row& row :
             {Row{kNewest, R"(,"prompt_token_ids":[7,8])", R"(,"prompt_token_ids":[7,8])"},
              Row{kNewest, R"(,"prompt_token_ids":[[7,8]])", R"(,"prompt_token_ids":[7,8])"},
              Row{kNewest, R"(,"prompt_token_ids":[[7],[8]])", ""},
              Row{kNewest, R"(,"prompt_token_ids":[7,"x"])", ""},
              Row{kNewest, R"(,"prompt_token_ids":null,"prompt_token_ids_b64":"BwAAAAgAAAA=")",
                  R"(,"prompt_token_ids_b64":"BwAAAAgAAAA=")"},
              Row{schema("", "prompt_token_ids"), R"(,"prompt_token_ids_b64":"BwAAAAgAAAA=")", ""},
              Row{schema(""), R"(,"prompt_token_ids":[7,8])", ""}, Row{kNewest, "", ""}}) {
            CAPTURE(row.more);
            Pair pair(row.openapi);
            const Judged judged = pair.context(request, handed(kParams, row.more));
            const Built built = pair.build(request, SLUICE_LEG_DECODE, judged.handoff);
            REQUIRE(built.status == SLUICE_OK);
            CHECK(built.body.starts_with(
                R"({"messages":[{"role":"user","content":"hi"}],"disaggregated_params":{)"));
            CHECK(built.body.ends_with("}" + row.want + "}"));
        }
    }

    TEST_CASE("without a hand-off the generation leg computes a plain request") {
        Pair pair;
        const Request request(R"({"prompt":"hi"})");
        struct Row {
            const char* name;
            std::string reply;
            std::uint64_t lease_us;
            std::uint32_t flags = 0;
        };
        std::string foreign = kParams;
        foreign.replace(foreign.find("1152921504606846977"), 19, "1152921504606846978");
        for (const Row& row :
             {Row{"no object", completion(R"("finish_reason":"length")"), 0},
              Row{"null", handed("null"), 0}, Row{"no object but text", handed("\"x\""), 0},
              Row{"no context request", handed(R"({"request_type":"context_only"})"), 0},
              Row{"null context request", handed(R"({"ctx_request_id":null})"), 0},
              Row{"no choice", R"({"choices":[]})", 0},
              Row{"two choices", R"({"choices":[{"finish_reason":"stop"},{}]})", 0},
              Row{"of another request", handed(foreign), 60'000'000},
              Row{"cut", handed(), 60'000'000, SLUICE_REPLY_CUT}}) {
            CAPTURE(row.name);
            const Judged judged = pair.context(request, row.reply, row.flags);
            CHECK(judged.next == SLUICE_NEXT_CONTINUE);
            CHECK(judged.handoff.empty());
            CHECK(judged.lease_us == row.lease_us);
            CHECK(pair.build(request, SLUICE_LEG_DECODE).body == request.body());
            CHECK(pair.flow.host.logs().back().level == SLUICE_LOG_WARN);
        }
        for (const char* reason : {"null", "\"length\"", "\"not_finished\"", "7", "\"\""}) {
            CAPTURE(reason);
            const Judged judged =
                pair.context(request, completion(std::string(R"("disaggregated_params":)") +
                                                 kParams + R"(,"finish_reason":)" + reason));
            CHECK(judged.next == SLUICE_NEXT_CONTINUE);
            CHECK_FALSE(judged.handoff.empty());
        }
    }

    TEST_CASE("a 200 that is no JSON object fails and names the endpoint") {
        Pair pair;
        const Request request(R"({"prompt":"hi"})");
        for (const char* reply :
             {"data: {\"choices\":[]}\n\ndata: [DONE]\n\n", "", "[]", "{\"a\":"}) {
            const Judged judged = pair.context(request, reply);
            CHECK(judged.next == SLUICE_NEXT_FAIL);
            CHECK(judged.error.find("context") != std::string::npos);
            CHECK(judged.error.find("10.0.0.7") == std::string::npos);  // clients read it
        }
    }

    TEST_CASE("a hand-off that is not whole is not sent, and nothing is given back") {
        Pair pair;
        const Request request(R"({"prompt":"hi"})");
        const Judged judged = pair.context(request, handed());
        for (std::size_t n = 1; n < judged.handoff.size(); ++n) {
            CHECK(pair.build(request, SLUICE_LEG_DECODE, judged.handoff.substr(0, n)).status ==
                  SLUICE_E_INVALID);
        }
        CHECK(pair.build(request, SLUICE_LEG_DECODE, judged.handoff + "x").status ==
              SLUICE_E_INVALID);
        sluice_leg release = pair.leg(request, SLUICE_LEG_DECODE, judged.handoff);
        release.flags = SLUICE_LEG_RELEASE;
        CHECK(pair.build(request, release).status == SLUICE_E_UNSUPPORTED);
    }

    TEST_CASE("a refusal that names a member of ours is believed, and the leg built anew") {
        const Request request(R"({"messages":[]})", kChat);
        for (
            const char* refusal :
            {R"({"error":"[{'type': 'extra_forbidden', 'loc': ('body', 'disaggregated_params', 'disagg_request_id'), 'msg': 'Extra inputs are not permitted', 'input': 7}]"})",
             R"({"detail":[{"type":"extra_forbidden","loc":["body","disaggregated_params","disagg_request_id"],"msg":"Extra inputs are not permitted"}]})",
             R"({"object":"error","message":"1 validation error for Request\ndisaggregated_params.disagg_request_id\n  Extra inputs are not permitted [type=extra_forbidden, input_value=7, input_type=int]"})"}) {
            CAPTURE(refusal);
            Pair pair;
            REQUIRE(pair.build(request, SLUICE_LEG_PREFILL).body.find("disagg_request_id") !=
                    std::string::npos);
            const sluice_leg leg = pair.leg(request, SLUICE_LEG_PREFILL);
            CHECK(pair.judge(leg, 400, refusal).next == SLUICE_NEXT_REBUILD);
            const std::string body = pair.build(request, SLUICE_LEG_PREFILL).body;
            CHECK(body.find("disagg_request_id") == std::string::npos);
            CHECK(body.find("schedule_style") != std::string::npos);
        }
        Pair pair;
        const sluice_leg context = pair.leg(request, SLUICE_LEG_PREFILL);
        for (
            const char* refusal :
            {R"([{'type': 'extra_forbidden', 'loc': ('body', 'top_q'), 'input': 'disagg_request_id'}])",
             R"([{'type': 'missing', 'loc': ('body', 'model'), 'input': {'disagg_request_id': 7}}])",
             R"({"message":"disagg_request_id is not to your liking"})", "", "{}"}) {
            CAPTURE(refusal);
            CHECK(pair.judge(context, 400, refusal).next == SLUICE_NEXT_RELAY);
        }
        const Judged judged = pair.context(request, handed());
        const sluice_leg generation = pair.leg(request, SLUICE_LEG_DECODE, judged.handoff);
        CHECK(pair.judge(generation, 400,
                         R"([{"type":"extra_forbidden","loc":["body","prompt_token_ids"]}])")
                  .next == SLUICE_NEXT_REBUILD);
        CHECK(pair.build(request, generation).body.find("prompt_token_ids") == std::string::npos);
    }

    TEST_CASE("another process is asked again what it accepts") {
        const Request request(R"({"prompt":"hi"})");
        Pair pair;
        CHECK(pair.judge(pair.leg(request, SLUICE_LEG_PREFILL), 400,
                         R"([{"type":"extra_forbidden","loc":["body","x","schedule_style"]}])")
                  .next == SLUICE_NEXT_REBUILD);
        pair.flow.host.answer("/openapi.json", ok(schema("schedule_style")));
        pair.flow.host.answer("/version", ok(R"({"version":"1.3.1"})"));
        pair.flow.host.advance(3 * kSecond);
        const std::string body = pair.build(request, SLUICE_LEG_PREFILL).body;
        CHECK(body.find("schedule_style") != std::string::npos);
        CHECK(body.find("disagg_request_id") == std::string::npos);
        CHECK(pair.flow.asked("/openapi.json") == 2);
        pair.flow.host.advance(100 * kSecond);
        CHECK(pair.flow.asked("/openapi.json") == 2);
    }

    TEST_CASE("without a schema the release says what is accepted") {
        constexpr std::uint32_t kEarly = kChatIds | kTransferId | kScheduleStyle;
        constexpr std::uint32_t kLate = kEarly | kContextUsage | kFirstLogProbs;
        struct Row {
            const char* version;
            std::uint32_t want;
        };
        for (const Row& row :
             {Row{"0.21.0", 0}, Row{"1.0.0", kChatIds}, Row{"TensorRT-LLM 1.1.0", kChatIds},
              Row{"1.2.0rc6", kChatIds}, Row{"1.3.0rc1", kEarly}, Row{"1.3.0rc24", kLate},
              Row{"1.3.0", kLate}, Row{"1.4.0rc0", kLate}, Row{"2.0.0", kLate}, Row{"", 0},
              Row{"main", 0}, Row{"1.3", 0}, Row{"99999999999.1.1", 0}}) {
            CAPTURE(row.version);
            CHECK(accepted_by_release(row.version) == row.want);
        }
        CHECK(parse_schema(R"({"components":{"schemas":{}}})") == std::nullopt);
        CHECK(parse_schema("") == std::nullopt);
        Pair pair("");
        CHECK(pair.build(Request(R"({"prompt":"hi"})"), SLUICE_LEG_PREFILL)
                  .body.find("disagg_request_id") != std::string::npos);
    }

    TEST_CASE("opaque state of any size is handed on byte for byte, in one pass") {
        // A quadratic step over this much would take minutes.
        const std::string state(4U << 20U, 'Q');
        std::string ids = "[1";
        for (int i = 0; i < 200'000; ++i) {
            ids += ",128000";
        }
        ids += "]";
        Pair pair;
        const Request request(R"({"prompt":")" + std::string(65536, 'p') + R"("})");
        const Judged judged = pair.context(
            request, handed(R"({"ctx_request_id":1,"encoded_opaque_state":")" + state + "\"}",
                            ",\"prompt_token_ids\":" + ids));
        CHECK(judged.ids.size() == 200'001);
        const Built built = pair.build(request, SLUICE_LEG_DECODE, judged.handoff);
        CHECK(built.body.starts_with("{\"prompt\":" + ids + ","));
        CHECK(built.body.find("\"" + state + "\"") != std::string::npos);
        std::string refusal;
        for (int i = 0; i < 20'000; ++i) {
            refusal += "extra_forbidden (((  \nExtra inputs are not permitted";
        }
        CHECK(refused_members(refusal) == 0);
    }

    TEST_CASE("who is to blame for a refusal of a leg, and what may be tried") {
        Pair pair;
        const Request request(R"({"prompt":"hi"})");
        const std::string handoff = pair.context(request, handed()).handoff;
        struct Row {
            std::uint32_t code, context, generation, plain;
        };
        for (const Row& row :
             {Row{400, SLUICE_NEXT_RELAY, SLUICE_NEXT_RELAY, SLUICE_NEXT_RELAY},
              Row{404, SLUICE_NEXT_RELAY, SLUICE_NEXT_RELAY, SLUICE_NEXT_RELAY},
              Row{429, SLUICE_NEXT_BUSY, SLUICE_NEXT_BUSY, SLUICE_NEXT_BUSY},
              Row{500, SLUICE_NEXT_ELSEWHERE, SLUICE_NEXT_RESTART, SLUICE_NEXT_RELAY},
              Row{502, SLUICE_NEXT_ELSEWHERE, SLUICE_NEXT_RESTART, SLUICE_NEXT_RELAY},
              Row{503, SLUICE_NEXT_ELSEWHERE, SLUICE_NEXT_RESTART, SLUICE_NEXT_ELSEWHERE}}) {
            CAPTURE(row.code);
            CHECK(pair.judge(pair.leg(request, SLUICE_LEG_PREFILL), row.code, "{}").next ==
                  row.context);
            CHECK(pair.judge(pair.leg(request, SLUICE_LEG_DECODE, handoff), row.code, "{}").next ==
                  row.generation);
            CHECK(pair.judge(pair.leg(request, SLUICE_LEG_DECODE), row.code, "{}").next ==
                  row.plain);
        }
    }
}
