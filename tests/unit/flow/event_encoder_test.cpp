#include "core/flow/event_encoder.hpp"

#include <doctest/doctest.h>

#include <random>

#include "tests/unit/flow/event_reader.hpp"
#include "tests/unit/plugin_vllm/vectors.hpp"

using namespace sluice;
using namespace sluice::flow;
using namespace sluice::flow::test;

namespace {

constexpr double kNow = 1'800'000'000.5;
constexpr std::uint32_t kBlock = 4;

// A stored event that owns what it points to.
struct Blocks {
    std::vector<std::uint64_t> hashes;
    std::vector<std::uint32_t> tokens;
    std::vector<std::uint8_t> opaque;
    std::string lora, salt;
    std::optional<std::uint64_t> parent;
    std::uint32_t flags = 0, tier = SLUICE_TIER_GPU, group = 0, block_tokens = kBlock;

    sluice_kv_event event(std::uint32_t type = SLUICE_KV_STORED) const {
        sluice_kv_event e{};
        e.size = sizeof e;
        e.type = type;
        e.flags = flags | (parent ? std::uint32_t{SLUICE_KV_HAS_PARENT} : 0U);
        e.tier = tier;
        e.group = group;
        e.block_tokens = block_tokens;
        e.num_hashes = static_cast<std::uint32_t>(hashes.size());
        e.hashes = hashes.data();
        e.num_tokens = static_cast<std::uint32_t>(tokens.size());
        e.tokens = tokens.data();
        e.opaque = opaque.empty() ? nullptr : opaque.data();
        e.parent = parent.value_or(0);
        e.lora = {lora.data(), lora.size()};
        e.salt = {salt.data(), salt.size()};
        return e;
    }
};

// Blocks first..first+count of prompt `prompt`.
Blocks blocks(std::uint32_t prompt, std::uint32_t first, std::uint32_t count,
              std::uint32_t flags = 0) {
    Blocks out;
    out.flags = flags;
    for (std::uint32_t b = first; b < first + count; ++b) {
        out.hashes.push_back((std::uint64_t{prompt} << 32U) + b + 0x8000'0000'0000'0000U);
        for (std::uint32_t t = 0; t < kBlock; ++t) {
            out.tokens.push_back(prompt * 100'000 + b * kBlock + t);
        }
    }
    if (first > 0) {
        out.parent = (std::uint64_t{prompt} << 32U) + first - 1 + 0x8000'0000'0000'0000U;
    }
    return out;
}

sluice_kv_event cleared(std::uint32_t tier, std::uint32_t group) {
    sluice_kv_event e{};
    e.size = sizeof e;
    e.type = SLUICE_KV_CLEARED;
    e.tier = tier;
    e.group = group;
    return e;
}

std::vector<std::string> encode(EventEncoder& encoder, std::vector<sluice_kv_event> events) {
    return encoder.encode(batch_of(events), kNow);
}

// All events of some payloads.
std::vector<vllm::Event> events_of(const std::vector<std::string>& payloads) {
    std::vector<vllm::Event> out;
    for (const std::string& payload : payloads) {
        for (vllm::Event& event : decoded(payload).events) {
            out.push_back(std::move(event));
        }
    }
    return out;
}

}  // namespace

TEST_SUITE("flow/event_encoder") {
    TEST_CASE("a stored event is a map with all that roots and links its blocks") {
        EventEncoder encoder(3, 1000);
        Blocks root = blocks(1, 0, 3);
        root.lora = "sql";
        root.salt = "tenant-a";
        const auto payloads = encode(encoder, {root.event()});
        REQUIRE(payloads.size() == 1);
        const vllm::Batch batch = decoded(payloads[0]);
        CHECK(batch.engine_time_s == kNow);
        CHECK(batch.rank == 3);
        REQUIRE(batch.events.size() == 1);
        const vllm::Event& event = batch.events[0];
        CHECK(event.hashes == root.hashes);
        CHECK(event.tokens == root.tokens);
        CHECK_FALSE(event.parent);
        CHECK(event.block_size == kBlock);
        CHECK(event.medium == "GPU");
        CHECK(event.lora_name == "sql");
        CHECK(event.group == 0);
        CHECK(event.spec_kind == "full_attention");
        const vllm::Reading reading = vllm::read_keys(event);
        CHECK(reading.lora == "sql");
        CHECK(reading.salt == "tenant-a");
        CHECK(reading.is_plain());
        // The salt is the first block's; the next event has none.
        Blocks more = blocks(1, 3, 1);
        more.lora = "sql";
        more.salt = "tenant-a";
        const auto next = events_of(encode(encoder, {more.event()}));
        REQUIRE(next.size() == 1);
        CHECK(next[0].parent == root.hashes.back());
        CHECK(vllm::read_keys(next[0]).salt.empty());
        CHECK(vllm::read_keys(next[0]).is_plain());
    }

    TEST_CASE("every vector of the engine's own events says the same after a second journey") {
        std::size_t compared = 0;
        const auto lines = vllm::test::each_line(
            "tests/vectors/vllm_kv_events.jsonl", [&](const simdjson::dom::element& line) {
                CAPTURE(vllm::test::str(line, "id"));
                vllm::Batch first;
                if (!vllm::decode(
                        vllm::test::bytes(vllm::test::unhex(vllm::test::str(line, "payload_hex"))),
                        first)) {
                    return;
                }
                vllm::Translator translator;
                vllm::Translated before = translator.translate(first);
                EventEncoder encoder(0, 1000);
                const auto payloads = encoder.encode(batch_of(before.events), kNow);
                Reader direct;
                Reader republished;
                REQUIRE(direct.index.apply(batch_of(before.events)));
                republished.read(payloads);
                CHECK(keys(direct.index) == keys(republished.index));
                CHECK(direct.index.stats()[0].total_blocks ==
                      republished.index.stats()[0].total_blocks);
                ++compared;
            });
        CHECK(lines >= 80);
        CHECK(compared >= 50);
    }

    TEST_CASE("a block that matches nothing is one for readers, too, wherever it stands") {
        for (const std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
            for (const char* salt : {"", "tenant-a"}) {
                for (const char* lora : {"", "sql"}) {
                    CAPTURE(at);
                    CAPTURE(salt);
                    CAPTURE(lora);
                    Blocks some = blocks(1, 0, 3);
                    some.salt = salt;
                    some.lora = lora;
                    some.opaque = {0, 0, 0};
                    some.opaque[at] = 1;
                    EventEncoder encoder(0, 1000);
                    Reader direct;
                    Reader republished;
                    std::vector<sluice_kv_event> events{some.event()};
                    REQUIRE(direct.index.apply(batch_of(events)));
                    republished.read(encode(encoder, events));
                    CHECK(keys(republished.index).size() == at);
                    CHECK(keys(direct.index) == keys(republished.index));
                    CHECK(republished.index.stats()[0].total_blocks == 3);
                }
            }
        }
    }

    TEST_CASE("a salt too long to publish hides its block instead of leaving the root bare") {
        EventEncoder encoder(0, 1000);
        Blocks some = blocks(1, 0, 2);
        some.salt = std::string(EventWriter::kMaxSaltBytes + 1, 's');
        Reader republished;
        republished.read(encode(encoder, {some.event()}));
        CHECK(keys(republished.index).empty());
    }

    TEST_CASE("an engine's copies are told one by one") {
        EventEncoder encoder(0, 1000);
        const Blocks some = blocks(1, 0, 2, SLUICE_KV_COPIES);
        Reader reader;
        reader.read(encode(encoder, {some.event(), some.event()}));
        reader.read(encode(encoder, {some.event(SLUICE_KV_REMOVED)}));
        CHECK(keys(reader.index).size() == 2);
        reader.read(encode(encoder, {some.event(SLUICE_KV_REMOVED)}));
        CHECK(keys(reader.index).empty());
    }

    TEST_CASE("where the engine counts no copies a block is stored once and removed once") {
        EventEncoder encoder(0, 1000);
        const Blocks first = blocks(1, 0, 2);
        const Blocks longer = blocks(1, 0, 5);
        Reader reader;
        reader.read(encode(encoder, {first.event(), first.event()}));
        CHECK(events_of(encode(encoder, {first.event()})).empty());
        const auto told = events_of(encode(encoder, {longer.event()}));
        REQUIRE(told.size() == 1);
        CHECK(told[0].hashes.size() == 3);
        CHECK(told[0].parent == first.hashes.back());
        CHECK(told[0].tokens.size() == 3 * kBlock);
        CHECK(events_of(encode(encoder, {first.event(SLUICE_KV_REMOVED)})).size() == 1);
        CHECK(events_of(encode(encoder, {first.event(SLUICE_KV_REMOVED)})).empty());
    }

    TEST_CASE("a hash that is told anew as one that matches nothing is taken back first") {
        EventEncoder encoder(0, 1000);
        Blocks some = blocks(1, 0, 3);
        Reader reader;
        reader.read(encode(encoder, {some.event()}));
        some.opaque = {0, 1, 0};
        reader.read(encode(encoder, {some.event()}));
        CHECK(keys(reader.index).size() == 1);
        reader.read(encode(encoder, {some.event(SLUICE_KV_REMOVED)}));
        CHECK(reader.index.stats()[0].total_blocks == 0);
    }

    TEST_CASE("to forget a rank takes back every tier, and says nothing twice") {
        EventEncoder encoder(0, 1000);
        CHECK(encoder.forget(kNow).empty());
        const Blocks some = blocks(1, 0, 3, SLUICE_KV_COPIES);
        Blocks on_host = some;
        on_host.tier = SLUICE_TIER_HOST;
        on_host.tokens.clear();
        on_host.block_tokens = 0;
        Blocks remote = on_host;
        remote.tier = SLUICE_TIER_REMOTE;
        Reader reader;
        reader.read(encode(encoder, {some.event(), on_host.event(), on_host.event(), remote.event(),
                                     some.event(SLUICE_KV_REMOVED)}));
        CHECK(reader.index.stats()[0].total_blocks == 3);
        reader.read(encoder.forget(kNow));
        CHECK(reader.index.stats()[0].total_blocks == 0);
        CHECK(encoder.forget(kNow).empty());
    }

    TEST_CASE(
        "the clear of one group is said as the clear of all: less is known, nothing wrongly") {
        EventEncoder encoder(0, 1000);
        const Blocks some = blocks(1, 0, 3);
        Reader reader;
        reader.read(encode(encoder, {some.event()}));
        reader.read(encode(encoder, {cleared(SLUICE_TIER_GPU, 1)}));
        CHECK(reader.index.stats()[0].total_blocks == 0);
        // And what is stored again is told again.
        reader.read(encode(encoder, {some.event()}));
        CHECK(keys(reader.index).size() == 3);
    }

    TEST_CASE("blocks beyond the bound are left out and counted, and so is what hangs on them") {
        EventEncoder encoder(0, 4);
        const Blocks first = blocks(1, 0, 3);
        const Blocks second = blocks(2, 0, 3);
        Reader reader;
        reader.read(encode(encoder, {first.event(), second.event()}));
        CHECK(keys(reader.index).size() == 4);
        CHECK(encoder.left_out() == 1);
        CHECK(events_of(encode(encoder, {blocks(2, 3, 2).event()})).empty());
        reader.read(encode(encoder, {first.event(SLUICE_KV_REMOVED), blocks(3, 0, 3).event()}));
        CHECK(keys(reader.index).size() == 4);
    }

    TEST_CASE("long prompts are cut into events and payloads that hang together") {
        EventEncoder encoder(0, 1'000'000);
        const Blocks some = blocks(1, 0, 40'000, SLUICE_KV_COPIES);
        std::vector<sluice_kv_event> events{some.event()};
        const auto payloads = encoder.encode(batch_of(events), kNow);
        CHECK(payloads.size() > 2);
        for (const std::string& payload : payloads) {
            CHECK(payload.size() < 2 * EventWriter::kFullBytes);
        }
        Reader direct;
        Reader reader;
        REQUIRE(direct.index.apply(batch_of(events)));
        reader.read(payloads);
        CHECK(keys(reader.index) == keys(direct.index));
        CHECK(keys(reader.index).size() == 40'000);
    }

    TEST_CASE("a reader knows what the index knows, whatever comes in whatever order") {
        for (const std::uint32_t flags : {0U, static_cast<std::uint32_t>(SLUICE_KV_COPIES)}) {
            for (std::uint32_t seed = 1; seed <= 20; ++seed) {
                CAPTURE(flags);
                CAPTURE(seed);
                std::mt19937 random(seed);
                const auto below = [&](std::uint32_t n) {
                    return static_cast<std::uint32_t>(random() % n);
                };
                EventEncoder encoder(0, 100'000);
                Reader direct;
                Reader reader;
                for (int turn = 0; turn < 200; ++turn) {
                    std::vector<Blocks> owners;
                    std::vector<std::uint32_t> types;
                    for (std::uint32_t i = 0; i <= below(4); ++i) {
                        Blocks some = blocks(below(5), below(6), 1 + below(5), flags);
                        if (below(20) == 0) {
                            some.tier = SLUICE_TIER_HOST;
                            some.tokens.clear();
                            some.block_tokens = 0;
                        }
                        // Of some prompts the fourth block depends on more than its tokens.
                        for (std::size_t b = 0; b < some.hashes.size(); ++b) {
                            const std::uint64_t hash = some.hashes[b];
                            some.opaque.push_back((hash >> 32U) % 2 == 1 && (hash & 7U) == 3);
                        }
                        owners.push_back(std::move(some));
                        types.push_back(below(3) == 0 ? SLUICE_KV_REMOVED : SLUICE_KV_STORED);
                    }
                    std::vector<sluice_kv_event> events;
                    for (std::size_t i = 0; i < owners.size(); ++i) {
                        events.push_back(owners[i].event(types[i]));
                    }
                    if (below(40) == 0) {
                        events.push_back(cleared(SLUICE_TIER_GPU, SLUICE_ANY));
                    }
                    REQUIRE(direct.index.apply(batch_of(events)));
                    reader.read(encoder.encode(batch_of(events), kNow));
                    if (below(60) == 0) {
                        direct.index.reset(1, 0);
                        reader.read(encoder.forget(kNow));
                    }
                    REQUIRE(keys(direct.index) == keys(reader.index));
                    REQUIRE(direct.index.stats()[0].total_blocks ==
                            reader.index.stats()[0].total_blocks);
                }
            }
        }
    }
}
