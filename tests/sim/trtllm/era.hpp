// The builds of TensorRT-LLM that can be simulated, dated by content, and what each has.
//
// Threads: any; values.
// Source:  TensorRT-LLM, trtllm-serve of mid-2025 (0.21) to the newest form seen (main).
#pragma once
#include <optional>
#include <string_view>

namespace sluice::sim::trtllm {

enum class Era { V0_21, V1_0, V1_1, V1_2, V1_3Early, V1_3Late, Main };

std::optional<Era> era_from(std::string_view word) noexcept;
std::string_view words_of_eras() noexcept;
// What /version says.
std::string_view version_of(Era e) noexcept;

enum class DrainStyle {
    Mover,     // a thread carries events to a queue every 0.2 s; a drain ends when it is quiet
    OnDemand,  // fetched from the engine when asked; the same quiet tail
    AtOnce,    // what is there
};
constexpr DrainStyle drain_style(Era e) noexcept {
    return e <= Era::V1_1        ? DrainStyle::Mover
           : e <= Era::V1_3Early ? DrainStyle::OnDemand
                                 : DrainStyle::AtOnce;
}
constexpr bool has_server_info(Era e) noexcept {
    return e >= Era::V1_2;
}
// kv_cache_hash_algo, tokens_per_block and max_batch_size of /server_info; hash_algo, cache_salt
// and layer_group_id of events.
constexpr bool tells_cache_contract(Era e) noexcept {
    return e >= Era::V1_3Late;
}
constexpr bool health_can_fail(Era e) noexcept {
    return e >= Era::V1_2;
}
constexpr bool has_perf_metrics(Era e) noexcept {
    return e >= Era::V1_1;
}
constexpr bool has_salt(Era e) noexcept {
    return e >= Era::V1_1;
}
constexpr bool has_mm_keys(Era e) noexcept {
    return e >= Era::V1_1;
}
constexpr bool has_dp_rank(Era e) noexcept {
    return e >= Era::V1_0;
}
constexpr bool reports_cached_tokens(Era e) noexcept {
    return e >= Era::V1_1;
}
// Full blocks are stored as they become full, not only after the prompt and at the end.
constexpr bool stores_early(Era e) noexcept {
    return e >= Era::V1_2;
}
// Evictions of one window wait for its next stored event, not only for any other event.
constexpr bool batches_removed(Era e) noexcept {
    return e >= Era::V1_2;
}
// Every chunk of a stream has the same id.
constexpr bool has_steady_ids(Era e) noexcept {
    return e >= Era::V1_3Late;
}
// Hand-offs may have to be signed.
constexpr bool has_disagg_auth(Era e) noexcept {
    return e >= Era::Main;
}
// Events can be published over ZMQ, and then no drain sees any.
constexpr bool can_publish_elsewhere(Era e) noexcept {
    return e >= Era::Main;
}

}  // namespace sluice::sim::trtllm
