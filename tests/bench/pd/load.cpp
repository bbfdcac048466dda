// A closed-loop client of pairs: through a gateway, or calling both legs itself.
//
//   bench-pd-load latency PD PLAIN PREFILLS DECODES ENGINES BYTES STREAM COUNT
//   bench-pd-load work ADDRESS CONNECTIONS COUNT BYTES STREAM MAX_TOKENS
//
// latency: one connection, COUNT rounds of a split request through the gateway at PD, the same two
//          legs called directly, two plain requests through the gateway at PLAIN, and the same two
//          called directly; the order turns with the round. Prints for each the microseconds at
//          the median and the 99th percentile until the answer is whole, or with STREAM 1 until
//          the first event.
// work:    COUNT requests over CONNECTIONS; prints requests a second.
// PREFILLS, DECODES, ENGINES: comma-separated, taken in turn. Exits with 1 when a request failed.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/http/head_writer.hpp"
#include "core/http/upstream.hpp"
#include "tests/bench/pd/load_bodies.hpp"

namespace {

using namespace sluice;
using Clock = std::chrono::steady_clock;
using Pieces = std::span<const std::string_view>;

struct Answer {
    bool is_good = false;
    Clock::time_point first_byte;
    std::string body;
};

class Client {
public:
    explicit Client(net::Loop& loop) : pool_(loop) {}

