// The current version of an immutable value, swapped as a whole.
//
// Threads: any. Readers hold the lock for one pointer copy and keep the old value alive.
//          std::atomic<std::shared_ptr> is not used: TSan reports false races on it (libstdc++ 12).
#pragma once
#include <memory>
#include <mutex>
#include <utility>

namespace sluice {

template <class T>
class Snapshot {
public:
    Snapshot() : current_(std::make_shared<const T>()) {}
    explicit Snapshot(std::shared_ptr<const T> first) : current_(std::move(first)) {}

    std::shared_ptr<const T> get() const {
        const std::lock_guard lock(mu_);
        return current_;
    }
    // Returns the previous value, so that it is destroyed outside the lock.
    std::shared_ptr<const T> set(std::shared_ptr<const T> next) {
        const std::lock_guard lock(mu_);
        current_.swap(next);
        return next;
    }

private:
    mutable std::mutex mu_;
    std::shared_ptr<const T> current_;  // guarded by mu_
};

}  // namespace sluice
