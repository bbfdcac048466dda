#include "sdk/check/scripted_services.hpp"

#include <cstring>

#include "sdk/check/scripted_host.hpp"
#include "sdk/check/text.hpp"

namespace sluice::check {
namespace {

using Phase = ScriptedHost::Phase;

template <class Handle>
Handle* to_handle(std::uint64_t id) noexcept {
    return reinterpret_cast<Handle*>(id);
}
std::uint64_t from_handle(const void* handle) noexcept {
    return reinterpret_cast<std::uint64_t>(handle);
}

sluice_status refuse(sluice_error* err, sluice_status code, const char* text) noexcept {
    if (err != nullptr && SLUICE_HAS(sluice_error, err, msg)) {
        err->code = code;
        err->len = static_cast<std::uint32_t>(std::strlen(text));
        std::memcpy(err->msg, text, err->len);
    }
    return code;
}

// log

// Every service call comes by here.
ScriptedHost& enter(const sluice_host* host) noexcept {
    ScriptedHost& self = ScriptedHost::of(host);
    self.note_call();
    return self;
}

int log_enabled(const sluice_host* host, std::uint32_t) noexcept {
    enter(host);
    return 1;
}

void log_write(const sluice_host* host, std::uint32_t level, sluice_str msg,
               const sluice_pair* fields, std::uint32_t num_fields) noexcept {
    ScriptedHost& self = enter(host);
    if (level != SLUICE_LOG_ERROR && level != SLUICE_LOG_WARN && level != SLUICE_LOG_INFO &&
        level != SLUICE_LOG_DEBUG) {
        self.blame("logs at the unknown level " + std::to_string(level));
    }
    bool is_text = is_utf8(view(msg));
    for (std::uint32_t i = 0; i < num_fields; ++i) {
        is_text = is_text && is_utf8(view(fields[i].key)) && is_utf8(view(fields[i].value));
    }
    if (!is_text) {
        self.blame("logs what is not UTF-8");
    }
}

// metrics

sluice_status metrics_declare(const sluice_host* host, const sluice_metric_spec* spec,
                              sluice_metric** out, sluice_error* err) noexcept {
    ScriptedHost& self = enter(host);
    if (self.phase() == Phase::Closed || !self.may_declare()) {
        self.blame("declares a metric after activate");
        return refuse(err, SLUICE_E_STATE, "metrics are declared before the end of activate");
    }
    if (spec == nullptr || out == nullptr || view(spec->name).empty() ||
        spec->kind < SLUICE_METRIC_COUNTER || spec->kind > SLUICE_METRIC_HISTOGRAM ||
        (spec->kind == SLUICE_METRIC_HISTOGRAM) != (spec->num_buckets > 0)) {
        self.blame("declares an unusable metric");
        return refuse(err, SLUICE_E_INVALID, "unusable metric");
    }
    *out = to_handle<sluice_metric>(++self.num_metrics);
    return SLUICE_OK;
}

void metrics_record(const sluice_host* host, sluice_metric* metric, double value, const sluice_str*,
                    std::uint32_t) noexcept {
    ScriptedHost& self = enter(host);
    const std::uint64_t id = from_handle(metric);
    if (id == 0 || id > self.num_metrics) {
        self.blame("records a metric it did not declare");
    } else if (value != value) {
        self.blame("records what is not a number");
    }
}

// event

int event_here(const sluice_host* host) noexcept {
    return enter(host).is_on_event_thread() ? 1 : 0;
}

sluice_status event_post(const sluice_host* host, sluice_event_fn fn, void* user) noexcept {
    return enter(host).post(fn, user);
}

sluice_status timer_start(const sluice_host* host, std::uint64_t delay_us, std::uint64_t period_us,
                          sluice_event_fn fn, void* user, sluice_timer** out,
                          sluice_error* err) noexcept {
    ScriptedHost& self = enter(host);
    if (!self.may_use_event_service("starts a timer")) {
        return refuse(err, SLUICE_E_STATE, "wrong state or thread");
    }
    if (fn == nullptr || out == nullptr) {
        self.blame("starts a timer without a function or a place for its handle");
        return refuse(err, SLUICE_E_INVALID, "no function or no place for the handle");
    }
    const std::uint64_t id = self.next_handle++;
    self.timers.emplace(id, ScriptedHost::Timer{self.now_us() + delay_us, period_us, fn, user});
    *out = to_handle<sluice_timer>(id);
    return SLUICE_OK;
}

// Cancel and close are allowed from deactivate() on the control thread.
void timer_cancel(const sluice_host* host, sluice_timer* timer) noexcept {
    enter(host).timers.erase(from_handle(timer));
}

std::uint64_t event_now(const sluice_host* host) noexcept {
    return enter(host).now_us();
}

// http

sluice_status http_start(const sluice_host* host, const sluice_http_request* request,
                         sluice_http_fn done, void* user, sluice_http_call** out,
                         sluice_error* err) noexcept {
    ScriptedHost& self = enter(host);
    if (!self.may_use_event_service("starts an HTTP call")) {
        return refuse(err, SLUICE_E_STATE, "wrong state or thread");
    }
    if (request == nullptr || done == nullptr || out == nullptr || view(request->method).empty() ||
        view(request->target).empty()) {
        self.blame("starts an unusable HTTP call");
        return refuse(err, SLUICE_E_INVALID, "unusable call");
    }
    if (request->endpoint != 0 && !self.endpoints().contains(request->endpoint)) {
        self.blame("calls an endpoint it is not attached to");
        return refuse(err, SLUICE_E_NOT_FOUND, "not attached to that endpoint");
    }
    const std::uint64_t id = self.next_handle++;
    self.calls.emplace(id, ScriptedHost::Call{done, user});
    *out = to_handle<sluice_http_call>(id);
    return SLUICE_OK;
}

void http_cancel(const sluice_host* host, sluice_http_call* call) noexcept {
    enter(host).calls.erase(from_handle(call));
}

// zmq

sluice_status zmq_open(const sluice_host* host, const sluice_zmq_options* options,
                       const sluice_zmq_handler* handler, sluice_zmq_socket** out,
                       sluice_error* err) noexcept {
    ScriptedHost& self = enter(host);
    if (!self.may_use_event_service("opens a socket")) {
        return refuse(err, SLUICE_E_STATE, "wrong state or thread");
    }
    if (options == nullptr || handler == nullptr || handler->on_message == nullptr ||
        out == nullptr || (options->kind != SLUICE_ZMQ_SUB && options->kind != SLUICE_ZMQ_DEALER) ||
        !view(options->address).starts_with("tcp://")) {
        self.blame("opens an unusable socket");
        return refuse(err, SLUICE_E_INVALID, "unusable socket");
    }
    const std::uint64_t id = self.next_handle++;
    self.sockets.emplace(id, options->kind);
    *out = to_handle<sluice_zmq_socket>(id);
    return SLUICE_OK;
}

sluice_status zmq_send(const sluice_host* host, sluice_zmq_socket* socket, const sluice_bytes*,
                       std::uint32_t) noexcept {
    ScriptedHost& self = enter(host);
    if (!self.may_use_event_service("sends on a socket")) {
        return SLUICE_E_STATE;
    }
    const auto it = self.sockets.find(from_handle(socket));
    if (it == self.sockets.end() || it->second != SLUICE_ZMQ_DEALER) {
        self.blame("sends on what is not its own DEALER");
        return SLUICE_E_INVALID;
    }
    return SLUICE_AGAIN;  // never connected
}

void zmq_close(const sluice_host* host, sluice_zmq_socket* socket) noexcept {
    enter(host).sockets.erase(from_handle(socket));
}

// fleet and kv

bool may_speak_of(ScriptedHost& self, std::uint64_t endpoint, const char* what) {
    if (!self.may_use_event_service(what)) {
        return false;
    }
    if (!self.endpoints().contains(endpoint)) {
        self.blame(std::string(what) + " of an endpoint it is not attached to");
        return false;
    }
    return true;
}

void fleet_load(const sluice_host* host, const sluice_load* load) noexcept {
    may_speak_of(enter(host), load->endpoint, "reports load");
}
void fleet_health(const sluice_host* host, std::uint64_t endpoint, std::uint32_t state,
                  sluice_str) noexcept {
    ScriptedHost& self = enter(host);
    if (may_speak_of(self, endpoint, "reports health") &&
        (state < SLUICE_HEALTH_READY || state > SLUICE_HEALTH_DOWN)) {
        self.blame("reports the unknown health " + std::to_string(state));
    }
}
void fleet_facts(const sluice_host* host, const sluice_engine_facts* facts) noexcept {
    may_speak_of(enter(host), facts->endpoint, "reports facts");
}
void fleet_models(const sluice_host* host, std::uint64_t endpoint, sluice_array) noexcept {
    may_speak_of(enter(host), endpoint, "reports models");
}
sluice_status kv_apply(const sluice_host* host, const sluice_kv_batch* batch,
                       std::uint32_t* unplaced, sluice_error* err) noexcept {
    if (!may_speak_of(enter(host), batch->endpoint, "applies events")) {
        return refuse(err, SLUICE_E_NOT_FOUND, "not attached to that endpoint");
    }
    if (unplaced != nullptr) {
        *unplaced = 0;
    }
    return SLUICE_OK;
}
void kv_reset(const sluice_host* host, std::uint64_t endpoint, std::uint32_t) noexcept {
    may_speak_of(enter(host), endpoint, "resets the inventory");
}
void kv_report(const sluice_host* host, const sluice_kv_report* report) noexcept {
    may_speak_of(enter(host), report->endpoint, "reports on the events");
}

}  // namespace

const void* scripted_service(const char* id) noexcept {
    static const sluice_log_api log{sizeof log, 0, &log_enabled, &log_write};
    static const sluice_metrics_api metrics{sizeof metrics, 0, &metrics_declare, &metrics_record};
    static const sluice_event_api event{
        sizeof event, 0, &event_here, &event_post, &timer_start, &timer_cancel, &event_now};
    static const sluice_http_api http{sizeof http, 0, &http_start, &http_cancel};
    static const sluice_zmq_api zmq{sizeof zmq, 0, &zmq_open, &zmq_send, &zmq_close};
    static const sluice_fleet_api fleet{sizeof fleet, 0, &fleet_load, &fleet_health, &fleet_facts,
                                        &fleet_models};
    static const sluice_kv_api kv{sizeof kv, 0, &kv_apply, &kv_reset, &kv_report};
    struct Row {
        const char* id;
        const void* table;
    };
    static const Row rows[] = {{SLUICE_SVC_LOG, &log},     {SLUICE_SVC_METRICS, &metrics},
                               {SLUICE_SVC_EVENT, &event}, {SLUICE_SVC_HTTP, &http},
                               {SLUICE_SVC_ZMQ, &zmq},     {SLUICE_SVC_FLEET, &fleet},
                               {SLUICE_SVC_KV, &kv}};
    for (const Row& row : rows) {
        if (std::strcmp(row.id, id) == 0) {
            return row.table;
        }
    }
    return nullptr;
}

}  // namespace sluice::check
