// The request counters of one worker, with look-ups of metric children kept.
//
// Threads: its loop's; the children are atomics of the process registry.
// Limits:  64 distinct models, later ones become "other"; label text keeps [A-Za-z0-9._-/] and at
//          most 64 characters.
// Source:  metrics contract, sections 1 and 4.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/base/metrics.hpp"
#include "core/route/receipt.hpp"

namespace sluice::flow {

class FlowMetrics {
public:
    FlowMetrics();

    // Once a request, at its end. `seconds`: whole exchange; `ttfb_seconds` negative = no byte
    // came.
    void settle(const route::Receipt& receipt, int status, double seconds, double ttfb_seconds,
                std::uint64_t bytes_to_client, std::uint64_t bytes_from_client);
    // The label of a model; of one too many "other".
    const std::string& label(std::string_view model) { return of_model(model).label; }
    void stream_began(std::string_view model) { of_model(model).active_streams->add(1); }
    void stream_ended(std::string_view model) { of_model(model).active_streams->add(-1); }

private:
    struct OfModel {
        std::string label;
        metrics::Gauge* active_streams = nullptr;
        metrics::Histogram* duration = nullptr;
        std::map<std::uint32_t, metrics::Counter*> requests;  // by status and outcome
    };
    struct OfService {
        metrics::Counter* requests = nullptr;
        metrics::Counter* errors = nullptr;
        metrics::Counter* bytes = nullptr;
    };
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view s) const noexcept {
            return std::hash<std::string_view>{}(s);
        }
    };
    OfModel& of_model(std::string_view model);
    OfService& of_service(std::uint32_t number);

    std::unordered_map<std::string, OfModel, Hash, std::equal_to<>> models_;
    std::unordered_map<std::uint32_t, OfService> services_;
    metrics::Counter& responses_;
    metrics::Histogram& ttfb_;
    metrics::Counter& all_requests_;
    metrics::Counter& all_errors_;
    metrics::Counter* by_class_[6] = {};
};

}  // namespace sluice::flow
