#include "core/flow/event_ledger.hpp"

#include <iterator>
#include <utility>

namespace sluice::flow {

std::size_t EventLedger::find(const Block& block, Place place) {
    if (block.first.count != 0 && block.first.place == place) {
        return 0;
    }
    for (std::size_t i = 0; i < block.more.size(); ++i) {
        if (block.more[i].place == place) {
            return i + 1;
        }
    }
    return kNowhere;
}

void EventLedger::forget(Block& block, std::size_t i) {
    Copies last;
    if (!block.more.empty()) {
        last = block.more.back();
        block.more.pop_back();
    }
    if (i <= block.more.size()) {
        at(block, i) = last;
    }
}

bool EventLedger::has(std::uint64_t hash, Place place) const {
    const auto it = blocks_.find(hash);
    return it != blocks_.end() && find(it->second, place) != kNowhere;
}

bool EventLedger::is_opaque(std::uint64_t hash) const {
    const auto it = blocks_.find(hash);
    return it != blocks_.end() && it->second.is_opaque;
}

bool EventLedger::add(std::uint64_t hash, Place place, bool is_opaque) {
    auto it = blocks_.find(hash);
    if (it == blocks_.end()) {
        if (blocks_.size() >= max_blocks_) {
            return false;
        }
        it = blocks_.try_emplace(hash).first;
    }
    Block& block = it->second;
    std::size_t i = find(block, place);
    if (i == kNowhere) {
        if (block.first.count == 0) {
            i = 0;
        } else if (block.more.size() + 1 < kMaxPlaces) {
            block.more.emplace_back();
            i = block.more.size();
        } else {
            return false;
        }
        at(block, i).place = place;
    }
    ++at(block, i).count;
    block.is_opaque = is_opaque;
    return true;
}

bool EventLedger::remove(std::uint64_t hash, Place place) {
    const auto it = blocks_.find(hash);
    const std::size_t i = it == blocks_.end() ? kNowhere : find(it->second, place);
    if (i == kNowhere) {
        return false;
    }
    if (--at(it->second, i).count == 0) {
        forget(it->second, i);
    }
    if (it->second.first.count == 0) {
        blocks_.erase(it);
    }
    return true;
}

void EventLedger::take(std::uint64_t hash, const Told& told) {
    const auto it = blocks_.find(hash);
    if (it == blocks_.end()) {
        return;
    }
    const Block block = std::move(it->second);
    blocks_.erase(it);
    told(hash, block.first.place, block.first.count);
    for (const Copies& copies : block.more) {
        told(hash, copies.place, copies.count);
    }
}

void EventLedger::drop(const Wanted& wanted, const Told& told) {
    for (auto it = blocks_.begin(); it != blocks_.end();) {
        Block& block = it->second;
        std::erase_if(block.more, [&](const Copies& copies) {
            const bool is_wanted = wanted(copies.place);
            if (is_wanted) {
                told(it->first, copies.place, copies.count);
            }
            return is_wanted;
        });
        if (wanted(block.first.place)) {
            told(it->first, block.first.place, block.first.count);
            forget(block, 0);
        }
        it = block.first.count == 0 ? blocks_.erase(it) : std::next(it);
    }
}

}  // namespace sluice::flow
