#include "core/kv/writer.hpp"

#include <algorithm>
#include <string>

#include "core/base/clock.hpp"

namespace sluice::kv {

// What the blocks of an event hang on while they are placed one after the other.
struct Link {
    enum class Kind { Known, Opaque, Unknown } kind = Kind::Known;
    Key key = 0;
    bool is_keyed = false;  // the event's tokens say what its blocks hold
};

namespace {

constexpr std::uint32_t kAhead = 8;        // hashes of an event fetched before they are needed
constexpr std::uint32_t kWarmEvents = 16;  // events looked at before they are applied
constexpr std::size_t kEventBytes = offsetof(sluice_kv_event, salt) + sizeof(sluice_str);
constexpr std::size_t kBatchBytes = offsetof(sluice_kv_batch, events) + sizeof(sluice_array);
constexpr std::size_t kReportBytes = offsetof(sluice_kv_report, why) + sizeof(std::uint32_t);

std::string_view view(const sluice_str& s) noexcept {
    return s.len == 0 ? std::string_view{} : std::string_view{s.ptr, s.len};
}

bool is_tier(std::uint32_t tier) noexcept {
    return tier >= SLUICE_TIER_GPU && tier <= SLUICE_TIER_REMOTE;
}

const char* fault(const sluice_kv_event& e) noexcept {
    if (e.size < kEventBytes) {
        return "too short";
    }
    if (e.type == SLUICE_KV_CLEARED) {
        return is_tier(e.tier) || e.tier == SLUICE_ANY ? nullptr : "unknown tier";
    }
    if (e.type != SLUICE_KV_STORED && e.type != SLUICE_KV_REMOVED) {
        return "unknown type";
    }
    if (!is_tier(e.tier)) {
        return "unknown tier";
    }
    if (e.group == SLUICE_ANY) {
        return "needs one group";
    }
    if (e.num_hashes != 0 && e.hashes == nullptr) {
        return "hashes announced, none given";
    }
    if (e.type == SLUICE_KV_STORED) {
        if (e.num_tokens != 0 && e.tokens == nullptr) {
            return "tokens announced, none given";
        }
        if ((e.lora.len != 0 && e.lora.ptr == nullptr) ||
            (e.salt.len != 0 && e.salt.ptr == nullptr)) {
            return "text announced, none given";
        }
    }
    return nullptr;
}

}  // namespace

Writer::Writer(BlockTable& table, Holders& holders, Retired& retired, const IndexOptions& options)
    : table_(table),
      holders_(holders),
      retired_(retired),
      max_blocks_(std::max<std::uint64_t>(options.max_blocks_per_endpoint, 2)),
      engine_keys_(options.engine_keys) {}

Status Writer::attach(std::uint64_t endpoint, std::uint32_t ranks) {
    if (ranks == 0) {
        return Error{Code::Invalid, "an endpoint has at least one rank"};
    }
    const auto known = endpoints_.find(endpoint);
    const std::size_t had = known == endpoints_.end() ? 0 : known->second.ranks.size();
    if (ranks > had && ranks - had > holders_.available()) {
        return Error{Code::Limit,
                     "more than " + std::to_string(kMaxHolders) + " ranks in one rule"};
    }
    Endpoint& ep = endpoints_[endpoint];
    for (auto r = static_cast<std::uint32_t>(had); r < ranks; ++r) {
        ep.ranks.push_back(std::make_unique<Rank>());
        ep.ranks.back()->holder = holders_.acquire(endpoint, r);
    }
    while (ep.ranks.size() > ranks) {
        release(ep, *ep.ranks.back());
        ep.ranks.pop_back();
    }
    tidy();
    return {};
}

void Writer::detach(std::uint64_t endpoint) {
    const auto it = endpoints_.find(endpoint);
    if (it == endpoints_.end()) {
        return;
    }
    for (const auto& rank : it->second.ranks) {
        release(it->second, *rank);
    }
    endpoints_.erase(it);
    tidy();
}

Status Writer::check(const sluice_kv_batch& batch, const Inventory& inventory) const {
    if (batch.events.count != 0 &&
        (batch.events.base == nullptr || batch.events.stride < kEventBytes)) {
        return Error{Code::Invalid, "malformed event array"};
    }
    std::vector<std::uint32_t> new_groups;
    for (std::uint32_t i = 0; i < batch.events.count; ++i) {
        const auto& e = *SLUICE_AT(sluice_kv_event, batch.events, i);
        if (const char* what = fault(e); what != nullptr) {
            return Error{Code::Invalid, what}.at("event " + std::to_string(i));
        }
        if (e.type == SLUICE_KV_STORED && e.num_hashes != 0 && !inventory.known_group(e.group) &&
            std::find(new_groups.begin(), new_groups.end(), e.group) == new_groups.end()) {
            new_groups.push_back(e.group);
            if (inventory.num_groups() + new_groups.size() > kMaxGroups) {
                return Error{Code::Limit, "more than " + std::to_string(kMaxGroups) +
                                              " cache groups on one rank"};
            }
        }
    }
    return {};
}

Status Writer::apply(const sluice_kv_batch& batch, std::uint32_t* unplaced) {
    if (unplaced != nullptr) {
        *unplaced = 0;
    }
    if (batch.size < kBatchBytes) {
        return Error{Code::Invalid, "batch too short"};
    }
    const auto it = endpoints_.find(batch.endpoint);
    if (it == endpoints_.end()) {
        return Error{Code::NotFound,
                     "endpoint " + std::to_string(batch.endpoint) + " is not attached"};
    }
    Endpoint& ep = it->second;
    if (batch.dp_rank >= ep.ranks.size()) {
        return Error{Code::NotFound, "rank " + std::to_string(batch.dp_rank) + " of endpoint " +
                                         std::to_string(batch.endpoint) + " is not attached"};
    }
    Rank& rank = *ep.ranks[batch.dp_rank];
    if (Status status = check(batch, rank.inventory); !status) {
        return status;
    }
    std::uint32_t misplaced = 0;
    for (std::uint32_t i = 0; i < batch.events.count; ++i) {
        if (i % kWarmEvents == 0) {
            warm(rank, batch.events, i, std::min(i + kWarmEvents, batch.events.count));
        }
        const auto& event = *SLUICE_AT(sluice_kv_event, batch.events, i);
        if (event.type == SLUICE_KV_STORED) {
            misplaced += store(ep, rank, event);
        } else if (event.type == SLUICE_KV_REMOVED) {
            remove(ep, rank, event);
        } else {
            clear(ep, rank, event);
        }
    }
    publish_pending(rank);
    rank.unplaced += misplaced;
    if (unplaced != nullptr) {
        *unplaced = misplaced;
    }
    holders_.at(rank.holder).last_event_us.store(now_us(), std::memory_order_relaxed);
    tell(ep, rank);
    tidy();
    return {};
}

// The tables are far larger than any cache; their misses overlap only if they are begun early.
void Writer::warm(Rank& rank, const sluice_array& events, std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t i = from; i < to; ++i) {
        const auto& e = *SLUICE_AT(sluice_kv_event, events, i);
        if (e.type == SLUICE_KV_CLEARED) {
            continue;
        }
        if ((e.flags & SLUICE_KV_HAS_PARENT) != 0) {
            rank.inventory.prefetch(e.parent);
        }
        for (std::uint32_t h = 0; h < std::min(e.num_hashes, kAhead); ++h) {
            rank.inventory.prefetch(e.hashes[h]);
        }
    }
    for (std::uint32_t i = from; i < to; ++i) {
        const auto& e = *SLUICE_AT(sluice_kv_event, events, i);
        for (std::uint32_t h = 0; e.type == SLUICE_KV_REMOVED && h < std::min(e.num_hashes, kAhead);
             ++h) {
            if (const Block* b = rank.inventory.find(e.hashes[h]); b != nullptr) {
                table_.prefetch(b->key());
            }
        }
    }
}

