#include "core/fleet/silence.hpp"

#include <algorithm>

#include "core/base/log.hpp"

namespace sluice::fleet {
namespace {

constexpr std::uint64_t kFirstGapUs = 1'500'000;
constexpr std::uint64_t kMaxGapUs =
    std::chrono::duration_cast<std::chrono::microseconds>(Silence::kMaxGap).count();
// A connect that takes longer says nothing: the backlog may be full. Below the shortest gap.
constexpr std::chrono::milliseconds kConnect{500};
// Between the two refusals that count: an engine that starts anew is there again by then, or not.
constexpr std::chrono::milliseconds kAgain{200};
// What a look takes when the port answers at once.
constexpr std::uint64_t kAnswerUs = 300'000;

net::Task<bool> refuses(net::Loop& loop, net::Address port) {
    const auto socket = co_await net::connect(loop, port, {loop.after(kConnect), nullptr});
    co_return !socket.ok() && socket.error().code == Code::Unavailable;
}

net::Task<void> look(net::Loop& loop, net::Address port, EndpointPtr endpoint) {
    const std::uint64_t begun = loop.now_us();
    bool is_refused = co_await refuses(loop, port);
    if (is_refused) {
        // The sleep has no canceller: it always reaches its deadline.
        (void)co_await loop.sleep_until(loop.after(kAgain));
        is_refused = co_await refuses(loop, port);
    }
    if (!is_refused) {
        co_return;
    }
    PortLook& known = endpoint->port_look();
    known.gap_us.store(kFirstGapUs, std::memory_order_relaxed);
    known.refused_us.store(begun, std::memory_order_relaxed);
    endpoint->pass_over(Mark::Gone, loop.now_us());
    log::warn("requests wait for an endpoint whose port refuses connections",
              {{"endpoint", endpoint->name()}});
}

// Whether the caller is the one who looks.
bool takes_turn(PortLook& known, std::uint64_t now) noexcept {
    std::uint64_t next = known.next_us.load(std::memory_order_relaxed);
    if (now < next) {
        return false;
    }
    // After a time without anybody waiting it begins anew.
    const std::uint64_t before = known.gap_us.load(std::memory_order_relaxed);
    const bool is_fresh = before == 0 || now - next > kMaxGapUs;
    const std::uint64_t gap = is_fresh ? kFirstGapUs : std::min(before * 2, kMaxGapUs);
    if (!known.next_us.compare_exchange_strong(next, now + gap, std::memory_order_relaxed)) {
        return false;
    }
    known.gap_us.store(gap, std::memory_order_relaxed);
    return true;
}

}  // namespace

bool Silence::is_gone(net::Loop& loop, const net::Address& port, const EndpointPtr& endpoint) {
    PortLook& known = endpoint->port_look();
    const std::uint64_t now = loop.now_us();
    if (known.refused_us.load(std::memory_order_relaxed) > since_us_) {
        return true;
    }
    if (takes_turn(known, now)) {
        loop.spawn(look(loop, port, endpoint));
    }
    const std::uint64_t next = known.next_us.load(std::memory_order_relaxed);
    // Soon after a look has its answer, others' included: it began at most a gap before the next.
    const std::uint64_t begun = next - std::min(next, known.gap_us.load(std::memory_order_relaxed));
    next_us_ = now < begun + kAnswerUs ? begun + kAnswerUs : next + kAnswerUs;
    return false;
}

}  // namespace sluice::fleet
