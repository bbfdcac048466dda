#include "core/flow/event_encoder.hpp"

#include <map>
#include <utility>

namespace sluice::flow {
namespace {

std::string_view view(const sluice_str& s) noexcept {
    return s.len == 0 ? std::string_view() : std::string_view(s.ptr, s.len);
}

bool is_counted(const sluice_kv_event& event) noexcept {
    return (event.flags & SLUICE_KV_COPIES) != 0;
}

// The tokens are those of its blocks, so that these can be keyed.
bool is_whole(const sluice_kv_event& event) noexcept {
    return event.num_tokens != 0 &&
           std::uint64_t{event.num_hashes} * event.block_tokens == event.num_tokens;
}

bool is_opaque_at(const sluice_kv_event& event, std::size_t i) noexcept {
    return event.opaque != nullptr && event.opaque[i] != 0;
}

}  // namespace

std::vector<std::string> EventEncoder::encode(const sluice_kv_batch& batch, double at) {
    for (std::uint32_t i = 0; i < batch.events.count; ++i) {
        const auto& event = *SLUICE_AT(sluice_kv_event, batch.events, i);
        switch (event.type) {
            case SLUICE_KV_STORED:
                stored(event);
                break;
            case SLUICE_KV_REMOVED:
                removed(event);
                break;
            default:
                cleared(event.tier, event.group);
                break;
        }
    }
    return writer_.take(at);
}

std::vector<std::string> EventEncoder::forget(double at) {
    cleared(SLUICE_ANY, SLUICE_ANY);
    return writer_.take(at);
}

void EventEncoder::stored(const sluice_kv_event& event) {
    if (event.num_hashes == 0) {
        return;
    }
    if (is_counted(event)) {
        stored_counted(event);
    } else {
        stored_once(event);
    }
}

void EventEncoder::write(const sluice_kv_event& event, std::size_t from, std::size_t to) {
    if (from == to) {
        return;
    }
    EventWriter::Stored out;
    out.hashes = {event.hashes + from, to - from};
    out.tier = event.tier;
    out.group = event.group;
    out.opaque = event.opaque == nullptr ? nullptr : event.opaque + from;
    out.lora = view(event.lora);
    out.salt = view(event.salt);
    if (from > 0) {
        out.parent = event.hashes[from - 1];
    } else if ((event.flags & SLUICE_KV_HAS_PARENT) != 0) {
        out.parent = event.parent;
    }
    if (is_whole(event)) {
        out.block_tokens = event.block_tokens;
        out.tokens = {event.tokens + from * event.block_tokens, (to - from) * event.block_tokens};
    } else if (to - from == event.num_hashes) {
        out.block_tokens = event.block_tokens;
        out.tokens = {event.tokens, event.num_tokens};
    }
    writer_.stored(out);
    has_told_ = true;
}

// Each event is a copy, as readers count them. On GPU they need no help of ours; elsewhere they
// have to be taken back by name when a rank is forgotten.
void EventEncoder::stored_counted(const sluice_kv_event& event) {
    if (event.tier == SLUICE_TIER_GPU) {
        write(event, 0, event.num_hashes);
        return;
    }
    std::size_t from = 0;
    for (std::size_t i = 0; i < event.num_hashes; ++i) {
        if (!ledger_.add(event.hashes[i], {event.tier, event.group}, is_opaque_at(event, i))) {
            write(event, from, i);
            from = i + 1;
            ++left_out_;
        }
    }
    write(event, from, event.num_hashes);
}

// A block that is held is stored no second time; one whose place in a prompt is not known is not
// held by readers, either.
void EventEncoder::stored_once(const sluice_kv_event& event) {
    const Place place{event.tier, event.group};
    const bool is_keyed = is_whole(event);
    // A block hangs on what stands before it: behind one that matches nothing, none matches.
    bool is_hidden = (event.flags & SLUICE_KV_HAS_PARENT) != 0 && ledger_.is_opaque(event.parent);
    bool is_linked = (event.flags & SLUICE_KV_HAS_PARENT) == 0 || ledger_.has(event.parent);
    std::size_t from = 0;
    for (std::size_t i = 0; i < event.num_hashes; ++i) {
        const std::uint64_t hash = event.hashes[i];
        const bool is_placed_by_tokens = is_keyed && is_linked;
        is_hidden =
            is_opaque_at(event, i) || (is_placed_by_tokens ? is_hidden : ledger_.is_opaque(hash));
        if (ledger_.has(hash, place)) {
            const bool is_another = ledger_.is_opaque(hash) != is_hidden;
            write(event, from, i);
            from = i + 1;
            is_linked = true;
            if (is_another) {
                // What is known of it changed: readers take the newest word, but would count it.
                ledger_.take(hash, [&](std::uint64_t, Place at, std::uint32_t copies) {
                    const std::vector<std::uint64_t> same(copies, hash);
                    writer_.removed(same, at.tier, at.group);
                });
                is_linked = is_placed_by_tokens && ledger_.add(hash, place, is_hidden);
                from = is_linked ? i : i + 1;
            }
            continue;
        }
        const bool has_place = ledger_.has(hash) || is_placed_by_tokens;
        if (has_place && ledger_.add(hash, place, is_hidden)) {
            is_linked = true;
            continue;
        }
        left_out_ += has_place ? 1 : 0;
        is_linked = false;
        write(event, from, i);
        from = i + 1;
    }
    write(event, from, event.num_hashes);
}

void EventEncoder::removed(const sluice_kv_event& event) {
    const Place place{event.tier, event.group};
    const bool is_engines_count = is_counted(event) && event.tier == SLUICE_TIER_GPU;
    std::size_t from = 0;
    const auto tell = [&](std::size_t to) {
        if (to > from) {
            writer_.removed({event.hashes + from, to - from}, place.tier, place.group);
        }
        from = to + 1;
    };
    for (std::size_t i = 0; i < event.num_hashes; ++i) {
        if (!is_engines_count && !ledger_.remove(event.hashes[i], place)) {
            tell(i);  // readers never heard of it
        }
    }
    tell(event.num_hashes);
}

void EventEncoder::cleared(std::uint32_t tier, std::uint32_t group) {
    const bool is_gpu = tier == SLUICE_ANY || tier == SLUICE_TIER_GPU;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint64_t>> gone;
    ledger_.drop(
        [&](Place place) {
            if (place.tier == SLUICE_TIER_GPU) {
                return is_gpu;  // of every group: a clear of one cannot be said
            }
            return (tier == SLUICE_ANY || tier == place.tier) &&
                   (group == SLUICE_ANY || group == place.group);
        },
        [&](std::uint64_t hash, Place place, std::uint32_t copies) {
            if (place.tier != SLUICE_TIER_GPU) {
                auto& hashes = gone[{place.tier, place.group}];
                hashes.insert(hashes.end(), copies, hash);
            }
        });
    if (is_gpu && has_told_) {
        writer_.cleared();
        has_told_ = false;
    }
    for (const auto& [place, hashes] : gone) {
        writer_.removed(hashes, place.first, place.second);
    }
}

}  // namespace sluice::flow
