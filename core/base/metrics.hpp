// Counters, gauges and histograms of the whole process, and their collection.
//
// Threads: any. Updates are relaxed atomics; look up a child once and keep the pointer, which is
//          valid for the registry's life. Collection sees each child at some moment of the scrape.
// Limits:  a family has at most kMaxChildren children; further label sets share one child whose
//          label values are all "other" (no label may grow without bound).
// Units:   as the name ends: _total, _seconds, _bytes.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::metrics {

using Labels = std::vector<std::pair<std::string, std::string>>;

class Counter {
public:
    void add(double n = 1) noexcept { value_.fetch_add(n, std::memory_order_relaxed); }
    double value() const noexcept { return value_.load(std::memory_order_relaxed); }

private:
    std::atomic<double> value_{0};
};

class Gauge {
public:
    void set(double v) noexcept { value_.store(v, std::memory_order_relaxed); }
    void add(double n) noexcept { value_.fetch_add(n, std::memory_order_relaxed); }
    double value() const noexcept { return value_.load(std::memory_order_relaxed); }

private:
    std::atomic<double> value_{0};
};

class Histogram {
public:
    explicit Histogram(std::vector<double> upper_bounds);
    void observe(double v) noexcept;
    const std::vector<double>& bounds() const noexcept { return bounds_; }
    // Cumulative is the reader's business: one count a bucket, the last is +Inf.
    std::vector<std::uint64_t> counts() const;
    double sum() const noexcept { return sum_.load(std::memory_order_relaxed); }

private:
    std::vector<double> bounds_;
    std::unique_ptr<std::atomic<std::uint64_t>[]> counts_;
    std::atomic<double> sum_{0};
};

enum class Kind { Counter, Gauge, Histogram };

struct Sample {
    Labels labels;
    double value = 0;                    // counter, gauge
    std::vector<double> bounds;          // histogram
    std::vector<std::uint64_t> buckets;  // histogram, one more than bounds
    double sum = 0;                      // histogram
};

struct Family {
    std::string name;
    std::string help;
    Kind kind = Kind::Counter;
    std::vector<Sample> samples;
};

class Registry {
public:
    static constexpr std::size_t kMaxChildren = 2048;

    // The same name must always come with the same kind. Children appear at their first look-up.
    Counter& counter(std::string_view name, std::string_view help, const Labels& labels = {});
    Gauge& gauge(std::string_view name, std::string_view help, const Labels& labels = {});
    Histogram& histogram(std::string_view name, std::string_view help, std::vector<double> bounds,
                         const Labels& labels = {});
    // Adds families computed at scrape time (endpoint states, inventory sizes). Called without a
    // lock held; `source` must outlive the registry or be removed.
    using Source = std::function<void(std::vector<Family>&)>;
    std::uint64_t add_source(Source source);
    void remove_source(std::uint64_t id);

    std::vector<Family> collect() const;

private:
    struct Child {
        std::unique_ptr<Counter> counter;
        std::unique_ptr<Gauge> gauge;
        std::unique_ptr<Histogram> histogram;
    };
    struct Entry {
        std::string help;
        Kind kind = Kind::Counter;
        std::map<Labels, Child> children;
    };
    Child& child(std::string_view name, std::string_view help, Kind kind, const Labels& labels);

    mutable std::mutex mu_;
    std::map<std::string, Entry, std::less<>> entries_;  // guarded by mu_
    std::map<std::uint64_t, Source> sources_;            // guarded by mu_
    std::uint64_t next_source_ = 1;                      // guarded by mu_
};

// The process-wide registry, never destroyed.
Registry& registry();

}  // namespace sluice::metrics
