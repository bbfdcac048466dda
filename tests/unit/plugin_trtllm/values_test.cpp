// The small values: order, pools, pace, gaps, facts, settings, replies.
#include "tests/unit/plugin_trtllm/flow.hpp"

#include "plugins/trtllm/pool.hpp"
#include "plugins/trtllm/replies.hpp"

using namespace sluice;
using namespace sluice::trtllm;
using namespace sluice::trtllm::test;

namespace {

struct Said {
    sluice_status kind;
    std::string code, field, text;
};
std::vector<Said> check(std::string_view config) {
    std::vector<Said> out;
    sluice_verdict_out verdict{};
    verdict.size = sizeof verdict;
    verdict.ctx = &out;
    verdict.say = [](void* ctx, sluice_status kind, sluice_str code_, sluice_str field,
                     sluice_str text_) {
        static_cast<std::vector<Said>*>(ctx)->push_back(
            {kind, std::string(view(code_)), std::string(view(field)), std::string(view(text_))});
    };
    sluice_proposal in{};
    in.size = sizeof in;
    in.config = borrow(config);
    Verdict v(&verdict);
    check_rule(in, v);
    return out;
}

Event of_pool(std::uint64_t window, std::uint32_t group) {
    Event e;
    e.window = window;
    e.group = group;
    return e;
}

}  // namespace

