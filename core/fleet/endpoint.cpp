#include "core/fleet/endpoint.hpp"

#include <algorithm>

#include "core/base/clock.hpp"

namespace sluice::fleet {
namespace {

// One more than any engine has ranks behind one address; an adapter that reports more is wrong.
constexpr std::uint32_t kMaxRanks = 256;

std::string host_port(const std::string& ip, std::uint16_t port) {
    const bool is_v6 = ip.find(':') != std::string::npos;
    return (is_v6 ? "[" + ip + "]" : ip) + ":" + std::to_string(port);
}

}  // namespace

std::string_view to_string(Health health) noexcept {
    switch (health) {
        case Health::Unknown:
            return "unknown";
        case Health::Ready:
            return "ready";
        case Health::Busy:
            return "busy";
        case Health::Asleep:
            return "asleep";
        case Health::Suspect:
            return "suspect";
        case Health::Down:
            return "down";
    }
    return "unknown";
}

std::string_view to_string(Mark mark) noexcept {
    switch (mark) {
        case Mark::None:
            return "";
        case Mark::Refused:
            return "it refused a connection or a request a moment ago";
        case Mark::Draining:
            return "it says that it is draining";
        case Mark::Gone:
            return "its core is gone or its port refuses connections";
    }
    return "";
}

Endpoint::Endpoint(std::uint64_t id, std::string ip, std::uint16_t port)
    : id_(id),
      ip_(std::move(ip)),
      port_(port),
      name_(host_port(ip_, port_)),
      base_url_("http://" + name_) {}

void Endpoint::set_load(std::uint32_t rank, const Load& load) {
    if (rank == UINT32_MAX) {
        whole_ = load;
        publish(whole_);
        return;
    }
    if (rank >= kMaxRanks) {
        return;
    }
    if (ranks_.size() <= rank) {
        ranks_.resize(rank + 1);
    }
    ranks_[rank] = load;
    if (whole_.at_us != 0) {
        return;  // adapters that report both say the total themselves
    }
    Load sum;
    float used = 0;
    std::uint32_t known = 0;
    for (const Load& one : ranks_) {
        if (one.at_us == 0) {
            continue;
        }
        sum.running += one.running;
        sum.waiting += one.waiting;
        sum.max_running += one.max_running;
        sum.total_blocks += one.total_blocks;
        sum.progress += one.progress;
        sum.holds_expired += one.holds_expired;
        sum.holds_read_late += one.holds_read_late;
        sum.at_us = sum.at_us == 0 ? one.at_us : std::min(sum.at_us, one.at_us);
        if (one.kv_used_ratio >= 0) {
            used += one.kv_used_ratio;
            ++known;
        }
    }
    if (known > 0) {
        sum.kv_used_ratio = used / static_cast<float>(known);
    }
    publish(sum);
}

void Endpoint::publish(const Load& load) noexcept {
    running_.store(load.running, std::memory_order_relaxed);
    waiting_.store(load.waiting, std::memory_order_relaxed);
    max_running_.store(load.max_running, std::memory_order_relaxed);
    total_blocks_.store(load.total_blocks, std::memory_order_relaxed);
    kv_used_ratio_.store(load.kv_used_ratio, std::memory_order_relaxed);
    progress_.store(load.progress, std::memory_order_relaxed);
    holds_expired_.store(load.holds_expired, std::memory_order_relaxed);
    holds_read_late_.store(load.holds_read_late, std::memory_order_relaxed);
    // Last: who sees a newer sample sees what it says.
    load_at_us_.store(load.at_us, std::memory_order_release);
}

Load Endpoint::load() const noexcept {
    Load out;
    out.at_us = load_at_us_.load(std::memory_order_acquire);
    out.running = running_.load(std::memory_order_relaxed);
    out.waiting = waiting_.load(std::memory_order_relaxed);
    out.max_running = max_running_.load(std::memory_order_relaxed);
    out.kv_used_ratio = kv_used_ratio_.load(std::memory_order_relaxed);
    out.total_blocks = total_blocks_.load(std::memory_order_relaxed);
    out.progress = progress_.load(std::memory_order_relaxed);
    out.holds_expired = holds_expired_.load(std::memory_order_relaxed);
    out.holds_read_late = holds_read_late_.load(std::memory_order_relaxed);
    return out;
}

void Endpoint::set_health(Health health, std::string_view why) {
    health_why_.set(std::make_shared<const std::string>(why));
    if (health_.exchange(health, std::memory_order_relaxed) != health) {
        changed_us_.store(wall_us(), std::memory_order_relaxed);
    }
}

void Endpoint::set_host_state(rules::HostState state) noexcept {
    if (host_state_.exchange(state, std::memory_order_relaxed) != state) {
        changed_us_.store(wall_us(), std::memory_order_relaxed);
    }
}

void Endpoint::pass_over(Mark why, std::uint64_t now) noexcept {
    const std::uint64_t until = now + (why == Mark::Refused ? kRefusedUs : kOutUs);
    mark_.store(until << kMarkBits | static_cast<std::uint64_t>(why), std::memory_order_relaxed);
}

void Endpoint::end_mark() noexcept {
    std::uint64_t mark = mark_.load(std::memory_order_relaxed);
    if (static_cast<Mark>(mark & kMarkMask) != Mark::Draining) {
        // Another mark that was set meanwhile stays.
        mark_.compare_exchange_strong(mark, 0, std::memory_order_relaxed);
    }
}

std::string Endpoint::health_reason() const {
    return *health_why_.get();
}

bool Endpoint::set_facts(std::uint32_t block_tokens, std::uint64_t epoch,
                         std::string_view version) {
    if (block_tokens != 0) {
        block_tokens_.store(block_tokens, std::memory_order_relaxed);
    }
    if (!version.empty()) {
        version_.set(std::make_shared<const std::string>(version));
    }
    if (epoch == 0) {
        return false;
    }
    const std::uint64_t before = epoch_.exchange(epoch, std::memory_order_relaxed);
    return before != epoch;
}

std::string Endpoint::version() const {
    return *version_.get();
}

void Endpoint::set_models(std::vector<Model> models) {
    const bool any = !models.empty();
    models_.set(std::make_shared<const std::vector<Model>>(std::move(models)));
    has_models_.store(any, std::memory_order_relaxed);
}

}  // namespace sluice::fleet