std::uint32_t Writer::store(Endpoint& ep, Rank& rank, const sluice_kv_event& event) {
    if (event.num_hashes == 0) {
        return 0;
    }
    Inventory& inventory = rank.inventory;
    const bool is_new_group = !inventory.known_group(event.group);
    const unsigned group = inventory.group(event.group).value_or(0);  // check() left room
    if (is_new_group && group != 0) {
        // Blocks must be in this group too from now on.
        inventory.blocks().for_each(
            [&](Block& b) { publish(rank, b, b.published() & inventory.bits(b)); });
    }
    Link link;
    link.is_keyed =
        engine_keys_ || (event.num_tokens != 0 &&
                         std::uint64_t{event.num_hashes} * event.block_tokens == event.num_tokens);
    if ((event.flags & SLUICE_KV_HAS_PARENT) != 0) {
        if (Block* parent = inventory.find(event.parent); parent != nullptr) {
            link.kind = parent->is_opaque() ? Link::Kind::Opaque : Link::Kind::Known;
            link.key = parent->key();
            // A chain is of use only with its beginning: what is built upon does not age.
            parent->set_generation(ep.current);
        } else {
            // With engine keys a block's key does not depend on where the parent is.
            link.kind = engine_keys_ ? Link::Kind::Known : Link::Kind::Unknown;
        }
    } else {
        link.key = root_key(view(event.lora), view(event.salt));
    }
    std::uint32_t unplaced = 0;
    for (std::uint32_t i = 0; i < event.num_hashes; ++i) {
        if (i + kAhead < event.num_hashes) {
            inventory.prefetch(event.hashes[i + kAhead]);
        }
        unplaced += store_one(ep, rank, event, group, i, link) ? 0 : 1;
    }
    return unplaced;
}

