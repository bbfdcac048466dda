// The live state of one serving address, shared by every rule that names it.
//
// What it knows comes from three voices: this gateway's own traffic (in flight, refused connects),
// the engine adapter (load, facts, models, health) and probes (core/fleet/probe.hpp, kept apart
// because rules may probe one address differently).
//
// Threads: any. Counters are atomics; models and the version are snapshots.
// Units:   requests, tokens, blocks as named; *_us monotonic microseconds.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/snapshot.hpp"
#include "core/rules/host_states.hpp"

namespace sluice::fleet {

// As the adapter last said; requests.
struct Load {
    std::uint32_t running = 0;
    std::uint32_t waiting = 0;
    std::uint32_t max_running = 0;   // 0 = unknown
    float kv_used_ratio = -1;        // negative = unknown
    std::uint64_t total_blocks = 0;  // 0 = unknown
    std::uint64_t progress = 0;      // grows while work is done; 0 = unknown, or of several ranks
    // Hand-offs that nobody read in time, and of those the ones that were read later; ever.
    std::uint64_t holds_expired = 0;
    std::uint64_t holds_read_late = 0;
    std::uint64_t at_us = 0;  // 0 = never
};

enum class Health : std::uint32_t { Unknown = 0, Ready, Busy, Asleep, Suspect, Down };
std::string_view to_string(Health health) noexcept;

// Why traffic passes an endpoint over for a moment.
enum class Mark : std::uint8_t {
    None = 0,
    Refused,   // it refused a connection or a request
    Draining,  // it says that it takes nothing new
    Gone,      // its core is gone, or its port refuses while requests wait
};
std::string_view to_string(Mark mark) noexcept;

// Whether somebody is behind the port; see silence.hpp.
struct PortLook {
    std::atomic<std::uint64_t> next_us{0};     // not before; whoever moves it looks
    std::atomic<std::uint64_t> gap_us{0};      // between the last two looks
    std::atomic<std::uint64_t> refused_us{0};  // when a look began that was refused; 0 = never
};

struct Model {
    std::string name;
    std::string parent;  // an adapter's base model; empty for a base model
    bool is_lora = false;
};

class Endpoint {
public:
    static constexpr std::uint64_t kRefusedUs = 1'000'000;
    static constexpr std::uint64_t kOutUs = 5'000'000;  // Draining, Gone

    // `id` is unique in this process and never reused.
    Endpoint(std::uint64_t id, std::string ip, std::uint16_t port);

    std::uint64_t id() const noexcept { return id_; }
    const std::string& ip() const noexcept { return ip_; }
    std::uint16_t port() const noexcept { return port_; }
    const std::string& name() const noexcept { return name_; }          // "10.0.0.7:8000"
    const std::string& base_url() const noexcept { return base_url_; }  // "http://10.0.0.7:8000"

    // Requests this gateway has sent and not finished. Only Lease changes it.
    std::uint32_t inflight() const noexcept { return inflight_.load(std::memory_order_relaxed); }

    // --- the adapter's voice [event]
    void set_load(std::uint32_t rank, const Load& load);
    void set_health(Health health, std::string_view why);
    // 0 = unknown keeps what was known. True when the epoch differs from the last one told, the
    // first included: whatever was known of that process's cache is void.
    bool set_facts(std::uint32_t block_tokens, std::uint64_t epoch, std::string_view version);
    void set_models(std::vector<Model> models);

    // The sample of the endpoint as a whole if there is one, else the ranks' sum, as old as the
    // oldest of them.
    Load load() const noexcept;
    Health health() const noexcept { return health_.load(std::memory_order_relaxed); }
    std::string health_reason() const;
    std::uint32_t block_tokens() const noexcept {
        return block_tokens_.load(std::memory_order_relaxed);
    }
    std::string version() const;
    // Another value: another engine process. 0 = not known.
    std::uint64_t epoch() const noexcept { return epoch_.load(std::memory_order_relaxed); }
    // Empty when nobody reports models, which is the common case on plain rules.
    bool has_models() const noexcept { return has_models_.load(std::memory_order_relaxed); }
    std::shared_ptr<const std::vector<Model>> models() const { return models_.get(); }

