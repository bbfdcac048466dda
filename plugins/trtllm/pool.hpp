// Which of a model's cache pools is followed.
//
// Models with sliding windows keep a pool a window, some builds a pool a layer group; the same
// tokens have the same hash in each, and each evicts on its own. The pool with the largest window
// bounds what can be reused, and among equal windows the lowest layer group stands for all.
//
// Threads: none of its own; one instance per (endpoint, rank).
// Errors:  none.
// Units:   windows in tokens; before 0.21 events name none, which is a window of its own here.
// Source:  trtllm-serve 0.21 to 1.3, `window_size` and `layer_group_id` of KV events.
#pragma once
#include <cstdint>
#include <optional>

#include "plugins/trtllm/events.hpp"

namespace sluice::trtllm {

enum class PoolVerdict {
    Tracked,
    Switched,  // a better pool than the one followed so far: what is known is the other one's
    OtherWindow,
    OtherGroup
};

class PoolChoice {
public:
    PoolVerdict see(const Event& event) noexcept {
        const Pool pool{event.window.value_or(0), event.group.value_or(0)};
        if (!pool_) {
            pool_ = pool;
            return PoolVerdict::Tracked;
        }
        if (pool.window != pool_->window) {
            return pool.window < pool_->window ? PoolVerdict::OtherWindow : take(pool);
        }
        if (pool.group != pool_->group) {
            return pool.group > pool_->group ? PoolVerdict::OtherGroup : take(pool);
        }
        return PoolVerdict::Tracked;
    }
    void follow(std::uint64_t window, std::uint32_t group) noexcept { pool_ = Pool{window, group}; }
    void forget() noexcept { pool_.reset(); }

private:
    struct Pool {
        std::uint64_t window = 0;
        std::uint32_t group = 0;
    };
    PoolVerdict take(Pool pool) noexcept {
        pool_ = pool;
        return PoolVerdict::Switched;
    }
    std::optional<Pool> pool_;
};

}  // namespace sluice::trtllm
