// The metrics one instance declared: sluice_plugin_<name>[_<unit>][_total]{plugin,instance,...}.
//
// Threads: declare() control; record() any.
// Limits:  64 metrics an instance, 8 labels and 64 children a metric (further label values share
//          the child "other"), 64 buckets.
#pragma once
#include <sluice/sdk/host.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/metrics.hpp"
#include "core/base/result.hpp"

namespace sluice::plugin {

class PluginMetric {
public:
    PluginMetric(std::string name, std::string help, metrics::Kind kind,
                 std::vector<double> buckets, std::vector<std::string> label_names,
                 metrics::Labels base);
    void record(double value, const sluice_str* label_values, std::uint32_t num_labels);

private:
    struct Child {
        metrics::Counter* counter = nullptr;
        metrics::Gauge* gauge = nullptr;
        metrics::Histogram* histogram = nullptr;
    };
    Child look_up(const std::vector<std::string>& values) const;
    static void record(const Child& child, double value);

    const std::string name_, help_;
    const metrics::Kind kind_;
    const std::vector<double> buckets_;
    const std::vector<std::string> label_names_;
    const metrics::Labels base_;
    Child only_;  // without labels
    std::mutex mu_;
    std::map<std::vector<std::string>, Child> children_;  // guarded by mu_
};

struct MetricBook {
    Result<PluginMetric*> declare(const sluice_metric_spec& spec, const std::string& plugin,
                                  const std::string& instance);
    // Null when the handle is none of this instance's.
    PluginMetric* find(const sluice_metric* handle) const;
    std::size_t size() const noexcept { return metrics_.size(); }

private:
    // Filled before the instance is active, read afterwards.
    std::vector<std::unique_ptr<PluginMetric>> metrics_;
};

}  // namespace sluice::plugin