bool Writer::store_one(Endpoint& ep, Rank& rank, const sluice_kv_event& event, unsigned group,
                       std::uint32_t at, Link& link) {
    Inventory& inventory = rank.inventory;
    const std::uint64_t hash = event.hashes[at];
    const bool is_opaque = event.opaque != nullptr && event.opaque[at] != 0;
    if (Inventory::is_extra(event.tier, group)) {
        make_room(ep, 2);  // before the look-up: eviction moves blocks
    }
    Block* block = inventory.find(hash);
    if (block == nullptr && (!link.is_keyed || link.kind == Link::Kind::Unknown)) {
        return false;
    }
    if (block == nullptr) {
        make_room(ep, 1);
    }
    const std::size_t before = inventory.records();
    if (block == nullptr) {
        block = &inventory.add(hash);
    }
    if (link.is_keyed && link.kind != Link::Kind::Unknown) {
        const bool ends_here = is_opaque || link.kind == Link::Kind::Opaque;
        Key key = hash;
        if (!ends_here && !engine_keys_) {
            key = next_key(link.key, {event.tokens + std::size_t{at} * event.block_tokens,
                                      event.block_tokens});
        }
        if (block->published() != 0 && (ends_here || key != block->key())) {
            publish(rank, *block, 0);  // it hangs elsewhere now: the newest word counts
        }
        block->set_opaque(ends_here);
        block->set_key(key);
    } else if (is_opaque) {
        publish(rank, *block, 0);
        block->set_opaque(true);
    }
    link.kind = block->is_opaque() ? Link::Kind::Opaque : Link::Kind::Known;
    link.key = block->key();

    const bool is_counted = (event.flags & SLUICE_KV_COPIES) != 0;
    if (!inventory.store(*block, event.tier, group, is_counted)) {
        ++rank.saturated_copies;
    }
    ep.records += inventory.records() - before;
    touch(ep, *block);
    if (inventory.bits(*block) != block->published()) {
        table_.prefetch(block->key());
        pending_.push_back({hash, block->key()});
    }
    return true;
}

void Writer::remove(Endpoint& ep, Rank& rank, const sluice_kv_event& event) {
    Inventory& inventory = rank.inventory;
    const auto group = inventory.known_group(event.group);
    const bool is_counted = (event.flags & SLUICE_KV_COPIES) != 0;
    for (std::uint32_t i = 0; i < event.num_hashes; ++i) {
        if (i + 2 * kAhead < event.num_hashes) {
            inventory.prefetch(event.hashes[i + 2 * kAhead]);
        }
        if (i + kAhead < event.num_hashes) {
            if (const Block* next = inventory.find(event.hashes[i + kAhead]); next != nullptr) {
                table_.prefetch(next->key());
            }
        }
        Block* block = inventory.find(event.hashes[i]);
        const std::size_t before = inventory.records();
        if (block == nullptr || !group ||
            !inventory.remove(*block, event.tier, *group, is_counted)) {
            ++rank.unknown_removals;
            continue;
        }
        ep.records += inventory.records() - before;
        if (!inventory.has_copies(*block)) {
            drop(ep, rank, *block);
        } else {
            // Only what readers may no longer count; additions wait for the end of the batch.
            publish(rank, *block, block->published() & inventory.bits(*block));
        }
    }
}

void Writer::clear(Endpoint& ep, Rank& rank, const sluice_kv_event& event) {
    Inventory& inventory = rank.inventory;
    std::optional<std::uint32_t> tier;
    std::optional<unsigned> group;
    if (event.tier != SLUICE_ANY) {
        tier = event.tier;
    }
    if (event.group != SLUICE_ANY) {
        group = inventory.known_group(event.group);
        if (!group) {
            return;
        }
    }
    const std::size_t before = inventory.records();
    inventory.blocks().erase_if([&](Block& block) {
        inventory.clear_copies(block, tier, group);
        publish(rank, block, block.published() & inventory.bits(block));
        return !inventory.has_copies(block);
    });
    ep.records -= before - inventory.records();
}

void Writer::reset(std::uint64_t endpoint, std::uint32_t rank) {
    const auto it = endpoints_.find(endpoint);
    if (it == endpoints_.end()) {
        return;
    }
    auto& ranks = it->second.ranks;
    for (std::uint32_t r = 0; r < ranks.size(); ++r) {
        if (rank == SLUICE_ANY || rank == r) {
            forget(it->second, *ranks[r]);
            holders_.set_hidden(ranks[r]->holder, false);
            tell(it->second, *ranks[r]);
        }
    }
    tidy();
}

void Writer::report(const sluice_kv_report& report) {
    const bool is_unproven = report.size >= kReportBytes && report.state == SLUICE_KV_UNPROVEN;
    const bool is_live = report.size >= kReportBytes && report.state == SLUICE_KV_LIVE;
    const auto it = endpoints_.find(report.endpoint);
    if (it == endpoints_.end() || (!is_unproven && !is_live)) {
        return;
    }
    auto& ranks = it->second.ranks;
    for (std::uint32_t r = 0; r < ranks.size(); ++r) {
        if (report.dp_rank == SLUICE_ANY || report.dp_rank == r) {
            set_doubt(*ranks[r], is_unproven);
        }
    }
    tidy();
}

}  // namespace sluice::kv
