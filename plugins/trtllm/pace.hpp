// When the next drain begins, and how long it may take.
//
// Late builds answer at once and are asked every few milliseconds; early ones hold a drain for
// seconds, under a steady flow for as long as events come: once one was slow the limit is long, and
// it grows each time it passes, for to cut a drain is to lose it. A body that was too long is lost,
// so the limit on it doubles, too: the engine's ring, which bounds a reply, is not announced.
//
// Threads: none of its own.
// Errors:  none.
// Source:  trtllm-serve 0.21 to 1.3: about 2 s a drain up to 1.2, 5 to 6 ms after.
#pragma once
#include <algorithm>
#include <cstdint>

namespace sluice::trtllm {

class Pace {
public:
    static constexpr std::uint64_t kBusyUs = 5'000;
    static constexpr std::uint64_t kIdleUs = 20'000;
    static constexpr std::uint64_t kRetryUs = 100'000;
    static constexpr std::uint64_t kMaxRetryUs = 5'000'000;
    static constexpr std::uint64_t kNotYetUs = 500'000;
    static constexpr std::uint64_t kTimeoutUs = 30'000'000;
    static constexpr std::uint64_t kMaxTimeoutUs = 240'000'000;
    static constexpr std::uint64_t kSlowUs = 1'000'000;      // a drain of a build that holds them
    static constexpr std::uint64_t kOverdueUs = 10'000'000;  // for a build that answers at once
    static constexpr std::uint64_t kMinBodyBytes = 64U << 20U;
    static constexpr std::uint64_t kMaxBodyBytes = 256U << 20U;  // the host's, too

    enum class Outcome {
        Events,
        Empty,
        Failed,   // no usable reply
        NotYet,   // an early build before its first request
        TimedOut  // no reply within the limit: nothing yet
    };

    void ended(Outcome outcome, std::uint64_t took_us) noexcept {
        switch (outcome) {
            case Outcome::Events:
                delay_us_ = kBusyUs;
                break;
            case Outcome::Empty:
                delay_us_ = std::min(std::max(delay_us_, kBusyUs) * 3 / 2, kIdleUs);
                break;
            case Outcome::Failed:
                retry_us_ = retry_us_ == 0 ? kRetryUs : std::min(retry_us_ * 2, kMaxRetryUs);
                return;
            case Outcome::NotYet:
                retry_us_ = kNotYetUs;
                return;
            case Outcome::TimedOut:
                timeout_us_ = std::min(timeout_us_ * 2, kMaxTimeoutUs);
                retry_us_ = engine_needs_us();
                return;
        }
        retry_us_ = 0;
        timeout_us_ = kTimeoutUs;
        longest_us_ = std::max({longest_us_, took_us, std::uint64_t{1}});
    }
    void body_too_long() noexcept {
        max_body_bytes_ = std::min(max_body_bytes_ * 2, kMaxBodyBytes);
    }

    std::uint64_t delay_us() const noexcept { return retry_us_ != 0 ? retry_us_ : delay_us_; }
    std::uint64_t timeout_us() const noexcept {
        return longest_us_ < kSlowUs ? timeout_us_ : kMaxTimeoutUs;
    }
    std::uint64_t max_body_bytes() const noexcept { return max_body_bytes_; }
    // A drain in flight for so long leaves what is known too old to go by.
    std::uint64_t overdue_us() const noexcept {
        return longest_us_ != 0 && longest_us_ < kSlowUs ? kOverdueUs : kTimeoutUs;
    }
    // How long the engine may still be at work on a drain whose connection was closed after
    // `ran_us`. A build of which nothing is known may collect for 2 s and then wait for 2 s more.
    std::uint64_t engine_needs_us(std::uint64_t ran_us = 0) const noexcept {
        constexpr std::uint64_t kTailUs = 3'000'000;
        constexpr std::uint64_t kLeastUs = 100'000;
        constexpr std::uint64_t kUnknownUs = 6'000'000;
        if (longest_us_ == 0) {
            return kUnknownUs;
        }
        const std::uint64_t seen_us = std::max(longest_us_, std::min(ran_us, kUnknownUs));
        return std::max(seen_us + std::min(seen_us, kTailUs), kLeastUs);
    }

private:
    std::uint64_t delay_us_ = kBusyUs;
    std::uint64_t retry_us_ = 0;  // 0 = the last drain was answered
    std::uint64_t timeout_us_ = kTimeoutUs;
    std::uint64_t max_body_bytes_ = kMinBodyBytes;
    std::uint64_t longest_us_ = 0;  // 0 = none was answered yet
};

}  // namespace sluice::trtllm
