#include "core/route/ladder.hpp"

#include <doctest/doctest.h>
#include <sluice/sdk/kv.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/clock.hpp"

using namespace sluice;
using route::Tier;

namespace {

constexpr std::uint32_t kBlock = 16;

// Chooses the first row that may be chosen.
class FirstFree final : public route::Selector {
public:
    Choice choose(const sluice_request&, std::span<sluice_candidate> rows) const noexcept override {
        for (std::uint32_t i = 0; i < rows.size(); ++i) {
            if (rows[i].excluded == 0) {
                return {true, i, 0};
            }
        }
        return {};
    }
    void observe(const sluice_outcome&) const noexcept override {}
};

std::vector<std::uint32_t> ids(std::uint32_t count, std::uint32_t from = 1) {
    std::vector<std::uint32_t> out(count);
    std::iota(out.begin(), out.end(), from);
    return out;
}

// A rule with endpoints 10.0.0.1, 10.0.0.2, ... and what a request to it needs.
struct Bench {
    explicit Bench(std::size_t count, rules::KvSpec kv = {},
                   std::vector<std::uint32_t> weights = {}) {
        auto rule = std::make_shared<rules::Rule>();
        rule->kv = kv;
        rule->kv.exact_mode = 3;
        rule->kv.cold_seed_every = kv.cold_seed_every == 16 ? 0 : kv.cold_seed_every;
        auto names = std::make_shared<route::Names>();
        service.kv = std::make_shared<route::KvPlane>(kv::IndexOptions{});
        std::vector<fleet::Member> members;
        for (std::size_t i = 0; i < count; ++i) {
            rules::EndpointSpec spec;
            spec.ep_idx = static_cast<std::uint32_t>(i);
            spec.ip = "10.0.0." + std::to_string(i + 1);
            spec.port = 8000;
            spec.weight = i < weights.size() ? weights[i] : 1;
            members.push_back(
                {spec, std::make_shared<fleet::Endpoint>(i + 1, spec.ip, 8000), nullptr});
            names->endpoints.push_back(members.back().endpoint->name());
            REQUIRE(service.kv->attach(i + 1, 1));
            service.kv_members.push_back(service.kv->member(i + 1));
            service.kv_counters.hits.push_back(&hits);
            service.kv_counters.spills.push_back(&spills);
            service.kv_counters.cold_seeds.push_back(&cold);
        }
        service.kv_counters.fallthrough = &fallthrough;
        service.kv_counters.zero_hits = &zero_hits;
        service.rule = rule;
        service.names = names;
        service.pool = std::make_shared<const fleet::Pool>(std::move(members));
        service.selector = std::make_shared<FirstFree>();
        facts.api = route::Api::Completions;
        prompt.tokens = ids(10 * kBlock + 1);
    }

    // Endpoint i (from 0) publishes the first `blocks` blocks of `of`.
    void store(std::size_t i, std::uint32_t blocks, const std::vector<std::uint32_t>& of,
               std::string_view lora = {}, std::string_view salt = {}) {
        std::vector<std::uint64_t> hashes(blocks);
        std::iota(hashes.begin(), hashes.end(), next_hash);
        next_hash += blocks;
        sluice_kv_event event{};
        event.size = sizeof event;
        event.type = SLUICE_KV_STORED;
        event.tier = SLUICE_TIER_GPU;
        event.block_tokens = kBlock;
        event.num_hashes = blocks;
        event.num_tokens = blocks * kBlock;
        event.hashes = hashes.data();
        event.tokens = of.data();
        event.lora = {lora.data(), lora.size()};
        event.salt = {salt.data(), salt.size()};
        sluice_kv_batch batch{};
        batch.size = sizeof batch;
        batch.endpoint = i + 1;
        batch.events = {&event, 1, sizeof event};
        REQUIRE(service.kv->apply(batch, nullptr));
    }
    void report(std::size_t i, std::uint32_t state, std::uint32_t why = SLUICE_WHY_NONE) {
        sluice_kv_report r{};
        r.size = sizeof r;
        r.dp_rank = SLUICE_ANY;
        r.endpoint = i + 1;
        r.state = state;
        r.why = why;
        service.kv->report(r);
    }
    // One request, not charged.
    route::Decision choose(std::vector<std::size_t> tried = {}, bool is_dry_run = false) {
        receipt.reset();
        return ladder.choose({.service = service,
                              .facts = facts,
                              .served_model = "m",
                              .prompt = &prompt,
                              .tried = tried,
                              .request_id = "r",
                              .client = {},
                              .is_dry_run = is_dry_run,
                              .now_us = now_us()},
                             receipt);
    }
    fleet::Lease busy(std::size_t i) const { return fleet::Lease((*service.pool)[i].endpoint); }
    std::string_view miss() const {
        return receipt.misses.empty() ? "" : receipt.misses.front().reason;
    }

