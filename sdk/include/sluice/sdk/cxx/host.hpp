// The host's services, typed: log, metrics, event, http, zmq, fleet, kv.
//
// A Host is two pointers wide in spirit and cheap to copy; a service the gateway does not have
// answers SLUICE_E_UNSUPPORTED, or does nothing where the C function returns void.
// Timer, HttpCall and ZmqSocket own what they start: destroying one cancels it, also from inside
// its own callback.
//
// Threads: as the C functions: log, metrics and now_us any, the rest the event thread.
// Errors:  starting something returns a Started that is false with code and text; an exception
//          that leaves a callback is logged at error level and goes no further.
// Owns:    a callback is kept until it ran (HttpCall, one-shot Timer) or its owner is gone.
#pragma once
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <vector>

#include "sluice/sdk/cxx/core.hpp"
#include "sluice/sdk/fleet.h"
#include "sluice/sdk/host.h"
#include "sluice/sdk/kv.h"
#include "sluice/sdk/net.h"

namespace sluice {

// One key of a log line. Numbers are spelled here, texts are borrowed for the call only.
class Field {
public:
    Field(std::string_view key, std::string_view value) : key_(key), value_(value) {}
    Field(std::string_view key, const char* value) : key_(key), value_(value) {}
    Field(std::string_view key, const std::string& value) : key_(key), value_(value) {}
    template <class N>
        requires std::is_arithmetic_v<N>
    Field(std::string_view key, N value) : key_(key), own_(spell(value)), value_(own_) {}
    Field(const Field&) = delete;
    Field& operator=(const Field&) = delete;
    sluice_pair pair() const noexcept { return {borrow(key_), borrow(value_)}; }

private:
    template <class N>
    static std::string spell(N value) {
        if constexpr (std::is_same_v<N, bool>) {
            return value ? "true" : "false";
        } else if constexpr (std::is_floating_point_v<N>) {
            char buf[32];
            return {buf,
                    static_cast<std::size_t>(std::snprintf(buf, sizeof buf, "%g", double{value}))};
        } else {
            return std::to_string(value);
        }
    }
    std::string_view key_;
    std::string own_;
    std::string_view value_;
};

// The result of starting something, or of a call that can fail. True on success.
struct Started {
    sluice_status code = SLUICE_OK;
    std::string what;
    explicit operator bool() const noexcept { return code == SLUICE_OK; }
};

class Host {
public:
    Host() noexcept = default;
    explicit Host(const sluice_host* host) noexcept
        : host_(host),
          log_(find<sluice_log_api>(SLUICE_SVC_LOG)),
          metrics_(find<sluice_metrics_api>(SLUICE_SVC_METRICS)),
          event_(find<sluice_event_api>(SLUICE_SVC_EVENT)),
          http_(find<sluice_http_api>(SLUICE_SVC_HTTP)),
          zmq_(find<sluice_zmq_api>(SLUICE_SVC_ZMQ)),
          fleet_(find<sluice_fleet_api>(SLUICE_SVC_FLEET)),
          kv_(find<sluice_kv_api>(SLUICE_SVC_KV)) {}

    const sluice_host* raw() const noexcept { return host_; }
    const sluice_event_api* event() const noexcept { return event_; }
    const sluice_http_api* http() const noexcept { return http_; }
    const sluice_zmq_api* zmq() const noexcept { return zmq_; }
    const sluice_kv_api* kv() const noexcept { return kv_; }
    const sluice_fleet_api* fleet() const noexcept { return fleet_; }

    // [any] A service of another kind, or NULL.
    template <class Api>
    const Api* find(const char* service_id) const noexcept {
        return host_ == nullptr ? nullptr
                                : static_cast<const Api*>(host_->query(host_, service_id));
    }
    void fail(sluice_status why, std::string_view msg) const noexcept {
        if (host_ != nullptr) {
            host_->fail(host_, why, borrow(msg));
        }
    }

    // Log. Messages are constant, data goes into fields; secrets and prompt text never do.
    bool logs(std::uint32_t level) const noexcept {
        return log_ != nullptr && log_->enabled(host_, level) != 0;
    }
    void log(std::uint32_t level, std::string_view msg,
             std::initializer_list<Field> fields = {}) const noexcept {
        if (!logs(level)) {
            return;
        }
        sluice_pair pairs[kMaxFields];
        std::uint32_t n = 0;
        for (const Field& f : fields) {
            if (n < kMaxFields) {
                pairs[n++] = f.pair();
            }
        }
        log_->write(host_, level, borrow(msg), pairs, n);
    }
    void error(std::string_view m, std::initializer_list<Field> f = {}) const noexcept {
        log(SLUICE_LOG_ERROR, m, f);
    }
    void warn(std::string_view m, std::initializer_list<Field> f = {}) const noexcept {
        log(SLUICE_LOG_WARN, m, f);
    }
    void info(std::string_view m, std::initializer_list<Field> f = {}) const noexcept {
        log(SLUICE_LOG_INFO, m, f);
    }
    void debug(std::string_view m, std::initializer_list<Field> f = {}) const noexcept {
        log(SLUICE_LOG_DEBUG, m, f);
    }

