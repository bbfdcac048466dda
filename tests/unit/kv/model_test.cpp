// The index against a naive model: random streams of events, every answer compared.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "core/kv/index.hpp"
#include "tests/unit/kv/events.hpp"

using namespace sluice;
using namespace sluice::kv;
using namespace sluice::kv::test;

namespace {

struct ModelBlock {
    bool is_opaque = false;
    Key key = 0;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<unsigned, unsigned>> copies;
};

struct ModelRank {
    std::map<std::uint64_t, ModelBlock> blocks;
    std::set<std::uint32_t> groups;
    bool in_doubt = false;
    bool engine_keys = false;

    std::uint32_t apply(const Event& e) {
        if (e.type == SLUICE_KV_REMOVED) {
            for (const auto hash : e.hashes) {
                remove(hash, e);
            }
            return 0;
        }
        if (e.type == SLUICE_KV_CLEARED) {
            for (auto& [hash, b] : blocks) {
                std::erase_if(b.copies, [&](const auto& c) {
                    return (e.tier == SLUICE_ANY || c.first.first == e.tier) &&
                           (e.group == SLUICE_ANY || c.first.second == e.group);
                });
            }
            std::erase_if(blocks, [](const auto& b) { return b.second.copies.empty(); });
            return 0;
        }
        return store(e);
    }

    std::uint32_t store(const Event& e) {
        if (e.hashes.empty()) {
            return 0;
        }
        groups.insert(e.group);
        const bool keyed = engine_keys || (!e.tokens.empty() &&
                                           e.hashes.size() * e.block_tokens == e.tokens.size());
        std::optional<std::pair<bool, Key>> link{{false, root_key(e.lora, e.salt)}};
        if (e.parent) {
            const auto it = blocks.find(*e.parent);
            if (it != blocks.end()) {
                link = {it->second.is_opaque, it->second.key};
            } else if (!engine_keys) {
                link.reset();
            }
        }
        std::uint32_t unplaced = 0;
        for (std::size_t i = 0; i < e.hashes.size(); ++i) {
            const bool flagged = !e.opaque.empty() && e.opaque[i] != 0;
            const auto known = blocks.find(e.hashes[i]);
            if (known == blocks.end() && (!keyed || !link)) {
                ++unplaced;
                continue;
            }
            ModelBlock& b = blocks[e.hashes[i]];
            if (keyed && link) {
                b.is_opaque = flagged || link->first;
                b.key = engine_keys || b.is_opaque
                            ? e.hashes[i]
                            : next_key(link->second, std::span(e.tokens).subspan(i * e.block_tokens,
                                                                                 e.block_tokens));
            } else if (flagged) {
                b.is_opaque = true;
            }
            link = {b.is_opaque, b.key};
            auto& [n, certain] = b.copies[{e.tier, e.group}];
            n = e.copies ? std::min(n + 1, 255U) : std::max(n, 1U);
            if (in_doubt) {
                certain = e.copies ? std::min(certain + 1, 7U) : std::max(certain, 1U);
            }
        }
        return unplaced;
    }

    void remove(std::uint64_t hash, const Event& e) {
        const auto it = blocks.find(hash);
        if (it == blocks.end()) {
            return;
        }
        const auto c = it->second.copies.find({e.tier, e.group});
        if (c == it->second.copies.end()) {
            return;
        }
        auto& [n, certain] = c->second;
        n = e.copies ? n - 1 : 0;
        certain = e.copies && certain > 0 ? certain - 1 : 0;
        if (n == 0) {
            it->second.copies.erase(c);
        }
        if (it->second.copies.empty()) {
            blocks.erase(it);
        }
    }

    void report(bool unproven) {
        in_doubt = unproven;
        for (auto& [hash, b] : blocks) {
            for (auto& c : b.copies) {
                c.second.second = 0;
            }
        }
    }

    bool has(Key key, bool gpu_only, bool count_doubtful) const {
        for (const auto& [hash, b] : blocks) {
            if (b.is_opaque || b.key != key) {
                continue;
            }
            std::set<std::uint32_t> in;
            for (const auto& [where, n] : b.copies) {
                if ((!gpu_only || where.first == SLUICE_TIER_GPU) &&
                    (count_doubtful || !in_doubt || n.second != 0)) {
                    in.insert(where.second);
                }
            }
            if (in == groups) {
                return true;
            }
        }
        return false;
    }

