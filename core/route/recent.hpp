// The most recently used values by 64-bit key, a bounded number of them.
//
// Threads: none of its own; its owner locks.
// Limits:  `most` entries; the one used longest ago goes first.
#pragma once
#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <utility>

namespace sluice::route {

template <class Value>
class Recent {
public:
    explicit Recent(std::size_t most) : most_(most) {}

    std::size_t size() const noexcept { return places_.size(); }
    // Null when it is not known. Does not count as use.
    Value* peek(std::uint64_t key) {
        const auto it = places_.find(key);
        return it == places_.end() ? nullptr : &it->second->second;
    }
    void touch(std::uint64_t key) {
        if (const auto it = places_.find(key); it != places_.end()) {
            order_.splice(order_.begin(), order_, it->second);
        }
    }
    // Adds or replaces, as the one used last.
    void put(std::uint64_t key, Value value) {
        if (const auto it = places_.find(key); it != places_.end()) {
            it->second->second = std::move(value);
            order_.splice(order_.begin(), order_, it->second);
            return;
        }
        if (places_.size() >= most_) {
            places_.erase(order_.back().first);
            order_.pop_back();
        }
        order_.emplace_front(key, std::move(value));
        places_.emplace(key, order_.begin());
    }
    void erase(std::uint64_t key) {
        if (const auto it = places_.find(key); it != places_.end()) {
            order_.erase(it->second);
            places_.erase(it);
        }
    }
    // Drops every entry of which `is_over` says so.
    template <class Predicate>
    void erase_if(const Predicate& is_over) {
        for (auto it = order_.begin(); it != order_.end();) {
            if (is_over(it->second)) {
                places_.erase(it->first);
                it = order_.erase(it);
            } else {
                ++it;
            }
        }
    }

private:
    using Order = std::list<std::pair<std::uint64_t, Value>>;
    const std::size_t most_;
    Order order_;  // used last first
    std::unordered_map<std::uint64_t, typename Order::iterator> places_;
};

}  // namespace sluice::route