    // Metrics. A metric that could not be declared is NULL; recording into it does nothing.
    sluice_metric* declare(std::uint32_t kind, std::string_view name, std::string_view unit,
                           std::string_view help, std::span<const std::string_view> labels = {},
                           std::span<const double> buckets = {}) const {
        if (metrics_ == nullptr) {
            return nullptr;
        }
        std::vector<sluice_str> names;
        for (std::string_view label : labels) {
            names.push_back(borrow(label));
        }
        sluice_metric_spec spec{};
        spec.size = sizeof spec;
        spec.kind = kind;
        spec.name = borrow(name);
        spec.unit = borrow(unit);
        spec.help = borrow(help);
        spec.buckets = buckets.data();
        spec.num_buckets = static_cast<std::uint32_t>(buckets.size());
        spec.num_labels = static_cast<std::uint32_t>(names.size());
        spec.label_names = names.data();
        sluice_metric* out = nullptr;
        return metrics_->declare(host_, &spec, &out, nullptr) == SLUICE_OK ? out : nullptr;
    }
    void record(sluice_metric* metric, double value,
                std::initializer_list<std::string_view> labels = {}) const noexcept {
        if (metrics_ == nullptr || metric == nullptr) {
            return;
        }
        sluice_str values[kMaxFields];
        std::uint32_t n = 0;
        for (std::string_view label : labels) {
            if (n < kMaxFields) {
                values[n++] = borrow(label);
            }
        }
        metrics_->record(host_, metric, value, values, n);
    }

    // Events.
    std::uint64_t now_us() const noexcept { return event_ == nullptr ? 0 : event_->now_us(host_); }
    bool on_event_thread() const noexcept {
        return event_ != nullptr && event_->on_event_thread(host_) != 0;
    }
    sluice_status post(sluice_event_fn fn, void* user) const noexcept {
        return event_ == nullptr ? SLUICE_E_UNSUPPORTED : event_->post(host_, fn, user);
    }

    // Fleet. `size` of the given structs is set here.
    void load(sluice_load sample) const noexcept {
        sample.size = sizeof sample;
        if (fleet_ != nullptr) {
            fleet_->load(host_, &sample);
        }
    }
    void health(std::uint64_t endpoint, std::uint32_t state, std::string_view why) const noexcept {
        if (fleet_ != nullptr) {
            fleet_->health(host_, endpoint, state, borrow(why));
        }
    }
    void facts(sluice_engine_facts facts) const noexcept {
        facts.size = sizeof facts;
        if (fleet_ != nullptr) {
            fleet_->facts(host_, &facts);
        }
    }
    void models(std::uint64_t endpoint, std::span<const sluice_model_info> models) const noexcept {
        if (fleet_ != nullptr) {
            fleet_->models(host_, endpoint, array_of(models));
        }
    }

    // KV. `unplaced` may be NULL.
    Started apply(sluice_kv_batch batch, std::uint32_t* unplaced = nullptr) const {
        batch.size = sizeof batch;
        if (kv_ == nullptr) {
            return {SLUICE_E_UNSUPPORTED, "no kv service"};
        }
        sluice_error err = make_error();
        const sluice_status status = kv_->apply(host_, &batch, unplaced, &err);
        return status == SLUICE_OK ? Started{} : Started{status, std::string(view(err))};
    }
    void reset(std::uint64_t endpoint, std::uint32_t dp_rank) const noexcept {
        if (kv_ != nullptr) {
            kv_->reset(host_, endpoint, dp_rank);
        }
    }
    void report(sluice_kv_report report) const noexcept {
        report.size = sizeof report;
        if (kv_ != nullptr) {
            kv_->report(host_, &report);
        }
    }

    // Runs a callback; what it throws ends here.
    template <class F>
    void contain(F&& f) const noexcept {
        sluice_error err = make_error();
        const sluice_status status = guard(&err, [&] {
            f();
            return SLUICE_OK;
        });
        if (status != SLUICE_OK && log_ != nullptr) {
            const sluice_pair why{borrow("error"), borrow(view(err))};
            log_->write(host_, SLUICE_LOG_ERROR, borrow("callback failed"), &why, 1);
        }
    }

private:
    static constexpr std::uint32_t kMaxFields = 16;
    const sluice_host* host_ = nullptr;
    const sluice_log_api* log_ = nullptr;
    const sluice_metrics_api* metrics_ = nullptr;
    const sluice_event_api* event_ = nullptr;
    const sluice_http_api* http_ = nullptr;
    const sluice_zmq_api* zmq_ = nullptr;
    const sluice_fleet_api* fleet_ = nullptr;
    const sluice_kv_api* kv_ = nullptr;
};

}  // namespace sluice
