// Timers of one loop: constant cost to arm and to drop, whatever their number.
//
// Seven levels of 64 slots; a timer sits on the level of the highest digit in which its tick
// differs from the present and moves down as time goes on. A loop arms one for nearly every wait
// and lets few of them fire.
//
// Threads: its loop's.
// Units:   deadlines in monotonic microseconds; a tick is 1,024 of them. Never early, at most one
//          tick and the loop's own delay late.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::net {

inline constexpr std::uint64_t kNever = UINT64_MAX;

class Timer {
public:
    Timer() = default;
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    // Called once, when due; the timer is then no longer armed and may be armed again.
    virtual void expired() noexcept = 0;
    virtual ~Timer() {
        if (slot_ != nullptr) {
            drop_self();
        }
    }
    bool is_armed() const noexcept { return slot_ != nullptr; }

private:
    friend class TimerWheel;
    void drop_self() noexcept;

    Timer* prev_ = nullptr;
    Timer* next_ = nullptr;
    Timer** slot_ = nullptr;
    class TimerWheel* wheel_ = nullptr;
    std::uint64_t tick_ = 0;
};

class TimerWheel {
public:
    explicit TimerWheel(std::uint64_t now_us) noexcept : now_tick_(now_us >> kTickShift) {}
    ~TimerWheel();
    TimerWheel(const TimerWheel&) = delete;
    TimerWheel& operator=(const TimerWheel&) = delete;

    // Re-arms an armed timer. kNever drops it.
    void arm(Timer& timer, std::uint64_t deadline_us) noexcept;
    void drop(Timer& timer) noexcept;
    // Calls expired() of everything due. Timers may be armed and dropped meanwhile.
    void advance(std::uint64_t now_us) noexcept;
    // No timer is due before this moment; kNever without timers. May be early, never late.
    std::uint64_t next_us() const noexcept;
    std::size_t size() const noexcept { return size_; }

private:
    static constexpr unsigned kTickShift = 10;
    static constexpr unsigned kLevels = 7;  // 139 years of ticks
    static constexpr unsigned kSlotBits = 6;
    static constexpr unsigned kSlots = 1U << kSlotBits;

    void place(Timer& timer) noexcept;
    void unlink(Timer& timer) noexcept;

    std::array<std::array<Timer*, kSlots>, kLevels> slots_{};
    std::array<std::uint64_t, kLevels> used_{};  // one bit a slot
    Timer* due_ = nullptr;                       // being fired by advance()
    std::uint64_t now_tick_;
    std::size_t size_ = 0;
};

}  // namespace sluice::net