    Reach reach(const std::vector<Key>& query) const {
        Reach r;
        std::uint32_t maybe = 0;
        while (maybe < query.size() && has(query[maybe], false, true)) {
            ++maybe;
        }
        while (r.blocks < query.size() && has(query[r.blocks], false, false)) {
            ++r.blocks;
        }
        while (r.gpu < query.size() && has(query[r.gpu], true, false)) {
            ++r.gpu;
        }
        r.doubtful = maybe - r.blocks;
        return r;
    }
};

// A tree of prompts: every block is four times one of three tokens, two adapters, two salts.
class Stream {
public:
    Stream(std::uint64_t seed, bool is_wild) : rng_(seed), is_wild_(is_wild) {}

    std::uint64_t below(std::uint64_t n) { return rng_() % n; }
    bool chance(unsigned percent) { return below(100) < percent; }

    struct Path {
        std::string lora, salt;
        std::vector<std::uint32_t> blocks;
        std::vector<std::uint32_t> tokens(std::size_t from = 0) const {
            std::vector<std::uint32_t> out;
            for (std::size_t i = from; i < blocks.size(); ++i) {
                out.insert(out.end(), 4, blocks[i]);
            }
            return out;
        }
    };
    Path path() {
        Path p;
        p.lora = is_wild_ && chance(10) ? "l" : "";
        p.salt = is_wild_ && chance(10) ? "s" : "";
        const std::size_t depth = 1 + below(7);
        for (std::size_t i = 0; i < depth; ++i) {
            p.blocks.push_back(static_cast<std::uint32_t>(chance(60) ? 1 : 1 + below(3)));
        }
        return p;
    }
    // The engine's hash of the first n blocks; `variant` makes another hash of the same blocks.
    static std::uint64_t hash(const Path& p, std::size_t n, std::uint64_t variant) {
        std::uint64_t h =
            variant + (p.lora.empty() ? 0 : 1'000'000) + (p.salt.empty() ? 0 : 2'000'000);
        for (std::size_t i = 0; i < std::min(n, p.blocks.size()); ++i) {
            h = h * 4 + 10 * p.blocks[i] + 7;
        }
        return h;
    }
    void place(Event& e) {
        e.copies = copies_;
        if (is_wild_) {
            e.tier = chance(70) ? std::uint32_t{SLUICE_TIER_GPU}
                                : 1 + static_cast<std::uint32_t>(below(4));
            e.group = num_groups_ == 1 ? 0 : 5 * static_cast<std::uint32_t>(below(num_groups_));
        }
    }
    Event store() {
        const Path p = path();
        const std::size_t from = below(p.blocks.size());
        const std::uint64_t variant = is_wild_ && chance(5) ? 1'000'000'007 : 0;
        Event e;
        e.lora = p.lora;
        e.salt = p.salt;
        if (from > 0) {
            e.parent = hash(p, from, 0);
        }
        for (std::size_t i = from; i < p.blocks.size(); ++i) {
            e.hashes.push_back(hash(p, i + 1, variant));
        }
        e.tokens = p.tokens(from);
        place(e);
        if (is_wild_) {
            if (chance(3)) {
                e.hashes[0] = hash(path(), 1 + below(2), 0);  // a hash that meant something else
            }
            if (chance(5)) {
                e.opaque.assign(e.hashes.size(), 0);
                e.opaque[below(e.hashes.size())] = 1;
            }
            if (chance(10)) {
                e.tokens.clear();
            } else if (chance(3)) {
                e.block_tokens = 0;
            }
        }
        return e;
    }
    Event removal() {
        Event e;
        e.type = SLUICE_KV_REMOVED;
        const std::size_t n = 1 + below(3);
        for (std::size_t i = 0; i < n; ++i) {
            const Path p = path();
            e.hashes.push_back(hash(p, p.blocks.size(), is_wild_ && chance(5) ? 1'000'000'007 : 0));
        }
        place(e);
        return e;
    }
    Event any() {
        if (chance(55)) {
            return store();
        }
        if (chance(97)) {
            return removal();
        }
        Event e = cleared(chance(50) ? std::uint32_t{SLUICE_TIER_GPU} : SLUICE_ANY);
        e.group = chance(50) ? SLUICE_ANY : 5 * static_cast<std::uint32_t>(below(3));
        return e;
    }

    bool copies_ = true;
    std::uint32_t num_groups_ = 1;

private:
    std::mt19937_64 rng_;
    bool is_wild_;
};

}  // namespace

TEST_SUITE_BEGIN("kv/model");

TEST_CASE("random streams give the answers of a naive model") {
    constexpr std::uint32_t kRanks = 3;
    constexpr std::uint64_t kEndpoints = 2;
    for (std::uint64_t seed = 1; seed <= 16; ++seed) {
        CAPTURE(seed);
        Stream stream(seed, true);
        stream.copies_ = seed % 3 != 0;
        stream.num_groups_ = seed % 4 == 0 ? 2 : 1;
        const bool engine_keys = seed % 8 == 5;
        Index index{IndexOptions{.engine_keys = engine_keys}};
        std::map<std::pair<std::uint64_t, std::uint32_t>, ModelRank> model;
        for (std::uint64_t ep = 1; ep <= kEndpoints; ++ep) {
            REQUIRE(index.attach(ep, kRanks));
            for (std::uint32_t r = 0; r < kRanks; ++r) {
                model[{ep, r}].engine_keys = engine_keys;
            }
        }
        for (int step = 0; step < 250; ++step) {
            CAPTURE(step);
            const std::uint64_t ep = 1 + stream.below(kEndpoints);
            const auto rank = static_cast<std::uint32_t>(stream.below(kRanks));
            ModelRank& m = model[{ep, rank}];
            if (stream.chance(2)) {
                index.reset(ep, rank);
                m = ModelRank{};
                m.engine_keys = engine_keys;
            } else if (stream.chance(4)) {
                const bool unproven = stream.chance(60);
                report(index, ep, rank, unproven ? SLUICE_KV_UNPROVEN : SLUICE_KV_LIVE);
                m.report(unproven);
            } else {
                std::vector<Event> events;
                std::uint32_t want = 0;
                for (std::uint64_t n = 1 + stream.below(4); n > 0; --n) {
                    events.push_back(stream.any());
                    want += m.apply(events.back());
                }
                std::uint32_t unplaced = 0;
                REQUIRE(test::apply(index, ep, rank, events, &unplaced));
                REQUIRE(unplaced == want);
            }
            REQUIRE(stats_of(index, ep, rank).total_blocks == m.blocks.size());
            for (int q = 0; q < 3; ++q) {
                const auto p = stream.path();
                std::vector<Key> query;
                if (engine_keys) {
                    for (std::size_t i = 1; i <= p.blocks.size(); ++i) {
                        query.push_back(Stream::hash(p, i, 0));
                    }
                } else {
                    query = keys_of(p.tokens(), p.lora, p.salt);
                }
                MatchSet out;
                index.match(query, out);
                for (const auto& [who, ranks] : model) {
                    const Match* got = out.find(who.first, who.second);
                    const Reach have =
                        got == nullptr ? Reach{}
                                       : Reach{got->blocks, got->gpu_blocks, got->doubtful_blocks};
                    const Reach want = ranks.reach(query);
                    CAPTURE(who.first);
                    CAPTURE(who.second);
                    REQUIRE(have.blocks == want.blocks);
                    REQUIRE(have.gpu == want.gpu);
                    REQUIRE(have.doubtful == want.doubtful);
                }
            }
        }
    }
}

TEST_CASE("under its bound the index is the model less what it says it evicted") {
    for (std::uint64_t seed = 101; seed <= 108; ++seed) {
        CAPTURE(seed);
        Stream stream(seed, false);
        stream.copies_ = false;
        const std::uint64_t bound = 8 + stream.below(40);
        Index index{IndexOptions{.max_blocks_per_endpoint = bound}};
        REQUIRE(index.attach(1, 1));
        ModelRank model;
        std::uint64_t evictions = 0;
        for (int step = 0; step < 400; ++step) {
            CAPTURE(step);
            const Event e = stream.chance(75) ? stream.store() : stream.removal();
            REQUIRE(test::apply(index, 1, 0, {e}));
            model.apply(e);
            std::uint64_t missing = 0;
            for (auto it = model.blocks.begin(); it != model.blocks.end();) {
                const bool is_there = test::reach(index, {it->second.key}).blocks == 1;
                missing += is_there ? 0 : 1;
                it = is_there ? std::next(it) : model.blocks.erase(it);
            }
            const HolderStats stats = stats_of(index, 1);
            REQUIRE(missing <= stats.evictions - evictions);
            REQUIRE(stats.total_blocks == model.blocks.size());
            REQUIRE(stats.gpu_blocks == model.blocks.size());
            REQUIRE(stats.total_blocks <= bound);
            REQUIRE(index.list(1, 1000).size() == model.blocks.size());
            evictions = stats.evictions;
        }
        CHECK(evictions > 0);
    }
}

TEST_SUITE_END();