TEST_SUITE("trtllm/values") {
    TEST_CASE("event numbers are classified against the expected one") {
        Sequence s;
        CHECK(s.accept(0) == Arrival::First);
        CHECK(s.accept(1) == Arrival::InOrder);
        CHECK(s.accept(5) == Arrival::Gap);
        CHECK(s.accept(5) == Arrival::Regression);
        CHECK(s.accept(0) == Arrival::Regression);
        CHECK(s.next() == 1U);
        s.continue_at(std::nullopt);
        CHECK(s.accept(7) == Arrival::LateJoin);
    }

    TEST_CASE("the largest window's lowest layer group is followed, whichever is met first") {
        PoolChoice pool;
        CHECK(pool.see(of_pool(128, 1)) == PoolVerdict::Tracked);
        CHECK(pool.see(of_pool(64, 0)) == PoolVerdict::OtherWindow);
        CHECK(pool.see(of_pool(128, 2)) == PoolVerdict::OtherGroup);
        CHECK(pool.see(of_pool(4096, 3)) == PoolVerdict::Switched);
        CHECK(pool.see(of_pool(4096, 0)) == PoolVerdict::Switched);
        CHECK(pool.see(of_pool(4096, 0)) == PoolVerdict::Tracked);
        CHECK(pool.see(of_pool(128, 0)) == PoolVerdict::OtherWindow);
        PoolChoice old;
        CHECK(old.see(Event{}) == PoolVerdict::Tracked);
    }

    TEST_CASE("a larger window that shows up late empties what was known of the smaller one") {
        Translator translator({8, HashAlgo::V1BlockKey, true});
        const auto drain = [&](const std::string& body) {
            Drained drained;
            REQUIRE(decode(body, drained));
            std::vector<Step::Reset> out;
            const Translated translated = translator.translate(drained);
            for (const Step& step : translated.steps) {
                out.push_back(step.reset);
            }
            return out;
        };
        const Prompt p = prompt(1, 16, 8);
        const std::string small = R"({"event_id":3,"data":)" + stored(p) + R"(,"window_size":128})";
        using Resets = std::vector<Step::Reset>;
        CHECK(drain(reply({small})) == Resets{Step::Reset::None});
        CHECK(drain(reply({event(4, stored(p))})) ==
              Resets{Step::Reset::None, Step::Reset::OtherPool});
    }

    TEST_CASE(
        "a move is a store on the new tier and a removal on the old, and gone is gone there") {
        Translator translator({8, HashAlgo::V1BlockKey, true});
        const auto tiers = [&](std::uint64_t id, const std::string& data) {
            Drained drained;
            REQUIRE(decode(reply({event(id, data)}), drained));
            std::vector<std::pair<std::uint32_t, std::uint32_t>> out;
            const Translated translated = translator.translate(drained);
            for (const sluice_kv_event& e : translated.steps.at(0).events) {
                out.emplace_back(e.type, e.tier);
            }
            return out;
        };
        using Tiers = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
        CHECK(tiers(0, removed(5)) == Tiers{{SLUICE_KV_REMOVED, SLUICE_TIER_GPU}});
        CHECK(tiers(1, R"({"type":"updated","block_hash":5,"cache_level":{"type":"event_diff",)"
                       R"("new_value":1,"old_value":0},"priority":null})") ==
              Tiers{{SLUICE_KV_STORED, SLUICE_TIER_HOST}, {SLUICE_KV_REMOVED, SLUICE_TIER_GPU}});
        CHECK(tiers(2, removed(5)) ==
              Tiers{{SLUICE_KV_REMOVED, SLUICE_TIER_GPU}, {SLUICE_KV_REMOVED, SLUICE_TIER_HOST}});
    }

    TEST_CASE("drains are paced by what they bring") {
        Pace pace;
        CHECK(pace.timeout_us() == 30 * kSecond);
        pace.ended(Pace::Outcome::Empty, 5'000);
        CHECK(pace.delay_us() == 7'500);
        pace.ended(Pace::Outcome::Empty, 5'000);
        pace.ended(Pace::Outcome::Empty, 5'000);
        pace.ended(Pace::Outcome::Empty, 5'000);
        CHECK(pace.delay_us() == 20'000);
        pace.ended(Pace::Outcome::Events, 5'000);
        CHECK(pace.delay_us() == 5'000);
        CHECK(pace.engine_needs_us() == 100'000);
        pace.ended(Pace::Outcome::Failed, 0);
        pace.ended(Pace::Outcome::Failed, 0);
        CHECK(pace.delay_us() == 200'000);
        pace.ended(Pace::Outcome::TimedOut, 0);
        CHECK(pace.timeout_us() == 60 * kSecond);
        CHECK(pace.delay_us() == 100'000);
        pace.ended(Pace::Outcome::Empty, 5'000);
        CHECK(pace.timeout_us() == 30 * kSecond);
        CHECK(pace.delay_us() <= 20'000);
        pace.ended(Pace::Outcome::Empty, 2'000'000);
        CHECK(pace.timeout_us() == Pace::kMaxTimeoutUs);
        CHECK(pace.engine_needs_us() == 4'000'000);
        for (int i = 0; i < 10; ++i) {
            pace.body_too_long();
        }
        CHECK(pace.max_body_bytes() == Pace::kMaxBodyBytes);
    }

    TEST_CASE("gaps are told apart by the drains they stand before") {
        using Cause = GapJudge::Cause;
        GapJudge lost;
        CHECK(lost.gap(100, true) == Cause::Lost);

        GapJudge rival;
        (void)rival.calm(10);
        CHECK(rival.gap(3, false) == Cause::Unclear);
        CHECK(rival.gap(5, false) == Cause::SecondConsumer);
        CHECK(rival.gap(5, true) == Cause::SecondConsumer);

        GapJudge tiny;  // no ring is this small
        CHECK(tiny.gap(1, false) == Cause::Unclear);
        CHECK(tiny.gap(1, false) == Cause::SecondConsumer);

        GapJudge ring;
        (void)ring.calm(10);
        CHECK(ring.gap(16, false) == Cause::Unclear);
        CHECK(ring.gap(16, false) == Cause::Overflow);
        GapJudge big;
        CHECK(big.gap(1000, false) == Cause::Overflow);
        for (unsigned i = 1; i < GapJudge::kHealDrains; ++i) {
            CHECK_FALSE(big.calm(1));
        }
        CHECK_FALSE(big.calm(0));
        CHECK(big.calm(1));
        CHECK(big.cause() == Cause::None);
    }

    TEST_CASE("load is read from what each build exposes, and none is better than zeros") {
        const Load late = parse_load(
            "# HELP trtllm_num_requests_running x\n"
            "trtllm_num_requests_running{engine_type=\"trtllm\",model_name=\"a}b\"} 3.0\n"
            "trtllm_num_requests_waiting{model_name=\"m\"} 2.0\n"
            "trtllm_kv_cache_utilization{model_name=\"m\"} 0.25\n"
            "trtllm_request_success_total{finished_reason=\"stop\"} 7.0\n"
            "trtllm_request_success_total{finished_reason=\"length\"} 1.0\n"
            "trtllm_prompt_cached_tokens_total 64\nbroken{\nother 1\n");
        CHECK(late.running == 3U);
        CHECK(late.waiting == 2);
        CHECK(late.kv_used == 0.25);
        CHECK(late.progress == 8);
        CHECK(late.hit_tokens == 64);
        CHECK_FALSE(parse_load("trtllm_kv_cache_hit_rate 0.5\n").running);
        Flow f;
        f.host.answer("/prometheus/metrics", ok("trtllm_num_requests_running 3\n"));
        f.attach();
        f.host.advance(2 * kSecond);
        REQUIRE_FALSE(f.host.loads.empty());
        CHECK(f.host.loads.back().running == 3);
        CHECK(f.host.loads.back().max_running == 64);
        for (const HttpSeen& r : f.host.requests) {
            CHECK(r.target != "/metrics");
            CHECK(r.target != "/perf_metrics");
            CHECK(r.target != "/health_generate");
        }
    }

    TEST_CASE("metrics that are not there are asked for again once a minute") {
        Flow f;
        f.attach();
        f.host.advance(59 * kSecond);
        CHECK(f.asked("/prometheus/metrics") == 1);
        f.host.advance(5 * kSecond);
        CHECK(f.asked("/prometheus/metrics") == 2);
        REQUIRE_FALSE(f.host.models.empty());
        CHECK(f.host.models.back().at(0).name == "tiny");
    }

    TEST_CASE("fields that this engine has no use for are refused by name") {
        struct Row {
            const char* config;
            const char* code;
            const char* field;
        };
        for (const Row& row :
             {Row{R"({"kvZmqPort":5558})", "kv_zmq_port_unused", "kvZmqPort"},
              Row{R"({"kvDpRankCount":2})", "kv_dp_ranks_unused", "kvDpRankCount"},
              Row{R"({"kvHashAlgo":"sha256"})", "kv_hash_algo_incompatible", "kvHashAlgo"}}) {
            const auto said = check(row.config);
            REQUIRE(said.size() == 1);
            CHECK(said[0].kind == SLUICE_E_CONFIG);
            CHECK(said[0].code == row.code);
            CHECK(said[0].field == row.field);
        }
        CHECK(check("").empty());
        CHECK(
            check(R"({"kvZmqPort":0,"kvDpRankCount":1,"kvHashAlgo":"blockhash_trtllm"})").empty());
        CHECK(check(R"({"kvZmqPort":5557,"kvBlockSize":64})").empty());
    }

    TEST_CASE("a refusal is relayed, for a 400 may be the engine's own; an unhealthy one is left") {
        CHECK(meaning_of(400) == ReplyMeaning::Relay);
        CHECK(meaning_of(500) == ReplyMeaning::Relay);
        CHECK(meaning_of(429) == ReplyMeaning::Busy);
        CHECK(meaning_of(503) == ReplyMeaning::Elsewhere);
        CHECK(meaning_of(502) == ReplyMeaning::Relay);
        CHECK(meaning_of(504) == ReplyMeaning::Relay);
    }

    TEST_CASE("the adapter hashes a prompt by the engine's own rule") {
        Flow f;
        const std::vector<std::uint32_t> tokens{1, 2, 3, 4, 5, 6, 7, 8, 9};
        sluice_hash_input in{};
        in.size = sizeof in;
        in.block_tokens = 8;
        in.tokens = tokens.data();
        in.num_tokens = tokens.size();
        in.params = borrow(R"({"scheme":"v1_block_key"})");
        std::uint64_t hash = 0;
        std::uint32_t num = 0;
        CHECK(f.engine->hash_blocks(f.instance(), &in, &hash, 1, &num, nullptr) == SLUICE_OK);
        CHECK(num == 1);
        CHECK(hash == 7459327739466394234U);
        in.params = borrow("[]");
        CHECK(f.engine->hash_blocks(f.instance(), &in, &hash, 1, &num, nullptr) ==
              SLUICE_E_INVALID);
    }
}
