// One of a pair of engines, lean: answers chats as vLLM with a NIXL connector words them, without
// computing anything. What does not fit its role is a 500, so that a bench cannot measure the wrong
// thing.
//
//   bench-pd-engine prefill|decode|plain PORT [GAP_US]     listens on 127.0.0.1
//
// prefill: wants to be asked for a hand-off; names a block for every 16 tokens, of 4 bytes each.
// decode:  wants an object of such an answer. plain: wants neither.
// A stream has max_tokens events, GAP_US apart, the first at once.
//
// Source: vLLM 0.32, recorded exchanges pd-prefill-chat, pd-decode-chat and
//         pd-decode-chat-stream-usage of tests/vectors/vllm_http/captures.jsonl.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/http/respond.hpp"
#include "core/http/server.hpp"

namespace {

using namespace sluice;

enum class Role { Prefill, Decode, Plain };

bool holds(std::string_view text, std::string_view word) noexcept {
    return text.find(word) != std::string_view::npos;
}

unsigned max_tokens_of(std::string_view body) {
    constexpr std::string_view kName = "\"max_tokens\":";
    unsigned out = 1;
    if (const std::size_t at = body.find(kName); at != std::string_view::npos) {
        const char* const from = body.data() + at + kName.size();
        std::from_chars(from, body.data() + body.size(), out);
    }
    return out;
}

class Engine final : public http::Handler {
public:
    Engine(Role role, std::string port, std::chrono::microseconds gap)
        : role_(role), port_(std::move(port)), gap_(gap) {}

    net::Task<void> handle(http::ServerStream& stream) override {
        const auto body = co_await stream.read_body(std::size_t{64} << 20U);
        if (!body) {
            co_return;
        }
        if (stream.head().method != "POST") {
            const bool is_version = stream.head().path == "/version";
            const Status sent = co_await http::send_simple(
                stream, is_version ? 200 : 404, "application/json", R"({"version":"0.32.0"})");
            (void)sent;  // it asks again
            co_return;
        }
        const bool is_asked = holds(*body, "\"do_remote_decode\":true");
        const bool is_given = holds(*body, "\"do_remote_prefill\":true") &&
                              holds(*body, "\"remote_engine_id\":\"00000000-");
        if (is_asked != (role_ == Role::Prefill) || is_given != (role_ == Role::Decode)) {
            const Status sent = co_await http::send_simple(stream, 500, "application/json",
                                                           R"({"error":"not for this role"})");
            (void)sent;
            co_return;
        }
        const std::string id = "chatcmpl-" + std::string(stream.head().header("X-Request-Id"));
        if (holds(*body, "\"stream\":true")) {
            co_await events(stream, id, body->size() / 4, max_tokens_of(*body));
            co_return;
        }
        const std::string whole = answer(id, body->size() / 4);
        const Status sent = co_await http::send_simple(stream, 200, "application/json", whole);
        (void)sent;  // the client is gone: nothing to do
    }

private:
    std::string answer(std::string_view id, std::size_t tokens) {
        const std::string prompt = std::to_string(tokens);
        std::string out;
        out.append(R"({"id":")").append(id);
        out.append(
            R"(","object":"chat.completion","created":1700000000,"model":"bench","choices":[{"index":0,"message":{"role":"assistant","content":")");
        out.append(role_ == Role::Prefill ? " word" : text_);
        out.append(
            R"(","refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null,"routed_experts":null}],"service_tier":null,"system_fingerprint":"vllm-0.32.0-00000000","usage":{"prompt_tokens":)");
        out.append(prompt).append(R"(,"total_tokens":)").append(std::to_string(tokens + 64));
        out.append(
            R"(,"completion_tokens":64,"prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":0,"multimodal_tokens":null},"completion_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":)");
        if (role_ == Role::Prefill) {
            out.append(
                R"({"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[)");
            out.append(block_ids(tokens / 16 + 1));
            out.append(
                R"(]],"remote_engine_id":"00000000-0000-4000-8000-000000000001","remote_request_id":")");
            out.append(id).append(R"(-00000002","remote_host":"127.0.0.1","remote_port":)");
            out.append(port_);
            out.append(R"(,"tp_size":1,"dcp_size":1,"pp_size":1,"remote_num_tokens":)");
            out.append(prompt);
            out.append(
                R"(,"remote_blocks_expiry_time":null,"transfer_mode":"pull","remote_prefill_cached_tokens":0})");
        } else {
            out.append("null");
        }
        out.append(R"(,"ec_transfer_params":null,"metrics":null})");
        return out;
    }

    // Kept: prompts of a bench have few lengths.
    const std::string& block_ids(std::size_t count) {
        if (count != num_blocks_) {
            num_blocks_ = count;
            blocks_.clear();
            for (std::size_t i = 0; i < count; ++i) {
                blocks_.append(i == 0 ? "" : ",").append(std::to_string(1000 + i * 7 % 90000));
            }
        }
        return blocks_;
    }

    net::Task<void> events(http::ServerStream& stream, std::string id, std::size_t tokens,
                           unsigned count) {
        const http::Header type{"Content-Type", "text/event-stream; charset=utf-8"};
        stream.send_head(200, {&type, 1}, http::Framing::chunked());
        const std::string begin = R"(data: {"id":")" + id +
                                  R"(","object":"chat.completion.chunk","created":1700000000,)"
                                  R"("model":"bench","choices":[)";
        const std::string event = begin +
                                  R"({"index":0,"delta":{"content":" word"},"logprobs":null,)"
                                  R"("finish_reason":null,"token_ids":null}]})"
                                  "\n\n";
        for (unsigned i = 0; i < count; ++i) {
            if (i != 0 && gap_.count() > 0) {
                const std::uint64_t at = stream.loop().after(gap_);
                const Status slept = co_await stream.loop().sleep_until(at, &stream.departure());
                if (!slept) {
                    co_return;
                }
            }
            const Status sent = co_await stream.send_body(event);
            if (!sent) {
                co_return;
            }
        }
        const std::string usage =
            begin + R"(],"usage":{"prompt_tokens":)" + std::to_string(tokens) +
            R"(,"total_tokens":)" + std::to_string(tokens + count) + R"(,"completion_tokens":)" +
            std::to_string(count) +
            R"(,"prompt_tokens_details":{"cached_tokens":0}},"system_fingerprint":"vllm-0.32.0-00000000"})"
            "\n\ndata: [DONE]\n\n";
        const Status ended = co_await stream.send_body(usage, true);
        (void)ended;
    }

    const Role role_;
    const std::string port_;
    const std::chrono::microseconds gap_;
    const std::string text_ = std::string(320, 'a');
    std::string blocks_;
    std::size_t num_blocks_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    const std::string_view role = argc > 1 ? argv[1] : "";
    if (argc < 3 || (role != "prefill" && role != "decode" && role != "plain")) {
        std::fprintf(stderr, "usage: %s prefill|decode|plain PORT [GAP_US]\n", argv[0]);
        return 2;
    }
    auto loop = net::Loop::create();
    const auto at = net::Address::parse("127.0.0.1:" + std::string(argv[2]));
    if (!loop || !at) {
        return 1;
    }
    Engine engine(role == "prefill"  ? Role::Prefill
                  : role == "decode" ? Role::Decode
                                     : Role::Plain,
                  argv[2], std::chrono::microseconds(argc > 3 ? std::atoi(argv[3]) : 0));
    auto server = http::Server::listen(**loop, *at, engine, {});
    if (!server) {
        std::fprintf(stderr, "%s\n", server.error().what.c_str());
        return 1;
    }
    (*loop)->run();
    return 0;
}