    // Makes the endpoints of these indexes backups.
    void back_up(const std::vector<std::size_t>& which) {
        std::vector<fleet::Member> members = service.pool->members();
        for (const std::size_t i : which) {
            members[i].spec.backup = true;
        }
        service.pool = std::make_shared<const fleet::Pool>(std::move(members));
    }
    std::string_view excluded(std::size_t i) const { return receipt.candidates[i].excluded; }

    route::Service service;
    route::Facts facts;
    route::Prompt prompt;
    route::Ladder ladder;
    route::Receipt receipt;
    metrics::Counter hits, spills, cold, fallthrough, zero_hits;
    std::uint64_t next_hash = 1000;
};

}  // namespace

TEST_SUITE("route/ladder") {
    TEST_CASE("the longest contiguous prefix wins, wherever it stands in the pool") {
        Bench b(3);
        b.store(1, 4, b.prompt.tokens);
        b.store(2, 7, b.prompt.tokens);
        const route::Decision d = b.choose();
        REQUIRE(d.is_found);
        CHECK(d.index == 2);
        CHECK(d.tier == Tier::KvExact);
        CHECK(d.matched_blocks == 7);
        CHECK(d.block_tokens == kBlock);
        CHECK(b.receipt.prompt_tokens == 161);
        CHECK(b.receipt.blocks == 10);
        CHECK(b.receipt.candidates[1].matched_blocks == 4);
        CHECK(b.hits.value() == 1);
    }

    TEST_CASE("blocks after a hole are worth nothing") {
        Bench b(2);
        const std::vector<std::uint32_t> late(b.prompt.tokens.begin() + kBlock,
                                              b.prompt.tokens.end());
        b.store(0, 8, late);  // the same tokens, but from the root: another chain
        CHECK(b.choose().tier == Tier::Selector);
        CHECK(b.miss() == "no_worker");
    }

    TEST_CASE("the last token is always computed, so a full last block is not counted") {
        Bench b(1);
        b.prompt.tokens = ids(4 * kBlock);
        b.store(0, 4, b.prompt.tokens);
        CHECK(b.choose().matched_blocks == 3);
        CHECK(b.receipt.blocks == 3);
        b.prompt.tokens = ids(4 * kBlock + 1);
        CHECK(b.choose().matched_blocks == 4);
    }

    TEST_CASE("what cannot be looked up falls through and says why") {
        Bench b(1);
        b.store(0, 4, b.prompt.tokens);
        SUBCASE("api") {
            b.facts.api = route::Api::Embeddings;
            CHECK(b.choose().tier == Tier::Selector);
            CHECK(b.miss() == "api");
        }
        SUBCASE("no tokens") {
            b.prompt.tokens.clear();
            CHECK(b.choose().tier == Tier::Selector);
            CHECK(b.miss() == "text_empty");
        }
        SUBCASE("the tokenizer's own reason") {
            b.prompt.miss = "template";
            CHECK(b.choose().tier == Tier::Selector);
            CHECK(b.miss() == "template");
        }
        SUBCASE("shorter than one block") {
            b.prompt.tokens = ids(kBlock);
            CHECK(b.choose().tier == Tier::Selector);
            CHECK(b.miss() == "shallow");
        }
        SUBCASE("a stranger's prompt") {
            b.prompt.tokens = ids(100, 5000);
            CHECK(b.choose().tier == Tier::Selector);
            CHECK(b.miss() == "no_worker");
        }
        CHECK(b.fallthrough.value() == 1);
    }

    TEST_CASE("salt and adapter separate what is otherwise the same prompt") {
        Bench b(2);
        b.store(1, 6, b.prompt.tokens, {}, "tenant-a");
        CHECK(b.choose().tier == Tier::Selector);
        b.facts.salt = "tenant-b";
        CHECK(b.choose().tier == Tier::Selector);
        b.facts.salt = "tenant-a";
        CHECK(b.choose().index == 1);
        CHECK(b.choose().matched_blocks == 6);
    }

    TEST_CASE("a match below the shallow guard is a miss, unless it is all there could be") {
        rules::KvSpec kv;
        kv.min_match_tokens = 64;
        Bench b(1, kv);
        b.store(0, 3, b.prompt.tokens);
        CHECK(b.choose().tier == Tier::Selector);
        CHECK(b.miss() == "shallow");
        b.prompt.tokens = ids(3 * kBlock + 1);
        CHECK(b.choose().tier == Tier::KvExact);
    }

    TEST_CASE("over its bound the holder is passed over, and nothing is lost from the receipt") {
        Bench b(3);
        b.store(1, 9, b.prompt.tokens);
        b.store(2, 5, b.prompt.tokens);
        // Nobody busy: everywhere is room. 175 % of 3 requests over 3 endpoints is 2 at most.
        CHECK(b.choose().index == 1);
        const fleet::Lease first = b.busy(1);
        const fleet::Lease second = b.busy(1);
        const route::Decision d = b.choose();
        CHECK(d.index == 2);
        CHECK(d.matched_blocks == 5);
        CHECK(b.receipt.candidates[1].excluded == "over_bound");
        CHECK(b.receipt.candidates[1].matched_blocks == 9);
        CHECK(b.miss() == "over_bound");
        CHECK(b.spills.value() == 1);
    }

    TEST_CASE("without a bound the holder keeps its prompts") {
        rules::KvSpec kv;
        kv.lb_mode = rules::KvSpec::LbMode::Off;
        Bench b(2, kv);
        b.store(1, 9, b.prompt.tokens);
        const fleet::Lease a = b.busy(1);
        const fleet::Lease c = b.busy(1);
        CHECK(b.choose().index == 1);
        CHECK(b.spills.value() == 0);
    }

    TEST_CASE("among equals the less loaded is chosen, then the first") {
        Bench b(3);
        for (const std::size_t i : {0U, 1U, 2U}) {
            b.store(i, 6, b.prompt.tokens);
        }
        CHECK(b.choose().index == 0);
        const fleet::Lease lease = b.busy(0);
        CHECK(b.choose().index == 1);
    }

    TEST_CASE("a drained, down or tried holder is no candidate, and the reason is excluded") {
        Bench b(3, {}, {1, 0, 1});
        b.store(1, 9, b.prompt.tokens);
        CHECK(b.choose().tier == Tier::Selector);
        CHECK(b.miss() == "excluded");
        CHECK(b.receipt.candidates[1].excluded == "draining");
        b.store(2, 6, b.prompt.tokens);
        CHECK(b.choose().index == 2);
        CHECK(b.choose({2}).index == 0);
        (*b.service.pool)[2].endpoint->set_health(fleet::Health::Down, "gone");
        CHECK(b.choose().index == 0);
        CHECK(b.receipt.candidates[2].excluded == "down");
    }

    TEST_CASE("an endpoint that refused a moment ago is used only when nothing else is left") {
        Bench b(2);
        (*b.service.pool)[0].endpoint->pass_over(fleet::Mark::Refused, now_us() + 60'000'000);
        CHECK(b.choose().index == 1);
        (*b.service.pool)[1].endpoint->pass_over(fleet::Mark::Refused, now_us() + 60'000'000);
        CHECK(b.choose().is_found);
    }

    TEST_CASE("an endpoint without the model is no candidate, but nobody knows is no refusal") {
        Bench b(2);
        (*b.service.pool)[0].endpoint->set_models({{"other", {}, false}});
        CHECK(b.choose().index == 1);
        CHECK(b.receipt.candidates[0].excluded == "model");
        (*b.service.pool)[1].endpoint->set_models({{"other", {}, false}});
        CHECK(b.choose().is_found);
    }

    TEST_CASE("blocks of a refused or warming endpoint do not count") {
        Bench b(2);
        b.store(1, 6, b.prompt.tokens);
        b.report(1, SLUICE_KV_REFUSED, SLUICE_WHY_BLOCK_SIZE);
        CHECK(b.choose().tier == Tier::Selector);
        CHECK(b.miss() == "mismatch");
        b.report(1, SLUICE_KV_LIVE);
        CHECK(b.choose().index == 1);

        rules::KvSpec kv;
        kv.warmup_sec = 3600;
        Bench warming(2, kv);
        warming.store(1, 6, warming.prompt.tokens);
        CHECK(warming.choose().tier == Tier::Selector);
        CHECK(warming.miss() == "warmup");
    }

    TEST_CASE("blocks of a dead or stolen endpoint are worth nothing, to selectors neither") {
        for (const std::uint32_t why : {SLUICE_WHY_COMPETITOR, SLUICE_WHY_UNKNOWN}) {
            Bench b(2);
            b.store(1, 6, b.prompt.tokens);
            b.report(1, SLUICE_KV_DEAD, why);
            const route::Decision d = b.choose();
            CHECK(d.tier == Tier::Selector);
            CHECK(b.miss() == "stale");
            CHECK(b.receipt.candidates[1].matched_blocks == 0);
            b.store(0, 2, b.prompt.tokens);
            CHECK(b.choose().index == 0);
            b.report(1, SLUICE_KV_LIVE);
            CHECK(b.choose().index == 1);
        }
    }

    TEST_CASE("a pool of which nobody can be trusted says so, with blocks or without") {
        Bench b(2);
        b.report(0, SLUICE_KV_REFUSED, SLUICE_WHY_BLOCK_SIZE);
        CHECK(b.choose().tier == Tier::Selector);
        CHECK(b.miss() == "no_worker");
        b.report(1, SLUICE_KV_REFUSED, SLUICE_WHY_BLOCK_SIZE);
        CHECK(b.choose().tier == Tier::Selector);
        CHECK(b.miss() == "mismatch");
        b.report(0, SLUICE_KV_DEAD, SLUICE_WHY_COMPETITOR);
        b.report(1, SLUICE_KV_DEAD, SLUICE_WHY_COMPETITOR);
        CHECK(b.choose().tier == Tier::Selector);
        CHECK(b.miss() == "stale");
    }

    TEST_CASE("a rule whose block size is not the engine's does not route by its blocks") {
        Bench b(2);
        b.store(1, 6, b.prompt.tokens);
        b.service.kv->declare(32);
        CHECK(b.choose().tier == Tier::Selector);
        CHECK(b.miss() == "mismatch");
        b.service.kv->declare(kBlock);
        CHECK(b.choose().index == 1);
    }

    TEST_CASE("many look-ups without a hit beside held blocks are noticed, hits end the count") {
        Bench b(1);
        b.store(0, 4, b.prompt.tokens);
        const std::vector<std::uint32_t> known = b.prompt.tokens;
        const std::vector<std::uint32_t> strange = ids(100, 5000);
        const auto ask = [&](const std::vector<std::uint32_t>& tokens, int times,
                             bool is_dry_run = false) {
            b.prompt.tokens = tokens;
            for (int i = 0; i < times; ++i) {
                (void)b.choose({}, is_dry_run);
            }
        };
        ask(strange, 49);
        ask(known, 1);
        ask(strange, 49);
        ask(strange, 10, true);
        CHECK(b.zero_hits.value() == 0);
        ask(strange, 1);
        CHECK(b.zero_hits.value() == 1);
        ask(strange, 50);
        CHECK(b.zero_hits.value() == 2);
        b.service.kv->reset(1, SLUICE_ANY);
        ask(strange, 100);
        CHECK(b.zero_hits.value() == 2);  // nothing is held, so nothing can match
    }

    TEST_CASE("blocks that cannot be trusted are no sign of a wrong tokenizer") {
        Bench b(1);
        b.store(0, 4, b.prompt.tokens);
        const auto ask = [&](int times) {
            for (int i = 0; i < times; ++i) {
                (void)b.choose();
            }
        };
        b.report(0, SLUICE_KV_DEAD, SLUICE_WHY_COMPETITOR);
        ask(60);
        CHECK(b.miss() == "stale");
        b.report(0, SLUICE_KV_UNPROVEN, SLUICE_WHY_GAP);
        ask(60);
        CHECK(b.miss() == "unproven");
        CHECK(b.zero_hits.value() == 0);
    }

    TEST_CASE("doubtful blocks count as absent until the doubt ends, and the reason says so") {
        Bench b(2);
        b.store(1, 6, b.prompt.tokens);
        b.report(1, SLUICE_KV_UNPROVEN, SLUICE_WHY_GAP);
        CHECK(b.choose().tier == Tier::Selector);
        CHECK(b.miss() == "unproven");
        b.report(1, SLUICE_KV_LIVE);
        CHECK(b.choose().index == 1);
    }

    TEST_CASE("every n-th hit fills a cold endpoint, dry runs move nothing") {
        rules::KvSpec kv;
        kv.cold_seed_every = 3;
        Bench b(2, kv);
        b.store(0, 9, b.prompt.tokens);
        std::vector<std::size_t> went;
        for (int i = 0; i < 6; ++i) {
            CHECK(b.choose({}, true).index == 0);
            went.push_back(b.choose().index);
        }
        CHECK(went == std::vector<std::size_t>{0, 0, 1, 0, 0, 1});
        CHECK(b.cold.value() == 2);
        CHECK(b.hits.value() == 4);
    }

    TEST_CASE("a backup gets nothing while a primary is left, however well it would match") {
        Bench b(3);
        b.back_up({1, 2});
        b.store(1, 10, b.prompt.tokens);
        b.store(0, 4, b.prompt.tokens);
        CHECK(b.choose().index == 0);
        CHECK(b.excluded(0).empty());
        CHECK(b.excluded(1) == "standby");
        CHECK(b.excluded(2) == "standby");
        const auto lease = b.busy(0);  // busy is not out
        CHECK(b.choose().index == 0);
    }

    TEST_CASE("with every primary out the backups serve, and the best match among them") {
        Bench b(4, {}, {1, 0, 1, 1});
        b.back_up({2, 3});
        b.store(3, 10, b.prompt.tokens);
        // 1 drains; 0 is tried and failed in this request, or an adapter says it is down, or it
        // refused a connection a moment ago.
        CHECK(b.choose().index == 0);
        const route::Decision after = b.choose({0});
        CHECK(after.index == 3);
        CHECK(after.tier == Tier::KvExact);
        CHECK(b.excluded(2).empty());
        fleet::Endpoint& first = *(*b.service.pool)[0].endpoint;
        first.pass_over(fleet::Mark::Refused, now_us() + 60'000'000);
        CHECK(b.choose().index == 3);
        CHECK(b.excluded(0) == "down");
        first.note_answered();
        CHECK(b.choose().index == 0);
        first.set_health(fleet::Health::Down, "gone");
        CHECK(b.choose().index == 3);
        first.set_health(fleet::Health::Ready, "");
        CHECK(b.choose().index == 0);
        CHECK(b.excluded(3) == "standby");
    }

    TEST_CASE("a backup serves a model that no primary has") {
        Bench b(2);
        b.back_up({1});
        (*b.service.pool)[0].endpoint->set_models({{"other", "", false}});
        CHECK(b.choose().index == 1);
        (*b.service.pool)[1].endpoint->set_models({{"another", "", false}});
        CHECK(b.choose().index == 0);  // nobody is known to have it: the primaries are asked
    }

    TEST_CASE("a pool of backups alone serves") {
        Bench b(2);
        b.back_up({0, 1});
        CHECK(b.choose().is_found);
    }

    TEST_CASE("a pool without anybody left is not found") {
        Bench b(2, {}, {0, 0});
        CHECK(!b.choose().is_found);
    }
}
