// NIXL, pull: decode reads the blocks that prefill's reply names, over a channel of the engines.
//
// A wrong object does not fail, it answers from other blocks and poisons the decode cache, or it
// ends the engine. So the object is handed on whole and unread but for what proves that it is of
// this very request and complete.
#include <algorithm>

#include "plugins/vllm/pd.hpp"

namespace sluice::vllm {

namespace {

constexpr std::uint64_t kSecond = 1'000'000;
constexpr std::uint64_t kNoLimit = 24 * 3600 * kSecond;  // 0.9: until somebody reads
constexpr std::uint32_t k_0_10 = 10'000, k_0_11_1 = 11'001, k_0_13 = 13'000, k_0_22 = 22'000;

constexpr std::string_view kAsk =
    R"({"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,)"
    R"("remote_block_ids":null,"remote_host":null,"remote_port":null})";

// Not known: the shortest.
std::uint64_t lease_of(const PrefillFacts& facts) noexcept {
    if (facts.lease_us != 0 && (facts.version == 0 || facts.version >= k_0_22)) {
        return facts.lease_us;
    }
    return facts.version == 0 || facts.version >= k_0_22 ? 30 * kSecond
           : facts.version >= k_0_11_1                   ? 480 * kSecond
           : facts.version >= k_0_10                     ? 120 * kSecond
                                                         : kNoLimit;
}

// How many blocks the ids name: of one group, or of the longest; empty when they are of no shape an
// engine survives. `ids` is a value of JSON that was found whole.
std::optional<std::size_t> blocks_named(std::string_view ids, bool& is_one_group) {
    std::size_t depth = 0, groups = 0, count = 0, most = 0;
    bool is_flat = false;
    for (std::size_t at = 0; at < ids.size();) {
        const char c = ids[at];
        if (c >= '0' && c <= '9') {
            const std::size_t from = at;
            while (at < ids.size() && ids[at] >= '0' && ids[at] <= '9') {
                ++at;
            }
            // Up to 0.17 there is but one group, without brackets of its own.
            is_flat = is_flat || depth == 1;
            const bool is_mixed = depth == 0 || (is_flat && groups != 0);
            const bool is_huge =
                at - from > 19 && !spans::whole_number(ids.substr(from, at - from));
            if (is_mixed || is_huge) {
                return std::nullopt;
            }
            ++count;
            continue;
        }
        ++at;
        if (c == '[') {
            groups += depth == 1 ? 1 : 0;
            if (++depth > 2 || is_flat) {
                return std::nullopt;
            }
        } else if (c == ']') {
            --depth;
            most = std::max(most, count);
            count = 0;
        } else if (c != ',' && c != ' ' && c != '\n' && c != '\r' && c != '\t') {
            return std::nullopt;
        }
    }
    is_one_group = is_flat || groups == 1;
    return most == 0 ? std::nullopt : std::optional(most);
}

// Why this object must not reach a decode engine; empty: it may.
std::string_view fault_of(const PrefillReply& reply, std::string_view id,
                          const PrefillFacts& facts) {
    const auto value = [&](std::string_view name) {
        return spans::value_of(reply.params, name);
    };
    if (!reply.object.starts_with('{')) {
        return "it is no object";
    }
    if (value("do_remote_prefill") != "true" || value("do_remote_decode") == "true") {
        return "it is not for a decode engine";
    }
    if (const auto mode = value("transfer_mode"); !mode.empty() && mode != "\"pull\"") {
        return "it is of another transfer mode";
    }
    if (spans::plain_text(value("remote_engine_id")).empty() ||
        spans::plain_text(value("remote_host")).empty() ||
        !spans::whole_number(value("remote_port"))) {
        return "it does not say where the blocks are";
    }
    const std::string_view request = spans::plain_text(value("remote_request_id"));
    const bool has_none_yet = facts.version != 0 && facts.version < k_0_13;
    if (value("remote_request_id").empty() && !has_none_yet) {
        return "it does not name its request";
    }
    // Before 0.13 only the reply itself names the request.
    const std::string_view named = value("remote_request_id").empty()
                                       ? spans::plain_text(spans::value_of(reply.members, "id"))
                                       : request;
    if (named.find(id) == std::string_view::npos) {
        return "it is of another request";
    }
    bool is_one_group = true;
    const auto blocks = blocks_named(value("remote_block_ids"), is_one_group);
    if (!blocks) {
        return "it names no blocks";
    }
    const auto usage = spans::members_of(spans::value_of(reply.members, "usage"));
    const auto prompt =
        usage ? spans::whole_number(spans::value_of(*usage, "prompt_tokens")) : std::nullopt;
    const auto covered = spans::whole_number(value("remote_num_tokens"));
    const auto need = prompt ? prompt : covered;
    if (covered && need && *covered < *need) {
        return "it covers less than the prompt";
    }
    if (need && is_one_group && facts.block_tokens != 0 && *blocks * facts.block_tokens < *need) {
        return "it names fewer blocks than the prompt fills";
    }
    return {};
}

// The hand-off: the attempt's request id, a line break, the object.
struct Handoff {
    std::string_view id, object;
};
Handoff read_handoff(sluice_bytes bytes) {
    const std::string_view all = text(bytes);
    const std::size_t line = all.find('\n');
    Handoff out;
    if (line != std::string_view::npos) {
        out = {all.substr(0, line), all.substr(line + 1)};
    }
    if (!all.empty() && (out.id.empty() || !spans::members_of(out.object))) {
        throw Failure(SLUICE_E_INVALID, "the hand-off is not whole");
    }
    return out;
}

class Nixl final : public Dialect {
public:
    std::uint32_t plan_kind() const noexcept override { return SLUICE_PLAN_SEQUENTIAL; }
    std::uint32_t plan_flags() const noexcept override { return SLUICE_PLAN_HANDOFF; }
    bool can_release() const noexcept override { return true; }
    bool reads_blocks(const sluice_leg& leg) const noexcept override {
        return leg.handoff.len != 0;
    }

