#include "core/route/kv_member.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/base/clock.hpp"
#include "core/route/kv_plane.hpp"

using namespace sluice;
using route::KvMember;
using route::KvPlane;

namespace {

constexpr std::uint64_t kEndpoint = 7;

// A rule that declares a block size, or none (0), with one endpoint.
struct Rule {
    explicit Rule(std::uint32_t declared = 0) {
        plane.declare(declared);
        REQUIRE(plane.attach(kEndpoint, 1));
        member = plane.member(kEndpoint);
    }
    void report(std::uint32_t state, std::uint32_t why = SLUICE_WHY_NONE,
                const std::string& reason = {}, const std::string& detail = {},
                std::uint64_t count = 0) {
        sluice_kv_report r{};
        r.size = sizeof r;
        r.dp_rank = SLUICE_ANY;
        r.endpoint = kEndpoint;
        r.state = state;
        r.why = why;
        r.count = count;
        r.reason = {reason.data(), reason.size()};
        r.detail = {detail.data(), detail.size()};
        plane.report(r);
    }
    void store(std::uint32_t block_tokens) {
        const std::vector<std::uint32_t> tokens(block_tokens, 5);
        const std::uint64_t hash = 99;
        sluice_kv_event event{};
        event.size = sizeof event;
        event.type = SLUICE_KV_STORED;
        event.tier = SLUICE_TIER_GPU;
        event.block_tokens = block_tokens;
        event.num_hashes = 1;
        event.num_tokens = block_tokens;
        event.hashes = &hash;
        event.tokens = tokens.data();
        sluice_kv_batch batch{};
        batch.size = sizeof batch;
        batch.endpoint = kEndpoint;
        batch.events = {&event, 1, sizeof event};
        REQUIRE(plane.apply(batch, nullptr));
    }
    std::string signal() const { return std::string(member->signal(0, now_us())); }

    KvPlane plane{kv::IndexOptions{}};
    route::KvMemberPtr member;
};

}  // namespace

