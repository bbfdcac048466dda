// One writer and several readers at a time; run under ThreadSanitizer too.
#include <doctest/doctest.h>

#include <atomic>
#include <random>
#include <thread>

#include "core/kv/index.hpp"
#include "tests/unit/kv/events.hpp"

using namespace sluice;
using namespace sluice::kv;
using namespace sluice::kv::test;

namespace {

// `n` blocks of a prompt of its own.
struct Prompt {
    std::vector<std::uint64_t> hashes;
    std::vector<std::uint32_t> tokens;
    std::vector<Key> keys;
};

Prompt prompt(std::uint32_t number, std::size_t n) {
    Prompt p;
    p.tokens = tokens_of(n, 1'000 + number * 100);
    p.keys = keys_of(p.tokens);
    for (std::size_t i = 0; i < n; ++i) {
        p.hashes.push_back(std::uint64_t{number} << 32 | i);
    }
    return p;
}

}  // namespace

TEST_SUITE_BEGIN("kv/concurrency");

TEST_CASE("readers see blocks that stay, whatever the writer grows, moves and frees around them") {
    // Six holders, so that words spill into sets and come back.
    constexpr std::uint64_t kEndpoints = 6;
    Index index{IndexOptions{.max_blocks_per_endpoint = 3'000}};
    for (std::uint64_t ep = 1; ep <= kEndpoints; ++ep) {
        REQUIRE(index.attach(ep, 2));
    }
    // Endpoint 100 holds one prompt all the time.
    REQUIRE(index.attach(100, 1));
    const Prompt stays = prompt(0, 40);
    REQUIRE(test::apply(index, 100, 0, {stored(stays.hashes, stays.tokens)}));

    std::vector<Prompt> prompts;
    for (std::uint32_t i = 1; i <= 200; ++i) {
        prompts.push_back(prompt(i, 20));
    }
    std::atomic<bool> is_done{false};
    std::atomic<std::uint64_t> reads{0};
    std::atomic<std::uint64_t> faults{0};
    const auto reader = [&](std::uint64_t seed) {
        std::mt19937_64 rng(seed);
        MatchSet out;
        std::uint64_t n = 0;
        while (!is_done.load(std::memory_order_relaxed) || n < 200) {
            index.match(stays.keys, out);
            const Match* m = out.find(100, 0);
            faults += m == nullptr || m->blocks != 40 || m->gpu_blocks != 40 ? 1 : 0;
            index.match(prompts[rng() % prompts.size()].keys, out);
            for (const Match& other : out.matches()) {
                // Nobody who is not, or was not just now, an owner; nobody beyond the prompt.
                faults += other.endpoint == 0 || other.endpoint > kEndpoints || other.rank > 1 ||
                                  other.blocks > 20 || other.gpu_blocks > other.blocks
                              ? 1
                              : 0;
            }
            if (++n % 64 == 0) {
                faults += index.list(100, 100).size() != 40 ? 1 : 0;
                (void)index.stats().size();  // for the sanitizer: reads what the writer writes
                (void)index.memory().total();
            }
        }
        reads += n;
    };
    {
        std::vector<std::jthread> readers;
        for (std::uint64_t i = 0; i < 3; ++i) {
            readers.emplace_back(reader, i);
        }
        std::mt19937_64 rng(7);
        for (int step = 0; step < 3000; ++step) {
            const std::uint64_t ep = 1 + rng() % kEndpoints;
            const auto rank = static_cast<std::uint32_t>(rng() % 2);
            const Prompt& p = prompts[rng() % prompts.size()];
            switch (rng() % 32) {
                case 0:
                    index.reset(ep, rank);
                    break;
                case 1:
                    index.detach(ep);
                    REQUIRE(index.attach(ep, 2));
                    break;
                case 2:
                    report(index, ep, SLUICE_ANY, SLUICE_KV_UNPROVEN);
                    break;
                case 3:
                    report(index, ep, SLUICE_ANY, SLUICE_KV_LIVE);
                    break;
                case 4:
                    REQUIRE(test::apply(index, ep, rank, {cleared()}));
                    break;
                default:
                    REQUIRE(test::apply(
                        index, ep, rank,
                        {rng() % 3 == 0 ? removed(p.hashes) : stored(p.hashes, p.tokens)}));
            }
            if (step % 100 == 0) {
                // The one that stays is written to as well: a copy more, a copy less.
                REQUIRE(test::apply(
                    index, 100, 0,
                    {counted(stored(stays.hashes, stays.tokens)), counted(removed(stays.hashes))}));
            }
        }
        is_done = true;
    }
    CHECK(faults.load() == 0);
    CHECK(reads.load() >= 600);
    // With the readers gone, the next change frees all that waited for them.
    REQUIRE(test::apply(index, 100, 0, {}));
    CHECK(index.memory().retired_bytes == 0);
}

TEST_CASE("a batch in progress shows no addition before its removals") {
    // Each batch moves the rank to the next prompt for good, and names the addition first. Whoever
    // sees the new one must not find the old one afterwards.
    Index index{IndexOptions{}};
    REQUIRE(index.attach(1, 1));
    std::vector<Prompt> prompts;
    for (std::uint32_t i = 0; i < 1'500; ++i) {
        prompts.push_back(prompt(i, 30));
    }
    std::atomic<std::size_t> at{0};
    std::atomic<std::uint64_t> faults{0};
    std::jthread reader([&] {
        MatchSet out;
        for (std::size_t i = 0; i + 1 < prompts.size(); i = at.load(std::memory_order_relaxed)) {
            index.match(std::vector<Key>{prompts[i + 1].keys.front(), prompts[i].keys.back()}, out);
            const Match* m = out.find(1, 0);
            faults += m != nullptr && m->blocks == 2 ? 1 : 0;
        }
    });
    REQUIRE(test::apply(index, 1, 0, {stored(prompts[0].hashes, prompts[0].tokens)}));
    for (std::size_t i = 0; i + 1 < prompts.size(); ++i) {
        at.store(i, std::memory_order_relaxed);
        REQUIRE(test::apply(
            index, 1, 0,
            {stored(prompts[i + 1].hashes, prompts[i + 1].tokens), removed(prompts[i].hashes)}));
    }
    at.store(prompts.size());
    reader.join();
    CHECK(faults.load() == 0);
}

TEST_SUITE_END();
