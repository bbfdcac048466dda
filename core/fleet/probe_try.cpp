#include "core/fleet/probe_try.hpp"

#include <array>

#include "core/fleet/probe_datagram.hpp"
#include "core/fleet/probe_http.hpp"
#include "core/fleet/probe_wire.hpp"
#include "core/net/datagram.hpp"

namespace sluice::fleet {
namespace {

using Kind = rules::ProbeSpec::Kind;

// tcp and sctp, once connected.
net::Task<Status> ask_bytes(ProbeWire& wire, const rules::ProbeSpec& spec, net::Wait wait) {
    if (!spec.request.empty()) {
        Status sent = co_await wire.send(spec.request, wait);
        if (!sent) {
            co_return std::move(sent).error().at("send");
        }
    }
    AnswerSearch search(spec.reply);
    std::array<char, 4096> step;
    while (!search.is_found()) {
        auto got = co_await wire.recv(step, wait);
        if (!got) {
            co_return std::move(got).error().at("answer");
        }
        search.feed({step.data(), *got});
        if (!search.is_found() && (*got == 0 || search.is_full())) {
            co_return Error{Code::Unavailable, "the answer does not hold what it must"};
        }
    }
    co_return Status{};
}

net::Task<Result<ProbeAnswer>> try_connection(net::Loop& loop, const net::TlsClient& tls,
                                              const rules::ProbeSpec& spec, net::Wait wait) {
    auto wire = co_await ProbeWire::open(loop, tls, spec, wait);
    if (!wire) {
        co_return std::move(wire).error();
    }
    Status answered;
    if (rules::is_http(spec.kind)) {
        answered = co_await ask_http(*wire, spec, wait);
    } else if (rules::is_bytes(spec.kind)) {
        answered = co_await ask_bytes(*wire, spec, wait);
    }
    wire->end();
    if (!answered) {
        co_return std::move(answered).error();
    }
    co_return ProbeAnswer::Came;
}

}  // namespace

net::Task<Result<ProbeAnswer>> try_probe(net::Loop& loop, const net::TlsClient& tls,
                                         const rules::ProbeSpec& spec, net::Wait wait) {
    if (spec.kind == Kind::Udp) {
        co_return co_await try_udp(loop, spec, wait);
    }
    if (spec.kind == Kind::Ping) {
        co_return co_await try_ping(loop, spec, wait);
    }
    co_return co_await try_connection(loop, tls, spec, wait);
}

Status can_probe(const rules::ProbeSpec& spec) {
    static const Status kSctp = net::can_sctp();
    static const Status kPing = net::can_echo(false);
    static const Status kPingV6 = net::can_echo(true);
    if (spec.kind == Kind::Sctp) {
        return kSctp;
    }
    if (spec.kind == Kind::Ping) {
        return spec.address.find(':') == std::string::npos ? kPing : kPingV6;
    }
    return {};
}

void AnswerSearch::feed(std::string_view bytes) {
    bytes = bytes.substr(0, kMaxAnswerBytes - std::min(kMaxAnswerBytes, seen_));
    seen_ += bytes.size();
    if (is_found()) {
        return;
    }
    tail_.append(bytes);
    is_found_ = tail_.find(wanted_) != std::string::npos;
    if (tail_.size() >= wanted_.size()) {
        tail_.erase(0, tail_.size() - wanted_.size() + 1);
    }
}

}  // namespace sluice::fleet
