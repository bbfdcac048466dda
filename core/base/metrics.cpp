#include "core/base/metrics.hpp"

#include <algorithm>

namespace sluice::metrics {

Histogram::Histogram(std::vector<double> upper_bounds)
    : bounds_(std::move(upper_bounds)),
      counts_(std::make_unique<std::atomic<std::uint64_t>[]>(bounds_.size() + 1)) {}

void Histogram::observe(double v) noexcept {
    const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), v) - bounds_.begin();
    counts_[static_cast<std::size_t>(at)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(v, std::memory_order_relaxed);
}

std::vector<std::uint64_t> Histogram::counts() const {
    std::vector<std::uint64_t> out(bounds_.size() + 1);
    for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = counts_[i].load(std::memory_order_relaxed);
    }
    return out;
}

Registry::Child& Registry::child(std::string_view name, std::string_view help, Kind kind,
                                 const Labels& labels) {
    auto it = entries_.find(name);
    if (it == entries_.end()) {
        it = entries_.emplace(std::string(name), Entry{std::string(help), kind, {}}).first;
    }
    auto& children = it->second.children;
    if (const auto found = children.find(labels); found != children.end()) {
        return found->second;
    }
    if (children.size() < kMaxChildren) {
        return children[labels];
    }
    Labels other = labels;
    for (auto& label : other) {
        label.second = "other";
    }
    return children[other];
}

Counter& Registry::counter(std::string_view name, std::string_view help, const Labels& labels) {
    const std::lock_guard lock(mu_);
    Child& c = child(name, help, Kind::Counter, labels);
    if (!c.counter) {
        c.counter = std::make_unique<Counter>();
    }
    return *c.counter;
}

Gauge& Registry::gauge(std::string_view name, std::string_view help, const Labels& labels) {
    const std::lock_guard lock(mu_);
    Child& c = child(name, help, Kind::Gauge, labels);
    if (!c.gauge) {
        c.gauge = std::make_unique<Gauge>();
    }
    return *c.gauge;
}

Histogram& Registry::histogram(std::string_view name, std::string_view help,
                               std::vector<double> bounds, const Labels& labels) {
    const std::lock_guard lock(mu_);
    Child& c = child(name, help, Kind::Histogram, labels);
    if (!c.histogram) {
        c.histogram = std::make_unique<Histogram>(std::move(bounds));
    }
    return *c.histogram;
}

std::uint64_t Registry::add_source(Source source) {
    const std::lock_guard lock(mu_);
    sources_.emplace(next_source_, std::move(source));
    return next_source_++;
}

void Registry::remove_source(std::uint64_t id) {
    const std::lock_guard lock(mu_);
    sources_.erase(id);
}

std::vector<Family> Registry::collect() const {
    std::vector<Family> out;
    std::vector<Source> sources;
    {
        const std::lock_guard lock(mu_);
        for (const auto& [name, entry] : entries_) {
            Family family{name, entry.help, entry.kind, {}};
            for (const auto& [labels, c] : entry.children) {
                Sample sample;
                sample.labels = labels;
                if (c.counter) {
                    sample.value = c.counter->value();
                } else if (c.gauge) {
                    sample.value = c.gauge->value();
                } else if (c.histogram) {
                    sample.bounds = c.histogram->bounds();
                    sample.buckets = c.histogram->counts();
                    sample.sum = c.histogram->sum();
                }
                family.samples.push_back(std::move(sample));
            }
            out.push_back(std::move(family));
        }
        for (const auto& [id, source] : sources_) {
            sources.push_back(source);
        }
    }
    for (const Source& source : sources) {
        source(out);
    }
    return out;
}

Registry& registry() {
    static Registry* const r = new Registry;
    return *r;
}

}  // namespace sluice::metrics
