// A mock engine and a closed-loop client in one program, for counting what a relay between them
// does.
//
//   bench-relay-load engine LISTEN GAP_MS          answers POST with 200 bytes; with "stream" in
//   the
//                                                  path with 100 chunks of 190 bytes, GAP_MS apart
//   bench-relay-load client TARGET CONNECTIONS REQUESTS PATH BODY_BYTES
//
// The client ends after all requests and prints how many succeeded.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/http/head_writer.hpp"
#include "core/http/respond.hpp"
#include "core/http/server.hpp"
#include "core/http/upstream.hpp"

using namespace sluice;

namespace {

class Engine final : public http::Handler {
public:
    explicit Engine(std::chrono::milliseconds gap) : gap_(gap) {}

    net::Task<void> handle(http::ServerStream& stream) override {
        const auto body = co_await stream.read_body(std::size_t{64} << 20U);
        if (!body.ok()) {
            co_return;
        }
        if (stream.head().path.find("stream") == std::string_view::npos) {
            (void)co_await http::send_simple(stream, 200, "application/json", answer_);
            co_return;
        }
        const http::Header type{"Content-Type", "text/event-stream"};
        stream.send_head(200, {&type, 1}, http::Framing::chunked());
        for (int i = 0; i < 100; ++i) {
            const Status sent = co_await stream.send_body(event_, false);
            if (!sent.ok()) {
                co_return;
            }
            if (gap_.count() != 0) {
                (void)co_await stream.loop().sleep_until(stream.loop().after(gap_));
            }
        }
        (void)co_await stream.finish();
    }

private:
    std::chrono::milliseconds gap_;
    std::string answer_ = std::string(200, 'a');
    std::string event_ = "data: " + std::string(182, 'e') + "\n\n";
};

struct Work {
    http::UpstreamPool& pool;
    net::Address target;
    std::string head;
    std::string body;
    int left = 0;
    int running = 0;
    int good = 0;
};

net::Task<bool> one(Work& work) {
    auto leased = co_await work.pool.acquire(work.target, {});
    if (!leased.ok()) {
        co_return false;
    }
    http::UpstreamStream up = std::move(leased).value();
    const Status sent = co_await up.send(work.head, work.body, {});
    if (!sent.ok()) {
        co_return false;
    }
    const auto head = co_await up.read_head({});
    if (!head.ok() || head->status != 200) {
        co_return false;
    }
    for (;;) {
        const auto part = co_await up.read_body({});
        if (!part.ok()) {
            co_return false;
        }
        if (part->last) {
            co_return true;
        }
    }
}

net::Task<void> client(net::Loop& loop, Work& work) {
    while (work.left > 0) {
        --work.left;
        const bool ok = co_await one(work);
        work.good += ok ? 1 : 0;
    }
    if (--work.running == 0) {
        loop.stop();
    }
}

int run_engine(net::Loop& loop, const net::Address& at, int gap_ms) {
    Engine engine{std::chrono::milliseconds(gap_ms)};
    const auto server = http::Server::listen(loop, at, engine, {});
    if (!server.ok()) {
        std::fprintf(stderr, "%s\n", server.error().what.c_str());
        return 1;
    }
    loop.run();
    return 0;
}

int run_client(net::Loop& loop, const net::Address& to, char** arguments) {
    http::UpstreamPool pool(loop);
    Work work{pool, to, {}, std::string(std::strtoul(arguments[3], nullptr, 10), 'b')};
    work.running = std::atoi(arguments[0]);
    work.left = std::atoi(arguments[1]);
    const int asked = work.left;
    http::RequestWriter writer(work.head, "POST", arguments[2], "gateway");
    writer.header("Content-Type", "application/json");
    writer.header("User-Agent", "load");
    writer.header("Accept", "*/*");
    writer.finish(http::Framing::of_length(work.body.size()));
    for (int i = work.running; i > 0; --i) {
        loop.spawn(client(loop, work));
    }
    loop.run();
    std::printf("%d of %d\n", work.good, asked);
    return work.good == asked ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view mode = argc > 1 ? argv[1] : "";
    if (!(mode == "engine" && argc == 4) && !(mode == "client" && argc == 7)) {
        std::fprintf(stderr,
                     "usage: %s engine LISTEN GAP_MS\n"
                     "       %s client TARGET CONNECTIONS REQUESTS PATH BODY_BYTES\n",
                     argv[0], argv[0]);
        return 2;
    }
    const auto address = net::Address::parse(argv[2]);
    if (!address.ok()) {
        std::fprintf(stderr, "%s\n", address.error().what.c_str());
        return 2;
    }
    auto loop = net::Loop::create().value();
    return mode == "engine" ? run_engine(*loop, *address, std::atoi(argv[3]))
                            : run_client(*loop, *address, argv + 3);
}
