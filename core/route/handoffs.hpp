// What a prefill engine holds for a decode engine: one object each, used once, in time.
//
// An object that is used twice, or after the engine let its blocks go, does not fail: the engine
// answers from other blocks, and its cache stays wrong. So an object is given out once, and only
// while less than half of its time has passed.
//
// A hand-off ends exactly once: read (a decode engine answered from it), released (a decode leg was
// sent only to let the blocks go), expired (its time passed unread), unused (nobody knows how long
// the engine holds it). An abandoned one stays outstanding until its time has passed.
//
// Threads: Ledger any; a Handoff is one request's.
// Owns:    a Handoff owns its object; destroying it abandons it.
// Limits:  kMostAbandoned remembered for an endpoint; then the oldest counts as expired.
// Source:  vLLM contract, section 4.1 (blocks pinned, lease, poisoned caches; live on 0.32).
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::route {

class Handoff;

struct HandoffCounts {
    std::uint64_t read = 0;
    std::uint64_t released = 0;
    std::uint64_t expired = 0;
    std::uint64_t unused = 0;
};

class Ledger : public std::enable_shared_from_this<Ledger> {
public:
    static constexpr std::size_t kMostAbandoned = 65536;

    // `lease_us` from `now_us`, when the prefill reply came; 0 = nobody knows.
    Handoff open(std::string object, std::uint64_t endpoint, std::uint64_t lease_us,
                 std::uint64_t now_us);
    // Hand-offs an endpoint holds blocks for.
    std::size_t outstanding(std::uint64_t endpoint, std::uint64_t now_us);
    HandoffCounts counts(std::uint64_t now_us);
    // Another process answers there: nothing is held any more, and what a request still has of it
    // is never good again. Counts as expired.
    void forget(std::uint64_t endpoint);

private:
    friend class Handoff;
    struct Account {
        std::uint64_t process = 0;            // no other account's, and no earlier process's
        std::size_t live = 0;                 // owned by requests
        std::deque<std::uint64_t> abandoned;  // until when
    };
    bool is_there(std::uint64_t endpoint, std::uint64_t process) const;
    void settle(std::uint64_t endpoint, std::uint64_t process, std::uint64_t HandoffCounts::* end);
    void abandon(std::uint64_t endpoint, std::uint64_t process, std::uint64_t until_us);
    void expire(std::uint64_t now_us);                                   // with mu_ held
    Account* account_of(std::uint64_t endpoint, std::uint64_t process);  // with mu_ held

    mutable std::mutex mu_;
    std::map<std::uint64_t, Account> accounts_;  // guarded by mu_
    std::uint64_t processes_ = 0;                // guarded by mu_
    HandoffCounts counts_;                       // guarded by mu_
};

class Handoff {
public:
    Handoff() = default;
    ~Handoff() { abandon(); }
    Handoff(Handoff&& other) noexcept;
    Handoff& operator=(Handoff&& other) noexcept;

    bool is_open() const noexcept { return ledger_ != nullptr; }
    bool is_given() const noexcept { return is_given_; }
    // The process that holds the blocks is still there, as far as is known.
    bool is_held() const;
    // It is held, less than half of its time has passed, and nobody had it yet.
    bool is_good(std::uint64_t now_us) const;
    // Until when a decode engine may be sent it; UINT64_MAX: nobody knows of an end.
    std::uint64_t good_until_us() const noexcept;
    // How long the engine holds it; 0 = nobody knows.
    std::uint64_t lease_us() const noexcept { return lease_us_; }
    // The object, the only time it is given out; nothing when it is not good any more.
    std::optional<std::string_view> give(std::uint64_t now_us);
    // For who was given it.
    std::string_view object() const noexcept { return object_; }
    // The decode leg never left: nobody has seen the object.
    void take_back() noexcept { is_given_ = false; }
    void was_read() noexcept { end(&HandoffCounts::read); }
    void was_released() noexcept { end(&HandoffCounts::released); }
    void abandon() noexcept;

private:
    friend class Ledger;
    void end(std::uint64_t HandoffCounts::* as) noexcept;

    std::shared_ptr<Ledger> ledger_;  // null: none, or ended
    std::string object_;
    std::uint64_t endpoint_ = 0;
    std::uint64_t process_ = 0;
    std::uint64_t since_us_ = 0;
    std::uint64_t lease_us_ = 0;
    bool is_given_ = false;
};

}  // namespace sluice::route
