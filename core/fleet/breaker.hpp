// Takes an endpoint of a rule out after failures in a row, and lets a few requests try it again.
//
//   closed --failures--> open --open_ms--> half open --a success--> closed
//                          ^-------------- a failure ------/
//
// A request asks enter() for a permit and tells it what came of the endpoint. While half open
// exactly half_open_trials permits are out at a time; one that goes away without a word (the client
// left, the engine is busy) was no trial.
//
//   failures   refused or timed-out connects, connections that broke before an answer began: an
//              answer below 500 ends the row; and answers that broke off: a whole one ends the row
//   origin_5xx answers of 500 and above in a row
//
// A permit of before the last flip says nothing any more: of twenty streams that die together the
// first few open the breaker, the rest belong to that.
//
// Threads: any. The state is one word; a request on a closed breaker reads it and writes only when
//          there is a row to end.
// Owns:    a Permit borrows its Breaker, which the request's Service keeps.
// Source:  routing contract, section 8; management contract, `breaker`.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/rules/rule.hpp"

namespace sluice::fleet {

class Breaker;

enum class BreakerState : std::uint8_t { Closed, Open, HalfOpen };
std::string_view to_string(BreakerState state) noexcept;

// One request's leave to use an endpoint. Given back exactly once, on every way out.
class Permit {
public:
    Permit() = default;
    ~Permit() { release(); }
    Permit(Permit&& other) noexcept
        : of_(std::exchange(other.of_, nullptr)),
          epoch_(other.epoch_),
          is_trial_(other.is_trial_),
          has_answered_(other.has_answered_) {}
    Permit& operator=(Permit&& other) noexcept {
        if (this != &other) {
            release();
            of_ = std::exchange(other.of_, nullptr);
            epoch_ = other.epoch_;
            is_trial_ = other.is_trial_;
            has_answered_ = other.has_answered_;
        }
        return *this;
    }
    bool is_held() const noexcept { return of_ != nullptr; }

    // An answer below 500 began. The permit goes on until completed() or failed().
    void answered() noexcept;
    // The whole of it came.
    void completed() noexcept;
    // No connection, or it broke or fell silent; `why` is for the log.
    void failed(std::string_view why, std::uint64_t now) noexcept;
    // An answer of 500 or above that is the endpoint's fault.
    void origin_error(std::uint64_t now) noexcept;
    // Nothing was learnt of the endpoint.
    void release() noexcept;

private:
    friend class Breaker;
    Permit(Breaker& of, std::uint32_t epoch, bool is_trial) noexcept
        : of_(&of), epoch_(epoch), is_trial_(is_trial) {}

    Breaker* of_ = nullptr;
    std::uint32_t epoch_ = 0;
    bool is_trial_ = false;
    bool has_answered_ = false;
};

class Breaker {
public:
    // The names are for the log.
    Breaker(std::string rule, std::string endpoint, const rules::BreakerSpec& spec);
    Breaker(const Breaker&) = delete;
    Breaker& operator=(const Breaker&) = delete;

    // [control] New numbers; the state stays.
    void configure(const rules::BreakerSpec& spec) noexcept;

    // One whose time is over is half open, whether or not a request has come since.
    BreakerState state(std::uint64_t now) const noexcept;
    // Whether enter() would give a permit.
    bool admits(std::uint64_t now) const noexcept;
    // Not held when the endpoint may not be used now.
    Permit enter(std::uint64_t now) noexcept;
    // Open and its time is over: half open, also without a request. [control]
    void heal(std::uint64_t now) noexcept;
    // Until requests may try again; 0 = now.
    std::uint64_t open_for_us(std::uint64_t now) const noexcept;

private:
    friend class Permit;

    // The state as one word. A flip is the only thing that changes `epoch`.
    struct View {
        BreakerState state = BreakerState::Closed;
        std::uint32_t failures = 0;  // before an answer, in a row
        std::uint32_t cuts = 0;      // within an answer, in a row
        std::uint32_t bad = 0;       // 5xx, in a row
        std::uint32_t trials = 0;    // permits out while half open
        std::uint32_t epoch = 0;
    };
    static View unpack(std::uint64_t word) noexcept;
    static std::uint64_t pack(const View& view) noexcept;
    // Applies `change` until it meets no other; false from `change`: nothing to do.
    template <class Change>
    bool alter(Change change, View& before, View& after) noexcept;

    bool is_due(std::uint64_t now) const noexcept;
    View turned(View view, BreakerState to) const noexcept;
    View opened(View view, std::uint64_t now) noexcept;
    void say(const View& before, const View& after, std::string_view why) const noexcept;

    bool end_rows(std::uint32_t epoch, bool is_whole, std::uint32_t& now_in) noexcept;
    void count_failure(std::uint32_t epoch, bool has_answered, std::string_view why,
                       std::uint64_t now) noexcept;
    void count_bad(std::uint32_t epoch, std::uint64_t now) noexcept;
    void give_back_trial(std::uint32_t epoch) noexcept;

    const std::string rule_;
    const std::string endpoint_;
    std::atomic<std::uint64_t> word_{0};
    std::atomic<std::uint64_t> opened_us_{0};
    std::atomic<std::uint64_t> open_ms_;
    std::atomic<std::uint32_t> failures_;
    std::atomic<std::uint32_t> half_open_trials_;
    std::atomic<std::uint32_t> origin_5xx_;
};

using BreakerPtr = std::shared_ptr<Breaker>;

}  // namespace sluice::fleet
