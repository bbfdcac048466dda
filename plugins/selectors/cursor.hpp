// A turn counter per leg kind, shared by all request threads.
//
// Threads: any; lock-free.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "sluice/sdk.hpp"

namespace sluice::selectors {

class Cursor {
public:
    // The turn of this choice. A dry run sees the turn the next request will get and takes none.
    std::uint64_t turn(const sluice_choice& c) noexcept {
        auto& cursor = turns_[c.leg < turns_.size() ? c.leg : 0].value;
        const bool dry = c.request != nullptr && (c.request->flags & SLUICE_REQ_DRY_RUN) != 0;
        return dry ? cursor.load(std::memory_order_relaxed)
                   : cursor.fetch_add(1, std::memory_order_relaxed);
    }

private:
    struct alignas(64) Padded {
        std::atomic<std::uint64_t> value{0};
    };
    std::array<Padded, SLUICE_LEG_DECODE + 1> turns_{};
};

}  // namespace sluice::selectors
