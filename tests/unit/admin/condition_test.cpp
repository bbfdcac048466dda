#include "core/admin/condition.hpp"

#include <doctest/doctest.h>

using namespace sluice;
using namespace sluice::admin;

namespace {

RuleLive with(std::initializer_list<const char*> states, bool is_watched = true) {
    RuleLive out;
    std::uint64_t id = 0;
    for (const char* state : states) {
        EndpointLive endpoint;
        endpoint.state = state;
        endpoint.is_watched = is_watched;
        out.endpoints[++id] = endpoint;
    }
    return out;
}

std::string text(const KvExactState& state) {
    std::string out(state.state);
    for (const std::string& reason : state.reasons) {
        out += " " + reason;
    }
    return out;
}

KvLive kv(const char* signal, const char* attestation, bool tokens_agree = false,
          const char* reason = "") {
    KvLive out;
    out.signal = signal;
    out.attestation = attestation;
    out.reason = reason;
    out.tokens_agree = tokens_agree;
    return out;
}

}  // namespace

TEST_SUITE("admin/condition") {
    TEST_CASE("a rule is as good as its endpoints are") {
        rules::Rule rule;
        CHECK(operating_status(rule, with({"active", "active"})) == "ONLINE");
        CHECK(operating_status(rule, with({"active", "draining"})) == "ONLINE");
        CHECK(operating_status(rule, with({"active", "inactive"})) == "DEGRADED");
        CHECK(operating_status(rule, with({"active", "disabled"})) == "DEGRADED");
        CHECK(operating_status(rule, with({"inactive", "draining"})) == "OFFLINE");
        CHECK(operating_status(rule, with({"draining"})) == "OFFLINE");
    }

    TEST_CASE("without a probe nobody knows, until an operator takes an endpoint out") {
        rules::Rule rule;
        CHECK(operating_status(rule, with({"active"}, false)) == "NO_MONITOR");
        CHECK(operating_status(rule, with({"active", "disabled"}, false)) == "DEGRADED");
        CHECK(operating_status(rule, with({"disabled"}, false)) == "OFFLINE");
        CHECK(operating_status(rule, RuleLive{}) == "NO_MONITOR");
    }

    TEST_CASE("a rule that is switched off is offline, one that cannot listen is in error") {
        rules::Rule rule;
        rule.is_admin_up = false;
        RuleLive live = with({"active"});
        CHECK(operating_status(rule, live) == "OFFLINE");
        live.is_listening = false;
        CHECK(operating_status(rule, live) == "ERROR");
    }

    TEST_CASE("what an endpoint's signal and attestation say of KV-exact routing") {
        struct Row {
            bool is_declared;
            KvLive live;
            const char* want;
        };
        for (const Row& row : {
                 Row{false, kv("ok", "unproven", true), "READY"},
                 Row{false, kv("ok", "attested", true), "READY"},
                 Row{true, kv("ok", "attested"), "READY"},
                 Row{false, kv("ok", "attested"), "ENGINE_HASH_ATTESTED tokens_not_seen"},
                 Row{true, kv("ok", "unproven", true), "TOKEN_PARITY_VERIFIED hash_not_seen"},
                 Row{false, kv("ok", "unproven"), "PENDING_DATAPLANE_CONTRACT unproven"},
                 Row{false, kv("warming", "unproven", true), "PENDING_DATAPLANE_CONTRACT warming"},
                 Row{false, kv("quiet", "unproven"), "PENDING_DATAPLANE_CONTRACT quiet"},
                 Row{true, kv("ok", "mismatch:hash_algo"),
                     "READY_FUNCTIONAL_ONLY mismatch_hash_algo"},
                 Row{true, kv("ok", "mismatch:seed"), "READY_FUNCTIONAL_ONLY mismatch_seed"},
                 Row{true, kv("ok", "mismatch:block_size"), "DEGRADED mismatch_block_size"},
                 Row{false, kv("ok", "mismatch:tokenizer"), "DEGRADED mismatch_tokenizer"},
                 Row{false, kv("off", "unproven", false, "events_off"), "DEGRADED events_off"},
                 Row{false, kv("dead", "attested", true, "prefix_cache_off"),
                     "ENFORCEMENT_FAULT prefix_cache_off"},
                 Row{false, kv("stolen", "attested", true), "ENFORCEMENT_FAULT stolen"},
                 Row{true, kv("refused", "mismatch:block_size", true, "block_size"),
                     "ENFORCEMENT_FAULT block_size"},
                 // Candidates that the wire does not tell apart are reasons each.
                 Row{false, kv("dead", "unproven", true, "events_empty,reuse_off"),
                     "ENFORCEMENT_FAULT events_empty reuse_off"},
                 Row{false, kv("ok", "unproven", true, "legacy"), "READY legacy"},
             }) {
            CAPTURE(row.want);
            rules::KvSpec declared;
            if (row.is_declared) {
                declared.hash_algo = "sha256";
            }
            CHECK(text(kv_exact_state(declared, row.live)) == row.want);
        }
    }

    TEST_CASE("an inventory says whether the engine is admitted") {
        KvLive live = kv("refused", "mismatch:block_size", false, "block_size");
        live.detail = "tokens_per_block 64, the rule says 32";
        CHECK(admission_text(live, false) ==
              "refused: block_size: tokens_per_block 64, the rule says 32");
        CHECK(admission_text(kv("ok", "unproven"), false) == "admitted");
        KvLive old = kv("ok", "unproven", true, "legacy");
        old.detail = "no hash is named";
        CHECK(admission_text(old, false) == "admitted (legacy engine: no hash is named)");
        CHECK(admission_text(kv("warming", "unproven"), false) == "admitted");
        CHECK(admission_text(kv("warming", "unproven", false, "unreachable"), true) ==
              "waiting: unreachable");
        CHECK(admission_text(kv("off", "unproven", false, "events_off"), false) ==
              "off: events_off");
    }

    TEST_CASE("a rule is as far as its worst endpoint, with the reasons of all") {
        rules::Rule rule;
        RuleLive live = with({"active", "active", "active"});
        live.endpoints[1].kv = kv("ok", "attested", true);
        CHECK(text(kv_exact_state(rule, live)) == "READY");
        live.endpoints[2].kv = kv("dead", "unproven", false, "unreachable");
        live.endpoints[3].kv = kv("quiet", "unproven");
        CHECK(text(kv_exact_state(rule, live)) == "ENFORCEMENT_FAULT quiet unreachable");
    }

    TEST_CASE("a time is RFC 3339 in UTC") {
        CHECK(rfc3339(0).empty());
        CHECK(rfc3339(1'700'000'000'012'345) == "2023-11-14T22:13:20.012Z");
    }
}
