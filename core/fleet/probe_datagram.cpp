#include "core/fleet/probe_datagram.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "core/base/clock.hpp"
#include "core/fleet/icmp_echo.hpp"
#include "core/fleet/probe_wire.hpp"
#include "core/net/datagram.hpp"

namespace sluice::fleet {
namespace {

net::Task<Status> send_one(net::Socket& socket, std::string_view bytes, net::Wait wait) {
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    auto moved = co_await socket.send({&part, 1}, wait);
    if (!moved) {
        co_return std::move(moved).error();
    }
    co_return Status{};
}

// No two echoes of this process, and hardly two of any, are alike.
std::string echo_payload() {
    static std::atomic<std::uint64_t> count{0};
    return "sluice-probe " + std::to_string(wall_us()) + " " +
           std::to_string(count.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace

net::Task<Result<ProbeAnswer>> try_udp(net::Loop& loop, const rules::ProbeSpec& spec,
                                       net::Wait wait) {
    const auto to = net::Address::parse_ip(spec.address, spec.port);
    if (!to) {
        co_return to.error();
    }
    auto socket = net::open_udp(loop, *to);
    if (!socket) {
        co_return opening_failed(std::move(socket).error());
    }
    Status sent = co_await send_one(*socket, spec.request, wait);
    if (!sent) {
        co_return std::move(sent).error();
    }
    net::Wait until = wait;
    if (spec.reply.empty()) {
        until.deadline_us = std::min(wait.deadline_us, loop.after(kMaxSilence));
    }
    std::vector<char> datagram(kMaxAnswerBytes);
    bool has_answered = false;
    for (;;) {
        auto got = co_await socket->recv(datagram, until);
        if (!got && got.error().code == Code::Timeout && spec.reply.empty()) {
            co_return ProbeAnswer::Silence;
        }
        if (!got && got.error().code == Code::Timeout) {
            co_return Error{Code::Timeout,
                            has_answered ? "no answer held what it must" : "no answer"};
        }
        if (!got) {
            co_return std::move(got).error();
        }
        has_answered = true;
        // Each datagram is an answer of its own.
        if (std::string_view(datagram.data(), *got).find(spec.reply) != std::string_view::npos) {
            co_return ProbeAnswer::Came;
        }
    }
}

net::Task<Result<ProbeAnswer>> try_ping(net::Loop& loop, const rules::ProbeSpec& spec,
                                        net::Wait wait) {
    const auto to = net::Address::parse_ip(spec.address, 0);
    if (!to) {
        co_return to.error();
    }
    auto echo = net::open_echo(loop, *to);
    if (!echo) {
        co_return opening_failed(std::move(echo).error());
    }
    const std::string payload = echo_payload();
    const auto identifier = static_cast<std::uint16_t>(now_us());
    const std::string request = echo_request(to->is_v6(), identifier, payload);
    Status sent = co_await send_one(echo->socket, request, wait);
    if (!sent) {
        co_return std::move(sent).error().at("ping");
    }
    std::vector<char> message(2048);
    for (;;) {
        auto got = co_await echo->socket.recv(message, wait);
        if (!got && got.error().code == Code::Timeout) {
            co_return Error{Code::Timeout, "ping: no reply"};
        }
        if (!got) {
            co_return std::move(got).error().at("ping");
        }
        if (is_echo_reply({message.data(), *got}, to->is_v6(), echo->is_raw, payload)) {
            co_return ProbeAnswer::Came;
        }
    }
}

}  // namespace sluice::fleet
