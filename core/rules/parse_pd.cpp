// Prefill/decode: its values, and what of them is without effect.
#include <algorithm>
#include <array>
#include <string_view>

#include "core/rules/parse_parts.hpp"

namespace sluice::rules {
namespace {

bool has_role(const Draft& draft, std::uint32_t role) {
    return std::any_of(draft.rule.endpoints.begin(), draft.rule.endpoints.end(),
                       [role](const EndpointSpec& endpoint) { return endpoint.role == role; });
}

bool is_trtllm(std::string_view engine) {
    return engine == "trtllm" || engine == "org.sluice.engine.trtllm";
}

void take_values(const Effective& in, PdSpec& pd) {
    pd.is_on = in.boolean("pd_disagg_mode");
    pd.is_cache_aware = in.boolean("pd_cache_aware_mode");
    pd.session_ttl_sec = in.u32("pd_session_ttl_sec");
    pd.cache_threshold = in.u32("pd_cache_threshold");
    pd.balance_threshold = in.u32("pd_balance_abs_threshold");
    pd.min_prompt_tokens = in.u32("pd_min_prompt_tokens");
    pd.is_conditional = in.boolean("pd_conditional");
    pd.has_decode_fallback = in.boolean("pd_decode_only_fallback");
    pd.prefill_ms = in.u64("pd_prefill_timeout_ms");
    pd.decode_first_byte_ms = in.u64("pd_decode_first_byte_ms");
    pd.max_inflight = in.u32("pd_max_inflight_per_ep");
    pd.queue_depth = in.u32("pd_queue_depth_per_ep");
    pd.max_park_ms = in.u64("pd_max_park_ms");
}

// What is kept and does nothing as the rule is now.
void warn_without_effect(const Effective& in, Draft& out) {
    static constexpr std::array<std::string_view, 13> kOnlyPd = {
        "pd_session_ttl_sec",       "pd_cache_threshold",
        "pd_balance_abs_threshold", "pd_connector",
        "pd_min_prompt_tokens",     "pd_conditional",
        "pd_decode_only_fallback",  "pd_prefill_timeout_ms",
        "pd_decode_first_byte_ms",  "pd_max_inflight_per_ep",
        "pd_queue_depth_per_ep",    "pd_max_park_ms",
        "trt_disagg_key_file"};
    const auto warn = [&out](std::string_view field, const std::string& why) {
        out.warnings.push_back({"no_effect", std::string(field), why});
    };
    if (!in.boolean("pd_disagg_mode")) {
        for (const std::string_view name : kOnlyPd) {
            if (in.was_given(name)) {
                warn(name, "kept, but without effect while pd_disagg_mode is false");
            }
        }
        if (has_role(out, kRolePrefill) || has_role(out, kRoleDecode)) {
            warn("endpoints", "ep_role is without effect while pd_disagg_mode is false");
        }
        return;
    }
    if (has_role(out, kRoleWhole)) {
        out.warnings.push_back({"pd_rescue_only", "endpoints",
                                "an endpoint without ep_role gets requests only while no pair of a "
                                "prefill and a decode endpoint is healthy"});
    }
    const bool is_aware = in.boolean("pd_cache_aware_mode");
    for (const char* name : {"pd_cache_threshold", "pd_balance_abs_threshold"}) {
        if (in.was_given(name) && !is_aware) {
            warn(name, "kept, but without effect while pd_cache_aware_mode is false");
        }
    }
    const bool is_bounded = in.u32("pd_max_inflight_per_ep") != 0;
    if (in.u32("pd_queue_depth_per_ep") != 0 && !is_bounded) {
        warn("pd_queue_depth_per_ep", "kept, but without effect while pd_max_inflight_per_ep is 0");
    }
    if (const std::string engine = engine_named(in);
        in.was_given("pd_connector") && is_trtllm(engine)) {
        warn("pd_connector", "kept, but without effect: the engine of this rule is " + engine);
    }
    if (in.boolean("pd_conditional") && in.u32("kvExactMode") == 0) {
        warn("pd_conditional", "kept, but without effect while kvExactMode is 0");
    }
    if (in.u32("sel") != 0 || !in.text("selector").empty()) {
        warn(in.u32("sel") != 0 ? "sel" : "selector",
             "kept, but a P/D rule chooses by session, prefix, blocks and load");
    }
}

}  // namespace

std::optional<Refusal> take_pd(const Effective& in, Draft& out) {
    const std::string engine = engine_named(in);
    if (!in.text("trt_disagg_key_file").empty() && !is_trtllm(engine)) {
        return Refusal{400, "trt_key_file_unused", "trt_disagg_key_file",
                       "trt_disagg_key_file signs what TensorRT-LLM engines hand to each other; "
                       "the engine of this rule is " +
                           engine,
                       "absent, or kvEngineType trtllm"};
    }
    take_values(in, out.rule.pd);
    warn_without_effect(in, out);
    return std::nullopt;
}

}  // namespace sluice::rules