TEST_SUITE("route/kv_member") {
    TEST_CASE("each word of an adapter has its signal, and what it makes the blocks worth") {
        struct Row {
            std::uint32_t state, why;
            const char* reason;
            const char* signal;
            const char* distrust;
        };
        for (const Row& row : {
                 Row{SLUICE_KV_WAITING, SLUICE_WHY_NONE, "", "warming", ""},
                 Row{SLUICE_KV_LIVE, SLUICE_WHY_NONE, "", "quiet", ""},
                 Row{SLUICE_KV_UNPROVEN, SLUICE_WHY_GAP, "ring_overflow", "doubtful", ""},
                 Row{SLUICE_KV_REFUSED, SLUICE_WHY_ALGORITHM, "hash_algo", "refused", "mismatch"},
                 Row{SLUICE_KV_DEAD, SLUICE_WHY_EVENTS_OFF, "events_off", "off", "stale"},
                 Row{SLUICE_KV_DEAD, SLUICE_WHY_UNKNOWN, "events_empty,reuse_off", "dead", "stale"},
                 Row{SLUICE_KV_DEAD, SLUICE_WHY_COMPETITOR, "second_consumer", "stolen", "stale"},
             }) {
            CAPTURE(row.reason);
            Rule rule;
            rule.report(row.state, row.why, row.reason);
            CHECK(rule.signal() == row.signal);
            CHECK(rule.member->distrust() == row.distrust);
            CHECK(rule.member->words().reason == row.reason);
        }
    }

    TEST_CASE("a second consumer that is gone heals") {
        Rule rule;
        rule.report(SLUICE_KV_DEAD, SLUICE_WHY_COMPETITOR, "second_consumer");
        rule.report(SLUICE_KV_LIVE);
        rule.store(32);
        CHECK(rule.signal() == "ok");
        CHECK(rule.member->distrust().empty());
    }

    TEST_CASE("of two rules for one engine the one with its block size is served") {
        Rule right(32);
        Rule wrong(64);
        SUBCASE("as the adapter reports it") {
            for (Rule* rule : {&right, &wrong}) {
                rule->plane.facts(kEndpoint, 32);
                rule->report(SLUICE_KV_LIVE);
            }
        }
        SUBCASE("as events show it") {
            right.store(32);
            wrong.store(32);
            right.report(SLUICE_KV_LIVE);
            wrong.report(SLUICE_KV_LIVE);
        }
        SUBCASE("as the adapter was asked by the wrong one and refuses") {
            for (Rule* rule : {&right, &wrong}) {
                rule->report(SLUICE_KV_REFUSED, SLUICE_WHY_BLOCK_SIZE, "block_size",
                             "tokens_per_block 32, the rule says 64");
                rule->plane.facts(kEndpoint, 32);
            }
            CHECK(right.signal() == "warming");  // nobody reads its events yet
            right.store(32);
            wrong.store(32);
        }
        CHECK(right.member->distrust().empty());
        CHECK(right.member->words().reason.empty());
        CHECK(right.member->words().attestation.empty());
        CHECK(wrong.signal() == "refused");
        CHECK(wrong.member->distrust() == "mismatch");
        const route::KvWords words = wrong.member->words();
        CHECK(words.reason == "block_size");
        CHECK(words.detail == "the engine's blocks have 32 tokens, the rule says 64");
        CHECK(words.advice.find("kvBlockSize to 32") != std::string::npos);
        CHECK(words.attestation == "mismatch:block_size");
    }

    TEST_CASE("events say more than reports, and a corrected rule is in force at once") {
        Rule rule(16);
        rule.plane.facts(kEndpoint, 32);
        CHECK(rule.signal() == "refused");
        rule.report(SLUICE_KV_LIVE);
        rule.store(16);
        CHECK(rule.signal() == "ok");
        rule.plane.declare(64);
        CHECK(rule.signal() == "refused");
        CHECK(rule.plane.index().stats().front().gpu_blocks == 1);  // not told twice, so kept
        rule.plane.declare(0);
        CHECK(rule.signal() == "ok");
    }

    TEST_CASE("what the adapter refuses with nothing known of the engine is believed") {
        Rule rule(64);
        rule.report(SLUICE_KV_REFUSED, SLUICE_WHY_BLOCK_SIZE, "block_size", "32, not 64");
        CHECK(rule.signal() == "refused");
        CHECK(rule.member->words().detail == "32, not 64");
    }

    TEST_CASE("the note of an old build stays until it is admitted anew") {
        Rule rule;
        rule.report(SLUICE_KV_LIVE, SLUICE_WHY_LEGACY, "legacy");
        rule.store(32);
        CHECK(rule.signal() == "ok");
        CHECK(rule.member->words().note == "legacy");
        rule.report(SLUICE_KV_UNPROVEN, SLUICE_WHY_GAP, "gap");
        rule.report(SLUICE_KV_LIVE);
        CHECK(rule.member->words().note == "legacy");
        rule.report(SLUICE_KV_WAITING);
        rule.report(SLUICE_KV_LIVE);
        CHECK(rule.member->words().note.empty());
    }

    TEST_CASE("it is connected while its source is admitted and answers, and counts each return") {
        Rule rule;
        const KvMember& member = *rule.member;
        CHECK_FALSE(member.is_connected());
        rule.report(SLUICE_KV_LIVE);
        CHECK(member.is_connected());
        CHECK(member.reconnects() == 0);
        rule.report(SLUICE_KV_UNPROVEN, SLUICE_WHY_UNREACHABLE, "unreachable", "", 1);
        CHECK_FALSE(member.is_connected());
        rule.report(SLUICE_KV_SAME, SLUICE_WHY_UNREACHABLE, "unreachable", "", 2);
        CHECK(member.count_of(SLUICE_WHY_UNREACHABLE) == 3);
        rule.store(16);
        CHECK(member.is_connected());
        CHECK(member.reconnects() == 1);
        rule.report(SLUICE_KV_DEAD, SLUICE_WHY_COMPETITOR, "second_consumer");
        CHECK(member.is_connected());
        rule.report(SLUICE_KV_DEAD, SLUICE_WHY_EVENTS_OFF, "events_off");
        CHECK_FALSE(member.is_connected());
        rule.report(SLUICE_KV_REFUSED, SLUICE_WHY_ALGORITHM, "hash_algo");
        CHECK_FALSE(member.is_connected());
    }

    TEST_CASE("a prompt's beginning is known again until the engine is another") {
        Rule rule;
        CHECK_FALSE(rule.member->note_first_block(41));
        CHECK(rule.member->note_first_block(41));
        for (kv::Key key = 1000; key < 1000 + KvMember::kFirstBlocks; ++key) {
            rule.member->note_first_block(key);
        }
        CHECK_FALSE(rule.member->note_first_block(41));  // others took its place
        rule.plane.reset(kEndpoint, 0);
        CHECK(rule.member->note_first_block(41));  // some blocks are gone, the process is the same
        rule.plane.reset(kEndpoint, SLUICE_ANY);
        CHECK_FALSE(rule.member->note_first_block(41));
    }

    TEST_CASE("an engine that says other tokens is distrusted until it says ours") {
        using route::TokensOf;
        for (const TokensOf kind : {TokensOf::Text, TokensOf::Template}) {
            const TokensOf other = kind == TokensOf::Text ? TokensOf::Template : TokensOf::Text;
            const char* const word =
                kind == TokensOf::Text ? "mismatch:tokenizer" : "mismatch:template";
            Rule rule;
            rule.report(SLUICE_KV_LIVE);
            KvMember& member = *rule.member;
            CHECK_FALSE(member.note_engine_tokens(kind, true));
            CHECK(member.tokens_agree());
            CHECK_FALSE(member.note_engine_tokens(kind, false));
            CHECK_FALSE(member.note_engine_tokens(kind, false));
            CHECK_FALSE(member.note_engine_tokens(kind, true));  // not in a row
            CHECK_FALSE(member.note_engine_tokens(kind, false));
            CHECK_FALSE(member.note_engine_tokens(kind, false));
            CHECK(member.distrust().empty());
            CHECK(member.note_engine_tokens(kind, false));
            CHECK_FALSE(member.note_engine_tokens(kind, false));  // said once
            CHECK(member.distrust() == "mismatch");
            CHECK(member.words().attestation == word);
            CHECK_FALSE(member.tokens_agree());
            CHECK_FALSE(member.note_engine_tokens(other, true));
            CHECK(member.words().attestation == word);
            CHECK_FALSE(member.note_engine_tokens(kind, true));
            CHECK(member.distrust().empty());
            CHECK(member.words().attestation != word);
            CHECK(member.tokens_agree());
            for (int i = 0; i < 3; ++i) {
                (void)member.note_engine_tokens(kind, false);
            }
            rule.plane.reset(kEndpoint, SLUICE_ANY);
            CHECK(member.distrust().empty());  // another process
        }
    }

    TEST_CASE("a late rule knows what the others were told") {
        Rule early;
        early.plane.facts(kEndpoint, 32);
        early.report(SLUICE_KV_LIVE, SLUICE_WHY_LEGACY, "legacy");
        Rule late(64);
        late.plane.copy(early.plane, kEndpoint);
        CHECK(late.signal() == "refused");
        late.plane.declare(32);
        CHECK(late.signal() == "quiet");
        CHECK(late.member->words().note == "legacy");
        CHECK(late.member->is_connected());
    }
}
