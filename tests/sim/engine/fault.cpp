#include "tests/sim/engine/fault.hpp"

#include <array>
#include <charconv>
#include <utility>

namespace sluice::sim {
namespace {

constexpr std::array<std::pair<std::string_view, FaultKind>, 15> kWords{{
    {"none", FaultKind::None},
    {"slow-head", FaultKind::SlowHead},
    {"reset", FaultKind::Reset},
    {"close", FaultKind::Close},
    {"hang", FaultKind::Hang},
    {"status", FaultKind::Status},
    {"draining", FaultKind::Draining},
    {"cut-after", FaultKind::CutAfter},
    {"reset-after", FaultKind::ResetAfter},
    {"error-after", FaultKind::ErrorAfter},
    {"stall-after", FaultKind::StallAfter},
    {"abort-after", FaultKind::AbortAfter},
    {"exit-after", FaultKind::ExitAfter},
    {"garbage", FaultKind::Garbage},
    {"health", FaultKind::Health},
}};

}  // namespace

std::optional<Fault> parse_fault(std::string_view text) noexcept {
    const std::size_t colon = text.find(':');
    Fault out;
    if (colon != std::string_view::npos) {
        const std::string_view digits = text.substr(colon + 1);
        const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), out.number);
        if (r.ec != std::errc() || r.ptr != digits.data() + digits.size()) {
            return std::nullopt;
        }
    }
    for (const auto& [word, kind] : kWords) {
        if (word == text.substr(0, colon)) {
            out.kind = kind;
            return out;
        }
    }
    return std::nullopt;
}

void FaultBoard::arm(const Fault& fault, std::uint64_t count) {
    const std::lock_guard lock(mu_);
    if (fault.kind == FaultKind::Health) {
        health_ = static_cast<int>(fault.number);
        return;
    }
    armed_.push_back({fault, count, count == 0});
    if (armed_.size() > kMaxArmed) {
        armed_.pop_front();
    }
}

void FaultBoard::clear() {
    const std::lock_guard lock(mu_);
    armed_.clear();
    health_ = 200;
}

Fault FaultBoard::of(const http::Request& request) {
    if (const std::string* h = request.header("x-sim-fault")) {
        return parse_fault(*h).value_or(Fault{});
    }
    return take();
}

Fault FaultBoard::take() {
    const std::lock_guard lock(mu_);
    if (armed_.empty()) {
        return {};
    }
    Armed& first = armed_.front();
    const Fault out = first.fault;
    if (!first.is_endless && --first.left == 0) {
        armed_.pop_front();
    }
    return out;
}

int FaultBoard::health() const {
    const std::lock_guard lock(mu_);
    return health_;
}

}  // namespace sluice::sim
