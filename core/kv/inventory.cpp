#include "core/kv/inventory.hpp"

#include <sluice/sdk/kv.h>

#include <algorithm>

#include "core/kv/holder_set.hpp"

namespace sluice::kv {
namespace {

unsigned inline_place(std::uint32_t tier) noexcept {
    return tier == SLUICE_TIER_GPU ? 0 : 1;
}

}  // namespace

Block Block::make(std::uint64_t hash) noexcept {
    Block b{};
    b.hash_lo_ = static_cast<std::uint32_t>(hash);
    b.hash_hi_ = static_cast<std::uint32_t>(hash >> 32);
    b.state_ = 1U << 31;
    return b;
}

void Block::set_key(Key key) noexcept {
    key_lo_ = static_cast<std::uint32_t>(key);
    key_hi_ = static_cast<std::uint32_t>(key >> 32);
}

std::optional<unsigned> Inventory::known_group(std::uint32_t id) const noexcept {
    const auto it = std::find(groups_.begin(), groups_.end(), id);
    if (it == groups_.end()) {
        return std::nullopt;
    }
    return static_cast<unsigned>(it - groups_.begin());
}

std::optional<unsigned> Inventory::group(std::uint32_t id) {
    if (const auto known = known_group(id)) {
        return known;
    }
    if (groups_.size() == kMaxGroups) {
        return std::nullopt;
    }
    groups_.push_back(id);
    return static_cast<unsigned>(groups_.size() - 1);
}

bool Inventory::is_extra(std::uint32_t tier, unsigned group) noexcept {
    return group != 0 || (tier != SLUICE_TIER_GPU && tier != SLUICE_TIER_HOST);
}

Extra* Inventory::find_extra(std::uint64_t hash, std::uint32_t tier, unsigned group) noexcept {
    return extras_.find_if(hash,
                           [&](const Extra& e) { return e.tier == tier && e.group == group; });
}

void Inventory::became_certain(std::uint64_t hash) {
    // A list longer than a fraction of the blocks saves nothing over looking at all of them.
    if (certain_.size() > blocks_.size() / 4 + 1024) {
        is_certain_cut_ = true;
        certain_.clear();
        certain_.shrink_to_fit();
    }
    if (!is_certain_cut_) {
        certain_.push_back(hash);
    }
}

bool Inventory::store(Block& block, std::uint32_t tier, unsigned group, bool is_counted) {
    unsigned copies = 0;
    unsigned certain = 0;
    Extra* extra = nullptr;
    const unsigned place = inline_place(tier);
    if (is_extra(tier, group)) {
        const std::uint64_t hash = block.hash();
        extra = block.has_extras() ? find_extra(hash, tier, group) : nullptr;
        if (extra == nullptr) {
            extra = &extras_.insert(
                Extra{static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32),
                      static_cast<std::uint8_t>(tier), static_cast<std::uint8_t>(group), 0, 0});
            block.set_extras(true);
        }
        copies = extra->copies;
        certain = extra->certain;
    } else {
        copies = block.copies(place);
        certain = block.certain(place);
    }
    const bool fits = !is_counted || copies < kMaxCopies;
    copies = is_counted ? std::min(copies + 1, kMaxCopies) : std::max(copies, 1U);
    if (in_doubt_) {
        if (certain == 0) {
            became_certain(block.hash());
        }
        certain = std::min(is_counted ? certain + 1 : std::max(certain, 1U), Block::kMaxCertain);
    }
    if (extra != nullptr) {
        extra->copies = static_cast<std::uint8_t>(copies);
        extra->certain = static_cast<std::uint8_t>(certain);
    } else {
        block.set_copies(place, copies);
        block.set_certain(place, certain);
    }
    return fits;
}

bool Inventory::remove(Block& block, std::uint32_t tier, unsigned group, bool is_counted) {
    // Which copy went is not known: a certain one is given up first, so doubt is never hidden.
    const auto less = [&](unsigned n) {
        return is_counted && n > 0 ? n - 1 : 0;
    };
    if (is_extra(tier, group)) {
        Extra* extra = block.has_extras() ? find_extra(block.hash(), tier, group) : nullptr;
        if (extra == nullptr) {
            return false;
        }
        extra->copies = static_cast<std::uint8_t>(less(extra->copies));
        extra->certain = static_cast<std::uint8_t>(less(extra->certain));
        if (extra->copies == 0) {
            extras_.erase(extra);
            update_extras_flag(block);
        }
        return true;
    }
    const unsigned place = inline_place(tier);
    if (block.copies(place) == 0) {
        return false;
    }
    block.set_copies(place, less(block.copies(place)));
    block.set_certain(place, less(block.certain(place)));
    return true;
}