    // --- the operator's voice [control]
    void set_host_state(rules::HostState state) noexcept;
    rules::HostState host_state() const noexcept {
        return host_state_.load(std::memory_order_relaxed);
    }
    // When health or host state last changed, since the epoch; 0 = never.
    std::uint64_t changed_us() const noexcept {
        return changed_us_.load(std::memory_order_relaxed);
    }

    // --- traffic's voice [any]
    // Passed over from now on while another endpoint is left. It ends by itself (kRefusedUs,
    // kOutUs), so that a wrong guess costs seconds.
    void pass_over(Mark why, std::uint64_t now) noexcept;
    // An answer below 500 came. It ends a mark, but not that of a drain: while an engine drains it
    // still answers some requests and refuses others.
    void note_answered() noexcept {
        if (mark_.load(std::memory_order_relaxed) != 0) {
            end_mark();
        }
    }
    Mark mark(std::uint64_t now) const noexcept {
        const std::uint64_t mark = mark_.load(std::memory_order_relaxed);
        return mark >> kMarkBits > now ? static_cast<Mark>(mark & kMarkMask) : Mark::None;
    }
    bool is_passed_over(std::uint64_t now) const noexcept { return mark(now) != Mark::None; }
    // What those know who wait for it in silence.
    PortLook& port_look() noexcept { return port_look_; }

private:
    friend class Lease;
    static constexpr unsigned kMarkBits = 2;
    static constexpr std::uint64_t kMarkMask = (1U << kMarkBits) - 1;

    void end_mark() noexcept;
    void publish(const Load& load) noexcept;

    const std::uint64_t id_;
    const std::string ip_;
    const std::uint16_t port_;
    const std::string name_;
    const std::string base_url_;
    std::atomic<std::uint32_t> inflight_{0};
    std::atomic<Health> health_{Health::Unknown};
    std::atomic<rules::HostState> host_state_{rules::HostState::Green};
    std::atomic<std::uint64_t> changed_us_{0};
    std::atomic<std::uint32_t> block_tokens_{0};
    std::atomic<std::uint64_t> epoch_{0};
    std::atomic<std::uint64_t> mark_{0};  // until when, and why in the lowest bits
    PortLook port_look_;
    // What readers see; each is a sample, so they need not agree to the last request.
    std::atomic<std::uint32_t> running_{0};
    std::atomic<std::uint32_t> waiting_{0};
    std::atomic<std::uint32_t> max_running_{0};
    std::atomic<float> kv_used_ratio_{-1};
    std::atomic<std::uint64_t> total_blocks_{0};
    std::atomic<std::uint64_t> progress_{0};
    std::atomic<std::uint64_t> holds_expired_{0};
    std::atomic<std::uint64_t> holds_read_late_{0};
    std::atomic<std::uint64_t> load_at_us_{0};
    Load whole_;               // event thread only
    std::vector<Load> ranks_;  // event thread only
    std::atomic<bool> has_models_{false};
    Snapshot<std::string> health_why_;
    Snapshot<std::string> version_;
    Snapshot<std::vector<Model>> models_;
};

using EndpointPtr = std::shared_ptr<Endpoint>;

// Holds one unit of an endpoint's load, from dispatch to the last byte. Released exactly once, on
// every way out.
class Lease {
public:
    Lease() = default;
    explicit Lease(EndpointPtr endpoint) noexcept : endpoint_(std::move(endpoint)) {
        endpoint_->inflight_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Lease() { release(); }
    Lease(Lease&& other) noexcept : endpoint_(std::move(other.endpoint_)) {}
    Lease& operator=(Lease&& other) noexcept {
        if (this != &other) {
            release();
            endpoint_ = std::move(other.endpoint_);
        }
        return *this;
    }
    void release() noexcept {
        if (endpoint_) {
            endpoint_->inflight_.fetch_sub(1, std::memory_order_relaxed);
            endpoint_.reset();
        }
    }
    bool is_held() const noexcept { return endpoint_ != nullptr; }

private:
    EndpointPtr endpoint_;
};

}  // namespace sluice::fleet
