// Mooncake: both legs run at once and meet by a transfer id; decode is told where prefill's
// bootstrap server is and which engine of it computes. A decode leg without all three computes by
// itself, one whose prefill never starts waits: the legs are built only when both can be.
#include <algorithm>

#include "plugins/vllm/pd.hpp"

namespace sluice::vllm {

namespace {

constexpr std::uint64_t kLeaseUs = 480'000'000;  // VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT

std::string transfer_name(const sluice_leg& leg) {
    return json_quote("xfer-" + std::to_string(leg.transfer_id));
}

// The rank that prefills; both legs come to the same.
std::optional<std::uint32_t> rank_of(const sluice_leg& leg, const PrefillFacts& facts) {
    if (!facts.bootstrap || facts.bootstrap->engines.empty()) {
        return std::nullopt;
    }
    const auto& engines = facts.bootstrap->engines;
    const std::uint32_t asked = leg.kind == SLUICE_LEG_PREFILL ? leg.dp_rank : leg.peer_dp_rank;
    if (asked != SLUICE_ANY) {
        return engines.contains(asked) ? std::optional(asked) : std::nullopt;
    }
    auto it = engines.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(leg.transfer_id % engines.size()));
    return it->first;
}

class Mooncake final : public Dialect {
public:
    std::uint32_t plan_kind() const noexcept override { return SLUICE_PLAN_CONCURRENT; }
    bool reads_blocks(const sluice_leg&) const noexcept override { return true; }

    std::string prefill(Edits& body, const sluice_leg& leg, const PrefillFacts& facts,
                        const sluice_leg_out& out) const override {
        const auto rank = rank_of(leg, facts);
        if (!rank) {
            throw Failure(SLUICE_E_UNAVAILABLE,
                          "the prefill engine's Mooncake bootstrap server does not answer");
        }
        body.set("kv_transfer_params",
                 R"({"do_remote_decode":true,"do_remote_prefill":false,"transfer_id":)" +
                     transfer_name(leg) + "}");
        const std::string number = std::to_string(*rank);
        if (out.set_header(out.ctx, borrow("X-data-parallel-rank"), borrow(number)) != SLUICE_OK) {
            throw Failure(SLUICE_E_LIMIT, "a header does not fit");
        }
        return receipt_id(leg);
    }

    std::string decode(Edits& body, const sluice_leg& leg,
                       const PrefillFacts& facts) const override {
        const auto rank = rank_of(leg, facts);
        if (!rank || (leg.flags & SLUICE_LEG_RELEASE) != 0) {
            throw Failure(SLUICE_E_UNAVAILABLE,
                          "the prefill engine's Mooncake bootstrap server does not answer");
        }
        body.set("kv_transfer_params",
                 R"({"do_remote_decode":false,"do_remote_prefill":true,"remote_bootstrap_addr":)" +
                     json_quote(facts.bootstrap->address) + R"(,"remote_engine_id":)" +
                     json_quote(facts.bootstrap->engines.at(*rank)) + R"(,"transfer_id":)" +
                     transfer_name(leg) + "}");
        return receipt_id(leg);
    }

    std::string_view prefilled(const sluice_leg&, const PrefillReply&, const PrefillFacts&,
                               sluice_reply_out& out) const override {
        out.lease_us = kLeaseUs;
        return {};
    }
};

}  // namespace

std::optional<std::map<std::uint32_t, std::string>> parse_bootstrap(std::string_view body) {
    const auto ranks = spans::members_of(body);
    if (!ranks) {
        return std::nullopt;
    }
    std::map<std::uint32_t, std::string> out;
    for (const spans::Span& entry : *ranks) {
        const auto rank = spans::whole_number(entry.name);
        const auto members = spans::members_of(entry.value);
        const std::string_view id = members
                                        ? spans::plain_text(spans::value_of(*members, "engine_id"))
                                        : std::string_view();
        const bool is_plain =
            std::all_of(id.begin(), id.end(), [](char c) { return c > 0x20 && c < 0x7F; });
        if (!rank || *rank > 1024 || id.empty() || id.size() > 256 || !is_plain) {
            return std::nullopt;
        }
        out[static_cast<std::uint32_t>(*rank)] = id;
    }
    return out;
}

const Dialect& mooncake() noexcept {
    static const Mooncake instance;
    return instance;
}

}  // namespace sluice::vllm
