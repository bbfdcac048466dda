#include "core/net/timer_wheel.hpp"

#include <algorithm>
#include <bit>

namespace sluice::net {

void Timer::drop_self() noexcept {
    wheel_->drop(*this);
}

TimerWheel::~TimerWheel() {
    for (auto& level : slots_) {
        for (Timer* head : level) {
            while (head != nullptr) {
                Timer* next = head->next_;
                unlink(*head);
                head = next;
            }
        }
    }
}

void TimerWheel::arm(Timer& timer, std::uint64_t deadline_us) noexcept {
    if (timer.slot_ != nullptr) {
        drop(timer);
    }
    if (deadline_us == kNever) {
        return;
    }
    constexpr std::uint64_t last_tick = (std::uint64_t{1} << (kLevels * kSlotBits)) - 1;
    const std::uint64_t tick =
        (deadline_us >> kTickShift) + ((deadline_us & ((1U << kTickShift) - 1)) != 0 ? 1 : 0);
    timer.tick_ = std::clamp(tick, now_tick_, last_tick);
    timer.wheel_ = this;
    ++size_;
    place(timer);
}

void TimerWheel::drop(Timer& timer) noexcept {
    if (timer.slot_ != nullptr) {
        unlink(timer);
        --size_;
    }
}

void TimerWheel::place(Timer& timer) noexcept {
    const std::uint64_t differs = timer.tick_ ^ now_tick_;
    const unsigned level =
        differs == 0 ? 0 : (63U - static_cast<unsigned>(std::countl_zero(differs))) / kSlotBits;
    const std::size_t slot = (timer.tick_ >> (level * kSlotBits)) & (kSlots - 1);
    Timer** head = &slots_[level][slot];
    used_[level] |= std::uint64_t{1} << slot;
    timer.slot_ = head;
    timer.prev_ = nullptr;
    timer.next_ = *head;
    if (*head != nullptr) {
        (*head)->prev_ = &timer;
    }
    *head = &timer;
}

void TimerWheel::unlink(Timer& timer) noexcept {
    Timer** head = timer.slot_;
    if (timer.next_ != nullptr) {
        timer.next_->prev_ = timer.prev_;
    }
    if (timer.prev_ != nullptr) {
        timer.prev_->next_ = timer.next_;
    } else {
        *head = timer.next_;
        if (*head == nullptr && head != &due_) {
            const auto index = static_cast<std::size_t>(head - slots_[0].data());
            used_[index / kSlots] &= ~(std::uint64_t{1} << (index % kSlots));
        }
    }
    timer.prev_ = timer.next_ = nullptr;
    timer.slot_ = nullptr;
}

std::uint64_t TimerWheel::next_us() const noexcept {
    // A lower level is always due before a higher one.
    for (unsigned level = 0; level < kLevels; ++level) {
        if (used_[level] == 0) {
            continue;
        }
        const unsigned shift = level * kSlotBits;
        const std::uint64_t current = (now_tick_ >> shift) & (kSlots - 1);
        const std::uint64_t ahead = used_[level] & (~std::uint64_t{0} << current);
        const auto slot = static_cast<std::uint64_t>(std::countr_zero(ahead));
        const std::uint64_t above = ~((std::uint64_t{1} << (shift + kSlotBits)) - 1);
        return ((now_tick_ & above) | slot << shift) << kTickShift;
    }
    return kNever;
}

void TimerWheel::advance(std::uint64_t now_us) noexcept {
    const std::uint64_t target = std::max(now_us >> kTickShift, now_tick_);
    while (size_ != 0) {
        const std::uint64_t next = next_us();
        if (next == kNever || next >> kTickShift > target) {
            break;
        }
        now_tick_ = next >> kTickShift;
        // The lowest used level owns that moment: its timers are due or move down.
        const auto used = std::find_if(used_.begin(), used_.end(), [](auto u) { return u != 0; });
        const auto level = static_cast<std::size_t>(used - used_.begin());
        const std::size_t slot = (now_tick_ >> (level * kSlotBits)) & (kSlots - 1);
        Timer* timer = slots_[level][slot];
        while (timer != nullptr) {
            Timer* after = timer->next_;
            unlink(*timer);
            if (timer->tick_ <= now_tick_) {
                timer->slot_ = &due_;
                timer->next_ = due_;
                if (due_ != nullptr) {
                    due_->prev_ = timer;
                }
                due_ = timer;
            } else {
                place(*timer);
            }
            timer = after;
        }
    }
    now_tick_ = target;
    while (due_ != nullptr) {
        Timer& timer = *due_;
        drop(timer);
        timer.expired();
    }
}

}  // namespace sluice::net
