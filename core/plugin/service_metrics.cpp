#include <algorithm>
#include <cmath>
#include <set>

#include "core/plugin/host_context.hpp"
#include "core/plugin/metric_book.hpp"
#include "core/plugin/sdk_text.hpp"
#include "core/plugin/services.hpp"

namespace sluice::plugin {
namespace {

constexpr std::size_t kMaxMetrics = 64;
constexpr std::uint32_t kMaxLabels = 8;
constexpr std::uint32_t kMaxBuckets = 64;
constexpr std::size_t kMaxChildren = 64;
constexpr std::size_t kMaxLabelValue = 128;

bool is_name(std::string_view name) noexcept {
    return !name.empty() && name.size() <= 64 && name.front() >= 'a' && name.front() <= 'z' &&
           std::all_of(name.begin(), name.end(), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
           });
}

std::string full_name(std::string_view name, std::string_view unit, bool is_counter) {
    std::string out = "sluice_plugin_";
    out += name;
    if (!unit.empty() && !name.ends_with("_" + std::string(unit))) {
        out += '_';
        out += unit;
    }
    if (is_counter && !out.ends_with("_total")) {
        out += "_total";
    }
    return out;
}

// One name has one kind, one set of labels and one set of buckets in the whole process.
bool agrees_with_earlier(const std::string& name, const std::string& shape) {
    static std::mutex mu;
    static std::map<std::string, std::string> shapes;  // guarded by mu; bounded by loaded plugins
    const std::lock_guard lock(mu);
    return shapes.emplace(name, shape).first->second == shape;
}

}  // namespace

PluginMetric::PluginMetric(std::string name, std::string help, metrics::Kind kind,
                           std::vector<double> buckets, std::vector<std::string> label_names,
                           metrics::Labels base)
    : name_(std::move(name)),
      help_(std::move(help)),
      kind_(kind),
      buckets_(std::move(buckets)),
      label_names_(std::move(label_names)),
      base_(std::move(base)) {
    if (label_names_.empty()) {
        only_ = look_up({});
    }
}

PluginMetric::Child PluginMetric::look_up(const std::vector<std::string>& values) const {
    metrics::Labels labels = base_;
    for (std::size_t i = 0; i < label_names_.size(); ++i) {
        labels.emplace_back(label_names_[i], values[i]);
    }
    Child out;
    switch (kind_) {
        case metrics::Kind::Counter:
            out.counter = &metrics::registry().counter(name_, help_, labels);
            break;
        case metrics::Kind::Gauge:
            out.gauge = &metrics::registry().gauge(name_, help_, labels);
            break;
        case metrics::Kind::Histogram:
            out.histogram = &metrics::registry().histogram(name_, help_, buckets_, labels);
            break;
    }
    return out;
}

void PluginMetric::record(const Child& child, double value) {
    if (child.counter != nullptr) {
        child.counter->add(value);
    } else if (child.gauge != nullptr) {
        child.gauge->set(value);
    } else if (child.histogram != nullptr) {
        child.histogram->observe(value);
    }
}

void PluginMetric::record(double value, const sluice_str* label_values, std::uint32_t num_labels) {
    if (num_labels != label_names_.size() || std::isnan(value) ||
        (kind_ == metrics::Kind::Counter && !(value >= 0)) ||
        (num_labels > 0 && label_values == nullptr)) {
        return;
    }
    if (label_names_.empty()) {
        record(only_, value);
        return;
    }
    std::vector<std::string> values;
    values.reserve(num_labels);
    for (std::uint32_t i = 0; i < num_labels; ++i) {
        values.push_back(copy(label_values[i], kMaxLabelValue));
    }
    Child child;
    {
        const std::lock_guard lock(mu_);
        auto it = children_.find(values);
        if (it == children_.end()) {
            if (children_.size() >= kMaxChildren) {
                std::fill(values.begin(), values.end(), "other");
            }
            it = children_.emplace(values, look_up(values)).first;
        }
        child = it->second;
    }
    record(child, value);
}

