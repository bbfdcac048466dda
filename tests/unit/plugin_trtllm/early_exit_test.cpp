#include <doctest/doctest.h>

#include "plugins/trtllm/early_exit.hpp"
#include "tests/unit/plugin_trtllm/legs.hpp"

using namespace sluice;
using namespace sluice::trtllm;
using namespace sluice::trtllm::test;

namespace {

const std::string kUsage =
    R"("usage":{"prompt_tokens":41,"total_tokens":42,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":32}})";

std::string complete(const std::string& choice, const char* object = "text_completion") {
    return R"({"prompt_token_ids":[1,2], "id":"c-1","object":")" + std::string(object) +
           R"(","created":1760000000,"model":"m","choices":[ {"index":0,)" + choice +
           R"(,"disaggregated_params":{"ctx_request_id":1},"avg_decoded_tokens_per_iter":null} ],)" +
           kUsage + R"(,"prompt_token_ids_b64":"AQAAAA==" })";
}

}  // namespace

TEST_SUITE("trtllm/early_exit") {
    TEST_CASE("a complete answer goes to the client without what engines say to each other") {
        Pair pair;
        const Request request(R"({"prompt":"hi"})");
        const Judged judged = pair.context(
            request, complete(R"("text":"\u00e9","finish_reason":"stop","stop_reason":null)"));
        CHECK(judged.next == SLUICE_NEXT_ANSWER);
        CHECK(
            judged.answer ==
            R"({"id":"c-1","object":"text_completion","created":1760000000,"model":"m","choices":[ )"
            R"({"index":0,"text":"\u00e9","finish_reason":"stop","stop_reason":null,)"
            R"("avg_decoded_tokens_per_iter":null} ],)" +
                kUsage + " }");
        CHECK(judged.headers.at("Content-Type") == "application/json");
        CHECK(judged.handoff.empty());
        CHECK(judged.cached == 32);
        CHECK(judged.lease_us == 0);
    }

    TEST_CASE("a client that streams gets a completion as events") {
        Pair pair;
        Request request(R"({"prompt":"hi","stream":true,"stream_options":{"include_usage":true}})");
        request.raw.flags = SLUICE_REQ_STREAM;
        const Judged judged = pair.context(
            request,
            complete(
                R"("text":" The","logprobs":{"tokens":[" The"]},"finish_reason":"stop","stop_reason":"x")"));
        CHECK(judged.next == SLUICE_NEXT_ANSWER);
        CHECK(judged.headers.at("Content-Type").starts_with("text/event-stream"));
        const std::string head =
            R"(data: {"id":"c-1","object":"text_completion","created":1760000000,"model":"m","choices":[)";
        CHECK(
            judged.answer ==
            head +
                R"({"index":0,"text":" The","logprobs":{"tokens":[" The"]},"finish_reason":null}]})"
                "\n\n" +
                head + R"({"index":0,"text":"","finish_reason":"stop","stop_reason":"x"}]})" +
                "\n\n" + head + "]," + kUsage + "}\n\ndata: [DONE]\n\n");
    }

    TEST_CASE("a client that streams gets a chat as events") {
        Pair pair;
        Request request(R"({"messages":[],"stream":true})", kChat);
        request.raw.flags = SLUICE_REQ_STREAM;
        const std::string head =
            R"(data: {"id":"c-1","object":"chat.completion.chunk","created":1760000000,"model":"m","choices":[{"index":0,)";
        struct Row {
            const char* name;
            std::string choice;
            std::vector<std::string> chunks;
        };
        for (
            const Row& row : {
                Row{"content",
                    R"("message":{"role":"assistant","content":"a\"b","reasoning_content":null,"tool_calls":[]},"logprobs":{"content":[1]},"finish_reason":"stop","stop_reason":7)",
                    {R"("delta":{"role":"assistant","content":""},"finish_reason":null)",
                     R"("delta":{"content":"a\"b"},"logprobs":{"content":[1]},"finish_reason":null)",
                     R"("delta":{},"finish_reason":"stop","stop_reason":7)"}},
                Row{"reasoning and a call",
                    R"("message":{"role":"assistant","content":"","reasoning_content":"hm","tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{}"}},{"index":5}]},"finish_reason":"tool_calls")",
                    {R"("delta":{"role":"assistant","content":""},"finish_reason":null)",
                     R"("delta":{"reasoning_content":"hm"},"finish_reason":null)",
                     R"("delta":{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"f","arguments":"{}"}},{"index":5}]},"finish_reason":null)",
                     R"("delta":{},"finish_reason":"tool_calls")"}},
                Row{"nothing",
                    R"("message":null,"finish_reason":"stop")",
                    {R"("delta":{"role":"assistant","content":""},"finish_reason":null)",
                     R"("delta":{},"finish_reason":"stop")"}},
            }) {
            CAPTURE(row.name);
            std::string want;
            for (const std::string& chunk : row.chunks) {
                want += head + chunk + "}]}\n\n";
            }
            CHECK(pair.context(request, complete(row.choice, "chat.completion")).answer ==
                  want + "data: [DONE]\n\n");
        }
    }

    TEST_CASE("line breaks between the engine's values end no event") {
        std::string reply = complete(R"("message":{"content":"x"},"finish_reason":"stop")");
        const std::string flat = streamed_answer(*read_context_reply(reply), true, {true, true});
        for (std::size_t at = reply.find(",\""); at != std::string::npos;
             at = reply.find(",\"", at + 3)) {
            reply.insert(at + 1, "\n\r");
        }
        const std::string events = streamed_answer(*read_context_reply(reply), true, {true, true});
        CHECK(std::count(events.begin(), events.end(), '\n') ==
              std::count(flat.begin(), flat.end(), '\n'));
        CHECK(std::count(events.begin(), events.end(), '\r') == 0);
    }

    TEST_CASE("usage goes with the chunks that were asked for") {
        struct Row {
            const char* options;
            bool has_usage, has_usage_all;
        };
        for (const Row& row :
             {Row{"", false, false}, Row{"{}", true, false},
              Row{R"({"include_usage":true})", true, false},
              Row{R"({"include_usage":false,"continuous_usage_stats":true})", false, false},
              Row{R"({"include_usage":null})", false, false},
              Row{R"({"continuous_usage_stats":true})", true, true}}) {
            CAPTURE(row.options);
            const StreamWish wish = stream_wish(row.options);
            CHECK(wish.has_usage == row.has_usage);
            CHECK(wish.has_usage_all == row.has_usage_all);
        }
        const std::string reply = complete(R"("message":{"content":"x"},"finish_reason":"stop")");
        const auto read = read_context_reply(reply);
        REQUIRE(read);
        const std::string all = streamed_answer(*read, true, {true, true});
        CHECK(all.find(R"("usage":{"prompt_tokens":41,"total_tokens":41,"completion_tokens":0,)"
                       R"("prompt_tokens_details":{"cached_tokens":32}}})") != std::string::npos);
        std::size_t count = 0;
        for (std::size_t at = all.find(kUsage); at != std::string::npos;
             at = all.find(kUsage, at + 1)) {
            ++count;
        }
        CHECK(count == 3);  // content, reason, the last
    }
}
