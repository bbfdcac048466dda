#include "core/tokens/merge_table.hpp"

#include <algorithm>
#include <bit>

namespace sluice::tokens {

MergeTable::MergeTable(std::size_t merges) : low_(std::size_t{kLowIds} * kLowIds) {
    const std::size_t slots = std::bit_ceil(std::max<std::size_t>(16, merges + merges / 2));
    slots_.resize(slots);
    slot_shift_ = 64U - static_cast<unsigned>(std::countr_zero(slots));
    const std::size_t words = std::bit_ceil(std::max<std::size_t>(16, merges / 5));
    filter_.resize(words);
    filter_shift_ = 64U - static_cast<unsigned>(std::countr_zero(words));
}

bool MergeTable::add(TokenId left, TokenId right, Merge merge) {
    const std::uint64_t hash = hash_of(left, right);
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = hash >> slot_shift_;
    while (slots_[i].left != kNoToken) {
        if (slots_[i].left == left && slots_[i].right == right) {
            return false;
        }
        i = (i + 1) & mask;
    }
    slots_[i] = {left, right, merge};
    filter_[hash >> filter_shift_] |= filter_bits(hash);
    if ((left | right) < kLowIds) {
        low_[left * kLowIds + right] = merge;
    }
    return true;
}

Merge MergeTable::find_in_table(TokenId left, TokenId right, std::uint64_t hash) const noexcept {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = hash >> slot_shift_; slots_[i].left != kNoToken; i = (i + 1) & mask) {
        if (slots_[i].left == left && slots_[i].right == right) {
            return slots_[i].merge;
        }
    }
    return {};
}

}  // namespace sluice::tokens
