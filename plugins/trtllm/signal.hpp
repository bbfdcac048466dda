// What is said of an endpoint's events: one word for all that is known of them.
//
// Threads: event thread.
// Errors:  none.
// Source:  the states and reasons of the SDK's kv service.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "plugins/trtllm/admission.hpp"
#include "plugins/trtllm/gaps.hpp"
#include "plugins/trtllm/served.hpp"
#include "sluice/sdk.hpp"

namespace sluice::trtllm {

struct Condition {
    enum class Door { Asking, Unreachable, Judged } door = Door::Asking;
    Admission admission;          // with Judged
    std::uint32_t door_code = 0;  // with Unreachable: HTTP, 0 = no reply
    bool is_heard = false;        // a drain was answered
    bool is_lost = false;         // drains fail since a while
    std::uint32_t lost_code = 0;
    bool is_oversize = false;  // blocks larger than assumed, whose size is not shown
    bool is_malformed = false;
    bool is_restarted = false;
    GapJudge::Cause gap = GapJudge::Cause::None;
    std::uint32_t gap_rank = 0;
    Silence silence = Silence::None;

    bool is_admitted() const noexcept {
        return door == Door::Judged && admission.kind != Admission::Kind::Refused;
    }
};

struct Word {
    std::uint32_t state = 0, why = 0, rank = SLUICE_ANY;
    std::string reason, detail, advice;
    bool operator==(const Word&) const = default;
};
Word word_of(const Condition& condition);

class Signal {
public:
    Signal(const Host& host, std::uint64_t endpoint) : host_(host), endpoint_(endpoint) {}

    Condition now;
    // Reports the word, if it became another one.
    void say();
    // A count that changes no state; `reason` only for words of attestation.
    void count(std::uint32_t why, std::uint64_t n, std::uint32_t rank = SLUICE_ANY,
               std::string_view reason = {}, std::string_view detail = {},
               std::string_view advice = {}) const;

private:
    void report(const Word& word, std::uint64_t n) const;

    const Host& host_;
    std::uint64_t endpoint_;
    Word said_;
};

}  // namespace sluice::trtllm