    std::string prefill(Edits& body, const sluice_leg& leg, const PrefillFacts&,
                        const sluice_leg_out&) const override {
        body.set("kv_transfer_params", std::string(kAsk));
        return receipt_id(leg);
    }

    std::string decode(Edits& body, const sluice_leg& leg, const PrefillFacts&) const override {
        const Handoff handoff = read_handoff(leg.handoff);
        if (handoff.object.empty()) {
            if ((leg.flags & SLUICE_LEG_RELEASE) != 0) {
                throw Failure(SLUICE_E_UNSUPPORTED, "nothing was handed over");
            }
            body.erase("kv_transfer_params");
            return receipt_id(leg);
        }
        body.set("kv_transfer_params", std::string(handoff.object));
        // Prefill's own: another decode endpoint than planned may have been taken, and engines up
        // to 0.12 free their blocks by it.
        return std::string(handoff.id);
    }

    std::string_view prefilled(const sluice_leg& leg, const PrefillReply& reply,
                               const PrefillFacts& facts, sluice_reply_out& out) const override {
        if (reply.object.empty()) {
            return {};
        }
        // Used or not, prefill holds the blocks now.
        out.lease_us = lease_of(facts);
        const std::string id = receipt_id(leg);
        if (const auto fault = fault_of(reply, id, facts); !fault.empty()) {
            return fault;
        }
        const std::string handoff = id + "\n" + std::string(reply.object);
        if (out.handoff.write(out.handoff.ctx, handoff.data(), handoff.size()) != SLUICE_OK) {
            return "the gateway does not take it";
        }
        out.hold = SLUICE_HOLD_RELEASE;
        out.hold |= facts.counts_holds ? std::uint32_t{SLUICE_HOLD_COUNTED} : 0U;
        return {};
    }
};

}  // namespace

const Dialect& nixl() noexcept {
    static const Nixl instance;
    return instance;
}

}  // namespace sluice::vllm
