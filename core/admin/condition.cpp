#include "core/admin/condition.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

namespace sluice::admin {
namespace {

// From the best to the worst.
constexpr std::array<std::string_view, 7> kStates = {
    "READY",
    "READY_FUNCTIONAL_ONLY",
    "ENGINE_HASH_ATTESTED",
    "TOKEN_PARITY_VERIFIED",
    "PENDING_DATAPLANE_CONTRACT",
    "DEGRADED",
    "ENFORCEMENT_FAULT",
};

std::ptrdiff_t badness(std::string_view state) {
    return std::find(kStates.begin(), kStates.end(), state) - kStates.begin();
}

KvExactState because(std::string_view state, std::string reason) {
    KvExactState out;
    out.state = state;
    out.reasons.push_back(std::move(reason));
    return out;
}

// The reasons the signal gives, else its own word. Candidates are told apart by commas.
KvExactState because_of_signal(std::string_view state, const KvLive& live) {
    KvExactState out;
    out.state = state;
    std::string_view left = live.reason.empty() ? live.signal : live.reason;
    while (!left.empty()) {
        const std::size_t comma = left.find(',');
        const std::string_view word = left.substr(0, comma);
        if (!word.empty()) {
            out.reasons.emplace_back(word);
        }
        left.remove_prefix(comma == std::string_view::npos ? left.size() : comma + 1);
    }
    return out;
}

bool is_declaring(const rules::KvSpec& kv) {
    return kv.hash_algo || kv.hash_seed || kv.block_tokens;
}

}  // namespace

std::string_view operating_status(const rules::Rule& rule, const RuleLive& live) {
    if (!live.is_listening) {
        return "ERROR";
    }
    if (!rule.is_admin_up) {
        return "OFFLINE";
    }
    std::size_t active = 0;
    std::size_t out = 0;
    bool is_watched = false;
    for (const auto& [id, endpoint] : live.endpoints) {
        active += endpoint.state == "active" ? 1 : 0;
        out += endpoint.state == "inactive" || endpoint.state == "disabled" ? 1 : 0;
        is_watched = is_watched || endpoint.is_watched;
    }
    if (active == 0 && !live.endpoints.empty()) {
        return "OFFLINE";
    }
    if (out > 0) {
        return "DEGRADED";
    }
    return is_watched ? "ONLINE" : "NO_MONITOR";
}

KvExactState kv_exact_state(const rules::KvSpec& declared, const KvLive& live) {
    constexpr std::string_view kMismatch = "mismatch:";
    const std::string& signal = live.signal;
    if (signal == "dead" || signal == "stolen" || signal == "refused") {
        return because_of_signal("ENFORCEMENT_FAULT", live);
    }
    if (live.attestation.starts_with(kMismatch)) {
        std::string what = live.attestation.substr(kMismatch.size());
        what.erase(0, std::min(what.find_first_not_of(' '), what.size()));
        const bool still_routes = what == "hash_algo" || what == "seed";
        return because(still_routes ? "READY_FUNCTIONAL_ONLY" : "DEGRADED", "mismatch_" + what);
    }
    if (signal == "off") {
        return because_of_signal("DEGRADED", live);
    }
    if (signal != "ok") {
        return because_of_signal("PENDING_DATAPLANE_CONTRACT", live);
    }
    const bool is_attested = live.attestation == "attested";
    if (is_declaring(declared) ? is_attested : live.tokens_agree) {
        return live.reason.empty() ? KvExactState{} : because("READY", live.reason);
    }
    if (live.tokens_agree) {
        return because("TOKEN_PARITY_VERIFIED", "hash_not_seen");
    }
    return is_attested ? because("ENGINE_HASH_ATTESTED", "tokens_not_seen")
                       : because("PENDING_DATAPLANE_CONTRACT", "unproven");
}

KvExactState kv_exact_state(const rules::Rule& rule, const RuleLive& live) {
    KvExactState out;
    for (const auto& [id, endpoint] : live.endpoints) {
        if (!endpoint.kv) {
            continue;
        }
        const KvExactState one = kv_exact_state(rule.kv, *endpoint.kv);
        if (badness(one.state) > badness(out.state)) {
            out.state = one.state;
        }
        out.reasons.insert(out.reasons.end(), one.reasons.begin(), one.reasons.end());
    }
    std::sort(out.reasons.begin(), out.reasons.end());
    out.reasons.erase(std::unique(out.reasons.begin(), out.reasons.end()), out.reasons.end());
    return out;
}

std::string admission_text(const KvLive& live, bool is_waiting) {
    std::string out = "admitted";
    if (live.signal == "refused" || live.signal == "off") {
        out = live.signal;
    } else if (is_waiting) {
        out = "waiting";
    }
    if (out == "admitted" && live.reason == "legacy") {
        return out + " (legacy engine: " + (live.detail.empty() ? "not told" : live.detail) + ")";
    }
    out += live.reason.empty() ? "" : ": " + live.reason;
    return out == "refused: " + live.reason && !live.detail.empty() ? out + ": " + live.detail
                                                                    : out;
}

std::string rfc3339(std::uint64_t since_epoch_us) {
    if (since_epoch_us == 0) {
        return {};
    }
    const auto seconds = static_cast<std::time_t>(since_epoch_us / 1'000'000U);
    std::tm utc{};
    ::gmtime_r(&seconds, &utc);
    std::array<char, 32> text{};
    const std::size_t n = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
    std::array<char, 8> millis{};
    std::snprintf(millis.data(), millis.size(), ".%03uZ",
                  static_cast<unsigned>(since_epoch_us / 1000U % 1000U));
    return std::string(text.data(), n) + millis.data();
}

}  // namespace sluice::admin