Result<PluginMetric*> MetricBook::declare(const sluice_metric_spec& spec, const std::string& plugin,
                                          const std::string& instance) {
    if (!SLUICE_HAS(sluice_metric_spec, &spec, label_names)) {
        return Error{Code::Invalid, "the metric's description is too short"};
    }
    if (metrics_.size() >= kMaxMetrics) {
        return Error{Code::Limit, "more than " + std::to_string(kMaxMetrics) + " metrics"};
    }
    const std::string_view name = view(spec.name);
    const std::string_view unit = view(spec.unit);
    if (!is_name(name) || (!unit.empty() && !is_name(unit)) || spec.kind < SLUICE_METRIC_COUNTER ||
        spec.kind > SLUICE_METRIC_HISTOGRAM) {
        return Error{Code::Invalid, "a metric needs a lower-case name, unit and known kind"};
    }
    if (spec.num_labels > kMaxLabels || spec.num_buckets > kMaxBuckets ||
        (spec.num_labels > 0 && spec.label_names == nullptr) ||
        (spec.num_buckets > 0 && spec.buckets == nullptr)) {
        return Error{Code::Limit, "more labels or buckets than a metric may have"};
    }
    std::vector<std::string> labels;
    std::set<std::string_view> seen{"plugin", "instance"};
    std::string shape = std::to_string(spec.kind);
    for (std::uint32_t i = 0; i < spec.num_labels; ++i) {
        const std::string_view label = view(spec.label_names[i]);
        if (!is_name(label) || !seen.insert(label).second) {
            return Error{Code::Invalid, "a label name is unusable or repeated"};
        }
        labels.emplace_back(label);
        shape.append(",").append(label);
    }
    std::vector<double> buckets;
    if (spec.num_buckets > 0) {
        buckets.assign(spec.buckets, spec.buckets + spec.num_buckets);
    }
    const bool is_histogram = spec.kind == SLUICE_METRIC_HISTOGRAM;
    // Also false for NaN, which compares with nothing.
    const bool is_ascending =
        std::adjacent_find(buckets.begin(), buckets.end(),
                           [](double a, double b) { return !(a < b); }) == buckets.end();
    if (is_histogram == buckets.empty() || !is_ascending) {
        return Error{Code::Invalid, "histograms, and only they, have ascending buckets"};
    }
    for (const double bound : buckets) {
        shape.append(";").append(std::to_string(bound));
    }
    const std::string full = full_name(name, unit, spec.kind == SLUICE_METRIC_COUNTER);
    if (!agrees_with_earlier(full, shape)) {
        return Error{Code::Exists, full + " exists with another kind, labels or buckets"};
    }
    const auto kind = spec.kind == SLUICE_METRIC_COUNTER ? metrics::Kind::Counter
                      : is_histogram                     ? metrics::Kind::Histogram
                                                         : metrics::Kind::Gauge;
    metrics_.push_back(std::make_unique<PluginMetric>(
        full, copy(spec.help, 256), kind, std::move(buckets), std::move(labels),
        metrics::Labels{{"plugin", plugin}, {"instance", instance}}));
    return metrics_.back().get();
}

PluginMetric* MetricBook::find(const sluice_metric* handle) const {
    // The handle is a position, so that anything else is told apart.
    const auto at = reinterpret_cast<std::uintptr_t>(handle);
    return at == 0 || at > metrics_.size() ? nullptr : metrics_[at - 1].get();
}

namespace {

sluice_status declare(const sluice_host* host, const sluice_metric_spec* spec, sluice_metric** out,
                      sluice_error* err) noexcept {
    HostContext& context = HostContext::of(host);
    const auto phase = context.phase();
    if (phase != HostContext::Phase::Idle && phase != HostContext::Phase::Activating) {
        return report(err, SLUICE_E_STATE, "metrics are declared before the end of activate");
    }
    if (spec == nullptr || out == nullptr) {
        return report(err, SLUICE_E_INVALID, "no description or no place for the handle");
    }
    auto metric = context.metric_book().declare(*spec, context.plugin_id(), context.instance());
    if (!metric) {
        const auto code = metric.error().code == Code::Limit ? SLUICE_E_LIMIT : SLUICE_E_INVALID;
        return report(err, code, metric.error().what);
    }
    *out = reinterpret_cast<sluice_metric*>(context.metric_book().size());
    return SLUICE_OK;
}

void record(const sluice_host* host, sluice_metric* handle, double value,
            const sluice_str* label_values, std::uint32_t num_labels) noexcept {
    HostContext& context = HostContext::of(host);
    if (context.phase() == HostContext::Phase::Closed) {
        return;
    }
    if (PluginMetric* metric = context.metric_book().find(handle)) {
        metric->record(value, label_values, num_labels);
    }
}

}  // namespace

const sluice_metrics_api& metrics_service() noexcept {
    static const sluice_metrics_api api{sizeof(sluice_metrics_api), 0, &declare, &record};
    return api;
}

}  // namespace sluice::plugin
