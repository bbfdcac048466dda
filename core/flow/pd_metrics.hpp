// The counters of prefill/decode of one worker, with look-ups of metric children kept.
//
// Threads: its loop's; the children are atomics of the process registry.
// Limits:  as FlowMetrics: a bounded number of models, later ones are "other".
// Source:  metrics contract, section 2. What counts for two engines in concert (loxilb_pd_sg_*) is
//          counted for every plan whose legs run at once.
#pragma once
#include <array>
#include <map>
#include <string>
#include <string_view>

#include "core/base/metrics.hpp"
#include "core/route/receipt.hpp"

namespace sluice::flow {

// There from the start.
struct PdCounters {
    PdCounters();
    metrics::Counter& fallback;          // a role-0 endpoint served
    metrics::Counter& connect_failover;  // prefill tried elsewhere after a failed connect
    metrics::Counter& prefill_died;
    metrics::Counter& decode_died;
    metrics::Counter& decode_zero_byte;
    metrics::Counter& queued;
    metrics::Counter& shed;
    metrics::Counter& overflow;    // a prefill reply longer than is kept
    metrics::Counter& early_exit;  // prefill had the whole answer
    metrics::Counter& prefill_abort_decode;
    metrics::Counter& decode_close_drain;
    metrics::Counter& pair_retry;
    metrics::Counter& prefill_reject_relay;
    metrics::Counter& oversize_reject;
    metrics::Counter& recomputed;  // decode computed the prompt itself
    metrics::Counter& late_reads;  // answers dropped, for decode may have read other blocks
};

class PdMetrics {
public:
    PdCounters counters;

    struct OfModel {
        metrics::Histogram* prefill = nullptr;
        metrics::Histogram* decode_ttft = nullptr;
        metrics::Histogram* decode_duration = nullptr;
        metrics::Counter* params_found = nullptr;
        metrics::Counter* params_missing = nullptr;
        metrics::Counter* session_hits = nullptr;
        std::array<metrics::Counter*, 8> tiers{};  // by route::Tier
        std::map<std::pair<std::string_view, std::string_view>, metrics::Counter*> requests;
        std::string label;
    };
    // `label`: FlowMetrics::label().
    OfModel& of_model(std::string_view label);
    // `phase` complete | prefill | decode | unknown, `status` success | timeout | error; constants.
    static void count_request(OfModel& model, std::string_view phase, std::string_view status);
    static void count_tier(OfModel& model, route::Tier tier);

private:
    std::map<std::string, OfModel, std::less<>> models_;
};

}  // namespace sluice::flow