    // `id`: by which the engine is to call it.
    net::Task<Answer> ask(net::Address to, Pieces pieces, std::uint64_t id) {
        Answer out;
        std::size_t bytes = 0;
        for (const std::string_view piece : pieces) {
            bytes += piece.size();
        }
        std::string head;
        http::RequestWriter writer(head, "POST", "/v1/chat/completions", "bench");
        writer.header("Content-Type", "application/json");
        writer.header("X-Request-Id", "bench-" + std::to_string(id));
        writer.finish(http::Framing::of_length(bytes));
        auto leased = co_await pool_.acquire(to, {});
        if (!leased) {
            co_return out;
        }
        http::UpstreamStream up = std::move(*leased);
        const Status sent = co_await up.send(head, pieces, {});
        if (!sent) {
            co_return out;
        }
        const auto answered = co_await up.read_head({});
        if (!answered || answered->status != 200) {
            co_return out;
        }
        bool is_last = false;
        while (!is_last) {
            const auto part = co_await up.read_body({});
            if (!part) {
                co_return out;
            }
            if (out.body.empty()) {
                out.first_byte = Clock::now();
            }
            out.body += part->bytes;
            is_last = part->last;
        }
        out.is_good = !out.body.empty() && out.body.find("\"error\"") == std::string::npos;
        co_return out;
    }

private:
    http::UpstreamPool pool_;
};

std::vector<net::Address> addresses(std::string_view list) {
    std::vector<net::Address> out;
    while (!list.empty()) {
        const std::size_t comma = std::min(list.find(','), list.size());
        const auto one = net::Address::parse(std::string(list.substr(0, comma)));
        if (!one) {
            std::fprintf(stderr, "%s\n", one.error().what.c_str());
            std::exit(2);
        }
        out.push_back(*one);
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
    return out;
}

// What a latency run asks, and what it found.
struct Rounds {
    Client& client;
    std::vector<net::Address> pd, plain, prefills, decodes, engines;
    bench::Bodies bodies;
    bool is_stream = false;
    std::size_t count = 0;
    bool is_good = true;
    std::array<std::vector<double>, 4> us;  // by way
};
constexpr std::array<const char*, 4> kWays = {"pd_gateway", "pd_direct", "plain_gateway",
                                              "plain_direct"};

double us_between(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double, std::micro>(to - from).count();
}

net::Task<bool> one_way(Rounds& r, std::size_t way, std::size_t round) {
    const std::uint64_t id = round * kWays.size() + way;
    const auto turn = [round](const std::vector<net::Address>& of) {
        return of[round % of.size()];
    };
    const Clock::time_point begun = Clock::now();
    const std::string_view chat = r.bodies.chat;
    Answer answer;
    if (way == 0) {
        answer = co_await r.client.ask(turn(r.pd), {&chat, 1}, id);
    } else if (way == 1) {
        const std::string_view prefill = r.bodies.prefill;
        answer = co_await r.client.ask(turn(r.prefills), {&prefill, 1}, id);
        if (!answer.is_good) {
            co_return false;
        }
        const std::string object(bench::handed_over(answer.body));
        const std::array<std::string_view, 3> decode = {r.bodies.decode, object,
                                                        bench::Bodies::kDecodeEnd};
        answer = co_await r.client.ask(turn(r.decodes), decode, id);
    } else {
        const net::Address to = turn(way == 2 ? r.plain : r.engines);
        answer = co_await r.client.ask(to, {&chat, 1}, id);
        if (!answer.is_good) {
            co_return false;
        }
        answer = co_await r.client.ask(to, {&chat, 1}, id);
    }
    r.us[way].push_back(us_between(begun, r.is_stream ? answer.first_byte : Clock::now()));
    co_return answer.is_good;
}

net::Task<void> measure(net::Loop& loop, Rounds& r) {
    constexpr std::size_t kWarm = 20;
    for (std::size_t round = 0; round < r.count + kWarm && r.is_good; ++round) {
        for (std::size_t i = 0; i < kWays.size() && r.is_good; ++i) {
            r.is_good = co_await one_way(r, (round + i) % kWays.size(), round);
        }
        if (round + 1 == kWarm) {
            for (auto& samples : r.us) {
                samples.clear();
            }
        }
    }
    loop.stop();
}

struct Work {
    Client& client;
    net::Address to;
    std::string_view body;
    std::size_t left = 0, running = 0, good = 0;
};

net::Task<void> worker(net::Loop& loop, Work& work) {
    while (work.left > 0) {
        const std::uint64_t id = work.left--;
        const Answer answer = co_await work.client.ask(work.to, {&work.body, 1}, id);
        work.good += answer.is_good ? 1 : 0;
    }
    if (--work.running == 0) {
        loop.stop();
    }
}

int run_latency(char** arguments) {
    auto loop = net::Loop::create().value();
    Client client(*loop);
    Rounds r{.client = client,
             .pd = addresses(arguments[0]),
             .plain = addresses(arguments[1]),
             .prefills = addresses(arguments[2]),
             .decodes = addresses(arguments[3]),
             .engines = addresses(arguments[4]),
             .bodies = {},
             .is_stream = std::string_view(arguments[6]) == "1",
             .count = std::strtoul(arguments[7], nullptr, 10),
             .us = {}};
    r.bodies = bench::bodies(std::strtoul(arguments[5], nullptr, 10), r.is_stream, 1);
    loop->spawn(measure(*loop, r));
    loop->run();
    for (std::size_t way = 0; way < kWays.size() && r.is_good; ++way) {
        auto& samples = r.us[way];
        std::sort(samples.begin(), samples.end());
        std::printf("%s %.1f %.1f\n", kWays[way], samples[samples.size() / 2],
                    samples[samples.size() * 99 / 100]);
    }
    return r.is_good ? 0 : 1;
}

int run_work(char** arguments) {
    auto loop = net::Loop::create().value();
    Client client(*loop);
    const bench::Bodies bodies = bench::bodies(
        std::strtoul(arguments[3], nullptr, 10), std::string_view(arguments[4]) == "1",
        static_cast<unsigned>(std::strtoul(arguments[5], nullptr, 10)));
    Work work{client, addresses(arguments[0]).front(), bodies.chat};
    work.running = std::strtoul(arguments[1], nullptr, 10);
    work.left = std::strtoul(arguments[2], nullptr, 10);
    const std::size_t asked = work.left;
    const Clock::time_point begun = Clock::now();
    for (std::size_t i = work.running; i > 0; --i) {
        loop->spawn(worker(*loop, work));
    }
    loop->run();
    std::printf("%.0f\n", static_cast<double>(asked) * 1e6 / us_between(begun, Clock::now()));
    return work.good == asked ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view mode = argc > 1 ? argv[1] : "";
    if (mode == "latency" && argc == 10) {
        return run_latency(argv + 2);
    }
    if (mode == "work" && argc == 8) {
        return run_work(argv + 2);
    }
    std::fprintf(stderr,
                 "usage: %s latency PD PLAIN PREFILLS DECODES ENGINES BYTES STREAM COUNT\n"
                 "       %s work ADDRESS CONNECTIONS COUNT BYTES STREAM MAX_TOKENS\n",
                 argv[0], argv[0]);
    return 2;
}
