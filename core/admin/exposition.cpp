#include "core/admin/exposition.hpp"

#include <prometheus/text_serializer.h>

#include <limits>
#include <sstream>

namespace sluice::admin {
namespace {

prometheus::MetricType type_of(metrics::Kind kind) {
    switch (kind) {
        case metrics::Kind::Counter:
            return prometheus::MetricType::Counter;
        case metrics::Kind::Gauge:
            return prometheus::MetricType::Gauge;
        case metrics::Kind::Histogram:
            return prometheus::MetricType::Histogram;
    }
    return prometheus::MetricType::Untyped;
}

prometheus::ClientMetric::Histogram histogram_of(const metrics::Sample& sample) {
    prometheus::ClientMetric::Histogram out;
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < sample.buckets.size(); ++i) {
        below += sample.buckets[i];
        const double bound =
            i < sample.bounds.size() ? sample.bounds[i] : std::numeric_limits<double>::infinity();
        out.bucket.push_back({below, bound});
    }
    out.sample_count = below;
    out.sample_sum = sample.sum;
    return out;
}

}  // namespace

std::string exposition(const std::vector<metrics::Family>& families) {
    std::vector<prometheus::MetricFamily> out;
    out.reserve(families.size());
    for (const metrics::Family& family : families) {
        prometheus::MetricFamily to;
        to.name = family.name;
        to.help = family.help;
        to.type = type_of(family.kind);
        for (const metrics::Sample& sample : family.samples) {
            prometheus::ClientMetric metric;
            for (const auto& [name, value] : sample.labels) {
                metric.label.push_back({name, value});
            }
            metric.counter.value = sample.value;
            metric.gauge.value = sample.value;
            if (family.kind == metrics::Kind::Histogram) {
                metric.histogram = histogram_of(sample);
            }
            to.metric.push_back(std::move(metric));
        }
        out.push_back(std::move(to));
    }
    std::ostringstream text;
    prometheus::TextSerializer().Serialize(text, out);
    return std::move(text).str();
}

}  // namespace sluice::admin
