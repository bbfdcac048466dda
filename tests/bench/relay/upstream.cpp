// A lean engine for benches: every POST gets a 4 KiB JSON answer, or, when the body asks for a
// stream, EVENTS server-sent events, one every GAP_US microseconds.
//
//   bench-upstream PORT [EVENTS GAP_US]      listens on 127.0.0.1
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/http/server.hpp"

namespace {

using namespace sluice;

class Engine final : public http::Handler {
public:
    Engine(unsigned events, std::chrono::microseconds gap) : events_(events), gap_(gap) {
        answer_ =
            R"({"id":"cmpl-1","object":"text_completion","choices":[{"index":0,"text":")" +
            std::string(3900, 'a') +
            R"(","finish_reason":"length"}],"usage":{"prompt_tokens":1000,"completion_tokens":1}})";
        event_ =
            R"(data: {"id":"cmpl-1","object":"text_completion","choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":null,"padding":"0123456789"})"
            "\n\n";
    }

    net::Task<void> handle(http::ServerStream& stream) override {
        const auto body = co_await stream.read_body(std::size_t{64} << 20U);
        if (!body) {
            co_return;
        }
        const bool is_stream = body->find("\"stream\":true") != std::string_view::npos ||
                               body->find("\"stream\": true") != std::string_view::npos;
        const http::Header type{"Content-Type",
                                is_stream ? "text/event-stream" : "application/json"};
        const http::HeaderSpan headers(&type, 1);
        if (!is_stream) {
            stream.send_head(200, headers, http::Framing::of_length(answer_.size()));
            const Status sent = co_await stream.send_body(answer_, true);
            (void)sent;  // the client is gone: nothing to do
            co_return;
        }
        stream.send_head(200, headers, http::Framing::chunked());
        for (unsigned i = 0; i < events_; ++i) {
            if (gap_.count() > 0) {
                const std::uint64_t at = stream.loop().after(gap_);
                const Status slept = co_await stream.loop().sleep_until(at, &stream.departure());
                if (!slept) {
                    co_return;
                }
            }
            const Status sent = co_await stream.send_body(event_);
            if (!sent) {
                co_return;
            }
        }
        const Status ended = co_await stream.send_body("data: [DONE]\n\n", true);
        (void)ended;
    }

private:
    unsigned events_;
    std::chrono::microseconds gap_;
    std::string answer_;
    std::string event_;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: bench-upstream PORT [EVENTS GAP_US]\n");
        return 2;
    }
    auto loop = net::Loop::create();
    const auto at = net::Address::parse("127.0.0.1:" + std::string(argv[1]));
    if (!loop || !at) {
        return 1;
    }
    const auto events = static_cast<unsigned>(argc > 2 ? std::atoi(argv[2]) : 64);
    Engine engine(events, std::chrono::microseconds(argc > 3 ? std::atoi(argv[3]) : 5000));
    auto server = http::Server::listen(**loop, *at, engine, {});
    if (!server) {
        std::fprintf(stderr, "%s\n", server.error().what.c_str());
        return 1;
    }
    std::puts("ready");
    std::fflush(stdout);
    (*loop)->run();
    return 0;
}
