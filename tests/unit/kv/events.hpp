// Builds normalised event batches for tests.
//
// Threads: one.
#pragma once
#include <sluice/sdk/kv.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/kv/index.hpp"

namespace sluice::kv::test {

inline sluice_str text(std::string_view s) {
    return {s.data(), s.size()};
}

struct Event {
    std::uint32_t type = SLUICE_KV_STORED;
    std::vector<std::uint64_t> hashes{};
    std::vector<std::uint32_t> tokens{};
    std::optional<std::uint64_t> parent{};
    std::uint32_t block_tokens = 4;
    std::uint32_t tier = SLUICE_TIER_GPU;
    std::uint32_t group = 0;
    bool copies = false;
    std::vector<std::uint8_t> opaque{};
    std::string lora{};
    std::string salt{};
};

inline Status apply(Index& index, std::uint64_t endpoint, std::uint32_t rank,
                    const std::vector<Event>& events, std::uint32_t* unplaced = nullptr) {
    std::vector<sluice_kv_event> raw;
    for (const Event& e : events) {
        sluice_kv_event r{};
        r.size = sizeof r;
        r.type = e.type;
        if (e.parent) {
            r.flags |= SLUICE_KV_HAS_PARENT;
        }
        if (e.copies) {
            r.flags |= SLUICE_KV_COPIES;
        }
        r.tier = e.tier;
        r.group = e.group;
        r.block_tokens = e.block_tokens;
        r.num_hashes = static_cast<std::uint32_t>(e.hashes.size());
        r.num_tokens = static_cast<std::uint32_t>(e.tokens.size());
        r.hashes = e.hashes.data();
        r.tokens = e.tokens.data();
        r.opaque = e.opaque.empty() ? nullptr : e.opaque.data();
        r.parent = e.parent.value_or(0);
        r.lora = text(e.lora);
        r.salt = text(e.salt);
        raw.push_back(r);
    }
    sluice_kv_batch batch{};
    batch.size = sizeof batch;
    batch.dp_rank = rank;
    batch.endpoint = endpoint;
    batch.events = {raw.data(), static_cast<std::uint32_t>(raw.size()), sizeof(sluice_kv_event)};
    return index.apply(batch, unplaced);
}

inline Event stored(std::vector<std::uint64_t> hashes, std::vector<std::uint32_t> tokens,
                    std::optional<std::uint64_t> parent = std::nullopt) {
    Event e;
    e.hashes = std::move(hashes);
    e.tokens = std::move(tokens);
    e.parent = parent;
    return e;
}

inline Event removed(std::vector<std::uint64_t> hashes) {
    Event e;
    e.type = SLUICE_KV_REMOVED;
    e.hashes = std::move(hashes);
    return e;
}

inline Event cleared(std::uint32_t tier = SLUICE_TIER_GPU, std::uint32_t group = SLUICE_ANY) {
    Event e;
    e.type = SLUICE_KV_CLEARED;
    e.tier = tier;
    e.group = group;
    return e;
}

inline Event counted(Event e) {
    e.copies = true;
    return e;
}

inline Event on(std::uint32_t tier, Event e) {
    e.tier = tier;
    return e;
}

inline Event in_group(std::uint32_t group, Event e) {
    e.group = group;
    return e;
}

inline void report(Index& index, std::uint64_t endpoint, std::uint32_t rank, std::uint32_t state) {
    sluice_kv_report r{};
    r.size = sizeof r;
    r.dp_rank = rank;
    r.endpoint = endpoint;
    r.state = state;
    r.why = SLUICE_WHY_GAP;
    index.report(r);
}

// `n` blocks of 4 tokens: 10, 10, 10, 10, 11, 11, ...
inline std::vector<std::uint32_t> tokens_of(std::size_t n, std::uint32_t first = 10) {
    std::vector<std::uint32_t> out;
    for (std::size_t i = 0; i < n; ++i) {
        out.insert(out.end(), 4, first + static_cast<std::uint32_t>(i));
    }
    return out;
}

inline std::vector<Key> keys_of(const std::vector<std::uint32_t>& tokens,
                                std::string_view lora = {}, std::string_view salt = {}) {
    std::vector<Key> out;
    chain(root_key(lora, salt), tokens, 4, out);
    return out;
}

// What one rank has of a query: blocks, on GPU, doubtful.
struct Reach {
    std::uint32_t blocks = 0, gpu = 0, doubtful = 0;
    bool operator==(const Reach&) const = default;
};

inline Reach reach(const Index& index, const std::vector<Key>& query, std::uint64_t endpoint = 1,
                   std::uint32_t rank = 0) {
    MatchSet out;
    index.match(query, out);
    const Match* m = out.find(endpoint, rank);
    return m == nullptr ? Reach{} : Reach{m->blocks, m->gpu_blocks, m->doubtful_blocks};
}

inline HolderStats stats_of(const Index& index, std::uint64_t endpoint, std::uint32_t rank = 0) {
    for (const HolderStats& s : index.stats()) {
        if (s.endpoint == endpoint && s.rank == rank) {
            return s;
        }
    }
    return {};
}

}  // namespace sluice::kv::test