void Inventory::update_extras_flag(Block& block) {
    block.set_extras(extras_.find(block.hash()) != nullptr);
}

void Inventory::clear_copies(Block& block, std::optional<std::uint32_t> tier,
                             std::optional<unsigned> group) {
    for (const std::uint32_t t : {SLUICE_TIER_GPU, SLUICE_TIER_HOST}) {
        if (group.value_or(0) == 0 && tier.value_or(t) == t) {
            block.set_copies(inline_place(t), 0);
            block.set_certain(inline_place(t), 0);
        }
    }
    if (!block.has_extras()) {
        return;
    }
    const auto is_meant = [&](const Extra& e) {
        return tier.value_or(e.tier) == e.tier && group.value_or(e.group) == e.group;
    };
    while (const Extra* extra = extras_.find_if(block.hash(), is_meant)) {
        extras_.erase(extra);
    }
    update_extras_flag(block);
}

void Inventory::erase(Block& block) {
    clear_copies(block, std::nullopt, std::nullopt);
    blocks_.erase(&block);
}

unsigned Inventory::bits_of_groups(const Block& block) {
    // A prefix look-up hits only where every group of the model holds the block.
    std::uint64_t have[4] = {};  // by bit number of HolderBits, a mask of groups
    const auto add = [&](bool is_gpu, unsigned group, unsigned copies, unsigned certain) {
        const std::uint64_t bit = std::uint64_t{1} << group;
        have[0] |= copies != 0 ? bit : 0;
        have[1] |= copies != 0 && is_gpu ? bit : 0;
        have[2] |= certain != 0 ? bit : 0;
        have[3] |= certain != 0 && is_gpu ? bit : 0;
    };
    add(true, 0, block.copies(0), block.certain(0));
    add(false, 0, block.copies(1), block.certain(1));
    extras_.find_if(block.hash(), [&](const Extra& e) {
        add(e.tier == SLUICE_TIER_GPU, e.group, e.copies, e.certain);
        return false;
    });
    const std::uint64_t all = (std::uint64_t{1} << groups_.size()) - 1;
    unsigned bits = 0;
    for (unsigned i = 0; i < 4; ++i) {
        bits |= (have[i] == all ? 1U : 0U) << i;
    }
    return bits;
}

unsigned Inventory::bits(const Block& block) {
    unsigned bits = 0;
    if (block.is_opaque()) {
        return 0;
    }
    if (groups_.size() > 1 || block.has_extras()) {
        bits = bits_of_groups(block);
    } else {
        bits = (block.copies(0) != 0 ? kAny | kGpu : 0U) | (block.copies(1) != 0 ? kAny : 0U) |
               (block.certain(0) != 0 ? kFreshAny | kFreshGpu : 0U) |
               (block.certain(1) != 0 ? kFreshAny : 0U);
    }
    return in_doubt_ ? bits : bits & (kAny | kGpu);
}

void Inventory::drop_certainty(Block& block) {
    block.set_certain(0, 0);
    block.set_certain(1, 0);
    if (block.has_extras()) {
        extras_.find_if(block.hash(), [](Extra& e) {
            e.certain = 0;
            return false;
        });
    }
}

void Inventory::copy(const Inventory& from) {
    blocks_.copy(from.blocks_);
    extras_.copy(from.extras_);
    groups_ = from.groups_;
    in_doubt_ = from.in_doubt_;
    certain_ = from.certain_;
    is_certain_cut_ = from.is_certain_cut_;
}

void Inventory::clear() noexcept {
    blocks_.clear();
    extras_.clear();
    groups_.clear();
    in_doubt_ = false;
    certain_.clear();
    certain_.shrink_to_fit();
    is_certain_cut_ = false;
}

}  // namespace sluice::kv
