#include "core/kv/epoch.hpp"

#include <cstdlib>

namespace sluice::kv {
namespace epoch {

constinit std::atomic<std::uint64_t> current{1};
constinit thread_local Slot* mine = nullptr;

namespace {

constinit std::atomic<Slot*> slots{nullptr};  // grows only: scans need no protection

struct Owner {
    Slot* slot = nullptr;
    ~Owner() {
        mine = nullptr;
        if (slot != nullptr) {
            slot->owned.store(false, std::memory_order_release);
        }
    }
};
thread_local Owner owner;

}  // namespace

std::uint64_t oldest_reader() noexcept {
    std::uint64_t oldest = ~std::uint64_t{0};
    for (const Slot* s = slots.load(); s != nullptr; s = s->next) {
        const std::uint64_t entered = s->entered.load();
        if (entered != 0 && entered < oldest) {
            oldest = entered;
        }
    }
    return oldest;
}

Slot* claim_slot() {
    for (Slot* s = slots.load(); s != nullptr; s = s->next) {
        bool free = false;
        if (s->owned.compare_exchange_strong(free, true)) {
            owner.slot = mine = s;
            return s;
        }
    }
    Slot* fresh = new Slot;
    fresh->owned.store(true);
    fresh->next = slots.load();
    while (!slots.compare_exchange_weak(fresh->next, fresh)) {
    }
    owner.slot = mine = fresh;
    return fresh;
}

}  // namespace epoch

Retired::~Retired() {
    for (const Item& item : items_) {
        std::free(item.block);
    }
}

void Retired::push(Item item) {
    item.epoch = epoch::current.load();
    items_.push_back(item);
    bytes_.store(bytes_.load(std::memory_order_relaxed) + item.bytes, std::memory_order_relaxed);
    is_sealed_ = false;
}

void Retired::memory(void* block, std::size_t bytes) {
    push({0, block, bytes, 0});
}

void Retired::holder(std::uint32_t id) {
    push({0, nullptr, 0, id});
}

void Retired::collect(std::vector<std::uint32_t>& holders) {
    if (items_.empty()) {
        return;
    }
    if (!is_sealed_) {
        epoch::current.fetch_add(1);
        is_sealed_ = true;
    }
    const std::uint64_t oldest = epoch::oldest_reader();
    std::size_t done = 0;
    std::size_t freed_bytes = 0;
    while (done < items_.size() && items_[done].epoch < oldest) {
        const Item& item = items_[done++];
        if (item.block == nullptr) {
            holders.push_back(item.holder);
        }
        std::free(item.block);
        freed_bytes += item.bytes;
    }
    items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(done));
    bytes_.store(bytes_.load(std::memory_order_relaxed) - freed_bytes, std::memory_order_relaxed);
}

}  // namespace sluice::kv
