#include "core/flow/pd_metrics.hpp"

#include <vector>

namespace sluice::flow {
namespace {

metrics::Counter& counter(std::string_view name, std::string_view help) {
    return metrics::registry().counter(name, help);
}

std::vector<double> leg_bounds() {
    return {.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10};
}

std::vector<double> long_bounds() {
    return {.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300};
}

}  // namespace

PdCounters::PdCounters()
    : fallback(counter("loxilb_pd_fallback_to_normal_total",
                       "Requests of P/D rules that an endpoint without a role served.")),
      connect_failover(counter("loxilb_pd_connect_failover_total",
                               "Prefill legs sent elsewhere after a failed connect.")),
      prefill_died(
          counter("loxilb_pd_prefill_ep_died_total", "Prefill legs whose connection dropped.")),
      decode_died(counter("loxilb_pd_decode_ep_died_total",
                          "Decode legs whose connection dropped within the answer.")),
      decode_zero_byte(counter("loxilb_pd_decode_zero_byte_eof_total",
                               "Decode legs that ended without a byte.")),
      queued(counter("loxilb_pd_admission_queued_total",
                     "Requests that waited for a prefill endpoint.")),
      shed(counter("loxilb_pd_admission_shed_total",
                   "Requests turned away because every prefill endpoint was full.")),
      overflow(counter("loxilb_proxy_pd_kv_params_overflow_total",
                       "Prefill replies longer than is kept.")),
      early_exit(counter("loxilb_pd_trt_ctx_early_exit_total",
                         "Requests that the prefill leg had answered already.")),
      prefill_abort_decode(counter("loxilb_pd_sg_prefill_abort_decode_total",
                                   "Decode legs ended because their prefill failed.")),
      decode_close_drain(counter("loxilb_pd_sg_decode_close_drain_total",
                                 "Decode legs that ended while their prefill went on.")),
      pair_retry(counter("loxilb_pd_sg_room_retry_total",
                         "Pairs of legs run once more with a new transfer id.")),
      prefill_reject_relay(counter("loxilb_pd_sg_prefill_reject_relay_total",
                                   "Answers of 4xx of a prefill leg that were relayed.")),
      oversize_reject(
          counter("loxilb_pd_sg_oversize_reject_total", "Requests too large to be split.")),
      recomputed(counter("loxilb_pd_recomputed_total",
                         "Decode legs that computed their prompt after a prefill.")),
      late_reads(counter("loxilb_pd_late_reads_total",
                         "Answers that were dropped, for their blocks may have been read after the "
                         "prefill endpoint had let them go.")) {}

PdMetrics::OfModel& PdMetrics::of_model(std::string_view label) {
    auto it = models_.find(label);
    if (it != models_.end()) {
        return it->second;
    }
    auto& registry = metrics::registry();
    OfModel out;
    out.label = label;
    const metrics::Labels labels{{"model", out.label}};
    out.prefill = &registry.histogram("loxilb_ai_pd_prefill_duration_seconds",
                                      "Prefill legs, from dispatch to the whole reply.",
                                      leg_bounds(), labels);
    out.decode_ttft =
        &registry.histogram("loxilb_ai_pd_decode_ttft_seconds",
                            "Decode legs, from dispatch to the first byte.", leg_bounds(), labels);
    out.decode_duration =
        &registry.histogram("loxilb_ai_pd_decode_duration_seconds",
                            "Decode legs, from dispatch to the last byte.", long_bounds(), labels);
    out.params_found = &registry.counter("loxilb_ai_pd_kv_params_found_total",
                                         "Prefill replies with something to hand over.", labels);
    out.params_missing = &registry.counter("loxilb_ai_pd_kv_params_missing_total",
                                           "Prefill replies with nothing to hand over.", labels);
    out.session_hits = &registry.counter("loxilb_ai_pd_session_hits_total",
                                         "Prefill legs that followed a session.", labels);
    return models_.emplace(out.label, std::move(out)).first->second;
}

void PdMetrics::count_request(OfModel& model, std::string_view phase, std::string_view status) {
    metrics::Counter*& counter = model.requests[{phase, status}];
    if (counter == nullptr) {
        counter = &metrics::registry().counter("loxilb_ai_pd_requests_total",
                                               "Requests of P/D rules by where and how they ended.",
                                               {{"model", model.label},
                                                {"phase", std::string(phase)},
                                                {"status", std::string(status)}});
    }
    counter->add();
}

void PdMetrics::count_tier(OfModel& model, route::Tier tier) {
    metrics::Counter*& counter = model.tiers.at(static_cast<std::size_t>(tier));
    if (counter == nullptr) {
        counter = &metrics::registry().counter(
            "loxilb_ai_pd_tier_selected_total", "What decided the prefill endpoint.",
            {{"tier", std::string(to_string(tier))}, {"model", model.label}});
    }
    counter->add();
    if (tier == route::Tier::Session) {
        model.session_hits->add();
    }
}

}  // namespace sluice::flow
