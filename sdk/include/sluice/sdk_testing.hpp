// A scripted host for a plugin's own tests: no sockets, no clock but the one the test turns.
//
// HTTP answers are scripted by target, ZMQ sockets are fed frames by hand, timers run when the test
// advances the clock, and everything a plugin says (logs, metrics, load, health, facts, models, KV
// batches, resets, reports) is copied into plain vectors. Completions are never delivered inside
// the call that asked for them, as in the gateway.
//
// Threads: one; a plugin's request functions may be called from others, they reach no fake service
//          but the log.
// Owns:    what a plugin started and has not ended: leftovers() names it.
#pragma once
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "sluice/sdk.hpp"

namespace sluice::testing {

struct HttpReply {
    sluice_status status = SLUICE_OK;
    std::uint32_t code = 200;
    std::string body;
    std::vector<std::pair<std::string, std::string>> headers;
};
struct HttpSeen {
    std::uint64_t endpoint = 0;
    std::string method, target, body;
    std::uint64_t timeout_us = 0;
};

struct FakeSocket {
    std::uint32_t kind = 0, dp_rank = 0, hwm = 0;
    std::uint64_t endpoint = 0;
    std::string address, topic;
    sluice_zmq_handler handler{};
    std::vector<std::vector<std::string>> sent;
    bool is_open = true;
    sluice_status send_answer = SLUICE_OK;
};

struct KvEventSeen {
    std::uint32_t type = 0, flags = 0, tier = 0, group = 0, block_tokens = 0;
    std::vector<std::uint64_t> hashes;
    std::vector<std::uint32_t> tokens;
    std::vector<std::uint8_t> opaque;
    std::uint64_t parent = 0;
    std::string lora, salt;
};
// One call of the kv service, in order.
struct KvSeen {
    enum class What { Apply, Reset, Report } what = What::Apply;
    std::uint64_t endpoint = 0, seq = 0, count = 0;
    std::uint32_t dp_rank = 0, state = 0, why = 0;
    std::vector<KvEventSeen> events;
    std::string detail, reason, advice;
};
struct HealthSeen {
    std::uint64_t endpoint = 0;
    std::uint32_t state = 0;
    std::string why;
};
struct FactsSeen {
    sluice_engine_facts facts{};
    std::string version;
};
struct ModelSeen {
    std::uint32_t kind = 0;
    std::string name, parent;
};
struct LogSeen {
    std::uint32_t level = 0;
    std::string message;
    std::map<std::string, std::string> fields;
};

class FakeHost {
public:
    FakeHost() {
        host_.size = sizeof host_;
        host_.abi_major = SLUICE_ABI_MAJOR;
        host_.abi_minor = SLUICE_TARGET_MINOR;
        host_.ctx = this;
        host_.name = "fake";
        host_.version = "0";
        host_.query = &query;
        host_.fail = [](const sluice_host* h, sluice_status, sluice_str msg) {
            self(h).failures.emplace_back(view(msg));
        };
        fill_tables();
    }
    FakeHost(const FakeHost&) = delete;
    FakeHost& operator=(const FakeHost&) = delete;

    const sluice_host* raw() const noexcept { return &host_; }

    // Services asked for from now on are NULL.
    void withhold(const std::string& service_id) { withheld_.insert(service_id); }

    // The answer to every GET, POST.. of this target, until it is set again.
    void answer(const std::string& target, HttpReply reply) {
        scripts_[target] = [reply](const HttpSeen&) {
            return reply;
        };
    }
    void answer(const std::string& target, std::function<HttpReply(const HttpSeen&)> fn) {
        scripts_[target] = std::move(fn);
    }
    // Calls of this target stay unanswered until the next answer() and run().
    void hold(const std::string& target) { scripts_.erase(target); }

    // Delivers posts and HTTP answers until nothing more is due now.
    void run() {
        bool worked = true;
        while (worked) {
            worked = false;
            while (!posts_.empty()) {
                const auto [fn, user] = posts_.front();
                posts_.pop_front();
                fn(user);
                worked = true;
            }
            for (std::size_t i = 0; i < calls_.size(); ++i) {
                const auto script = scripts_.find(calls_[i]->seen.target);
                if (script == scripts_.end()) {
                    continue;
                }
                const std::unique_ptr<Call> call = std::move(calls_[i]);
                calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(i));
                finish(*call, script->second(call->seen));
                worked = true;
                break;
            }
        }
    }
    // Turns the clock; timers run at their time, in order.
    void advance(std::uint64_t us) {
        const std::uint64_t end = now_us_ + us;
        run();
        for (;;) {
            const auto next = std::min_element(
                timers_.begin(), timers_.end(),
                [](const auto& a, const auto& b) { return a->due_us < b->due_us; });
            if (next == timers_.end() || (*next)->due_us > end) {
                break;
            }
            Timer& timer = **next;
            now_us_ = std::max(now_us_, timer.due_us);
            timer.due_us = timer.period_us == 0 ? UINT64_MAX : timer.due_us + timer.period_us;
            timer.fn(timer.user);  // may cancel itself or others
            run();
        }
        now_us_ = end;
        run();
    }
    std::uint64_t now_us() const noexcept { return now_us_; }

    // The open socket of that kind and address, or NULL.
    FakeSocket* socket(std::uint32_t kind, const std::string& address) {
        for (const auto& s : sockets) {
            if (s->is_open && s->kind == kind && s->address == address) {
                return s.get();
            }
        }
        return nullptr;
    }
    void link(FakeSocket& s, bool connected) {
        if (s.is_open && s.handler.on_link != nullptr) {
            s.handler.on_link(s.handler.user, connected ? 1 : 0);
        }
    }
    void feed(FakeSocket& s, const std::vector<std::string>& frames) {
        std::vector<sluice_bytes> raw;
        for (const std::string& f : frames) {
            // A copy of exact size, so that a sanitizer sees a read past the end.
            raw.push_back(borrow_bytes(f));
        }
        if (s.is_open) {
            s.handler.on_message(s.handler.user, raw.data(),
                                 static_cast<std::uint32_t>(raw.size()));
        }
    }

    // What a plugin started and has not ended, one line each.
    std::vector<std::string> leftovers() const {
        std::vector<std::string> out;
        for (const auto& t : timers_) {
            out.push_back("timer due at " + std::to_string(t->due_us));
        }
        for (const auto& c : calls_) {
            out.push_back("call of " + c->seen.target);
        }
        for (const auto& s : sockets) {
            if (s->is_open) {
                out.push_back("socket to " + s->address);
            }
        }
        return out;
    }
    // Reports with that reason.
    std::vector<KvSeen> reports(std::string_view reason) const {
        std::vector<KvSeen> out;
        std::copy_if(kv.begin(), kv.end(), std::back_inserter(out), [&](const KvSeen& k) {
            return k.what == KvSeen::What::Report && k.reason == reason;
        });
        return out;
    }

    std::vector<HttpSeen> requests;
    std::vector<std::shared_ptr<FakeSocket>> sockets;
    std::vector<KvSeen> kv;
    std::vector<sluice_load> loads;
    std::vector<HealthSeen> health;
    std::vector<FactsSeen> facts;
    std::vector<std::vector<ModelSeen>> models;
    std::vector<std::string> failures;
    std::map<std::string, double> metrics;  // counters summed, the rest as last recorded
    // The answer of the next apply() calls.
    sluice_status apply_answer = SLUICE_OK;
    std::uint32_t apply_unplaced = 0;

    std::vector<LogSeen> logs() const {
        const std::lock_guard lock(log_mu_);
        return logs_;
    }

private:
    struct Timer {
        std::uint64_t due_us = 0, period_us = 0;
        sluice_event_fn fn = nullptr;
        void* user = nullptr;
    };
    struct Call {
        HttpSeen seen;
        sluice_http_fn done = nullptr;
        void* user = nullptr;
    };
    struct Metric {
        std::string name;
        std::uint32_t kind = 0;
    };

    static FakeHost& self(const sluice_host* h) noexcept { return *static_cast<FakeHost*>(h->ctx); }

    static const void* query(const sluice_host* h, const char* id) {
        FakeHost& f = self(h);
        if (f.withheld_.contains(id)) {
            return nullptr;
        }
        const std::map<std::string_view, const void*> tables{
            {SLUICE_SVC_LOG, &f.log_},     {SLUICE_SVC_METRICS, &f.metrics_},
            {SLUICE_SVC_EVENT, &f.event_}, {SLUICE_SVC_HTTP, &f.http_},
            {SLUICE_SVC_ZMQ, &f.zmq_},     {SLUICE_SVC_FLEET, &f.fleet_},
            {SLUICE_SVC_KV, &f.kv_}};
        const auto found = tables.find(id);
        return found == tables.end() ? nullptr : found->second;
    }

    static void finish(const Call& call, const HttpReply& reply) {
        std::vector<sluice_pair> headers;
        for (const auto& [name, value] : reply.headers) {
            headers.push_back({borrow(name), borrow(value)});
        }
        sluice_http_result result{};
        result.size = sizeof result;
        result.status = reply.status;
        result.http_code = reply.code;
        result.num_headers = static_cast<std::uint32_t>(headers.size());
        result.headers = headers.data();
        result.body = borrow_bytes(reply.body);
        call.done(call.user, &result);
    }

    void fill_tables() {
        log_ = {sizeof log_, 0, [](const sluice_host*, std::uint32_t) { return 1; }, &write_log};
        metrics_ = {sizeof metrics_, 0, &declare_metric, &record_metric};
        event_ = {sizeof event_,
                  0,
                  [](const sluice_host*) { return 1; },
                  [](const sluice_host* h, sluice_event_fn fn, void* user) -> sluice_status {
                      self(h).posts_.emplace_back(fn, user);
                      return SLUICE_OK;
                  },
                  &start_timer,
                  &cancel_timer,
                  [](const sluice_host* h) {
                      return self(h).now_us_;
                  }};
        http_ = {sizeof http_, 0, &start_call, &cancel_call};
        zmq_ = {sizeof zmq_, 0, &open_socket, &send_frames, &close_socket};
        fleet_ = {
            sizeof fleet_,
            0,
            [](const sluice_host* h, const sluice_load* load) { self(h).loads.push_back(*load); },
            [](const sluice_host* h, std::uint64_t endpoint, std::uint32_t state, sluice_str why) {
                self(h).health.push_back({endpoint, state, std::string(view(why))});
            },
            [](const sluice_host* h, const sluice_engine_facts* f) {
                self(h).facts.push_back({*f, std::string(view(f->version))});
            },
            &see_models};
        kv_ = {sizeof kv_, 0, &apply,
               [](const sluice_host* h, std::uint64_t endpoint, std::uint32_t dp_rank) {
                   KvSeen seen;
                   seen.what = KvSeen::What::Reset;
                   seen.endpoint = endpoint;
                   seen.dp_rank = dp_rank;
                   self(h).kv.push_back(std::move(seen));
               },
               &see_report};
    }

    static void write_log(const sluice_host* h, std::uint32_t level, sluice_str msg,
                          const sluice_pair* fields, std::uint32_t num_fields) {
        FakeHost& f = self(h);
        LogSeen seen{level, std::string(view(msg)), {}};
        for (std::uint32_t i = 0; i < num_fields; ++i) {
            seen.fields[std::string(view(fields[i].key))] = view(fields[i].value);
        }
        const std::lock_guard lock(f.log_mu_);
        f.logs_.push_back(std::move(seen));
    }
    static sluice_status declare_metric(const sluice_host* h, const sluice_metric_spec* spec,
                                        sluice_metric** out, sluice_error*) {
        FakeHost& f = self(h);
        f.declared_.push_back(
            std::make_unique<Metric>(Metric{std::string(view(spec->name)), spec->kind}));
        *out = reinterpret_cast<sluice_metric*>(f.declared_.back().get());
        return SLUICE_OK;
    }
    static void record_metric(const sluice_host* h, sluice_metric* metric, double value,
                              const sluice_str* labels, std::uint32_t num_labels) {
        const Metric& m = *reinterpret_cast<Metric*>(metric);
        std::string key = m.name;
        for (std::uint32_t i = 0; i < num_labels; ++i) {
            key += '|';
            key += view(labels[i]);
        }
        double& slot = self(h).metrics[key];
        slot = m.kind == SLUICE_METRIC_COUNTER ? slot + value : value;
    }
    static sluice_status start_timer(const sluice_host* h, std::uint64_t delay_us,
                                     std::uint64_t period_us, sluice_event_fn fn, void* user,
                                     sluice_timer** out, sluice_error*) {
        FakeHost& f = self(h);
        f.timers_.push_back(
            std::make_unique<Timer>(Timer{f.now_us_ + delay_us, period_us, fn, user}));
        *out = reinterpret_cast<sluice_timer*>(f.timers_.back().get());
        return SLUICE_OK;
    }
    static void cancel_timer(const sluice_host* h, sluice_timer* timer) {
        std::erase_if(self(h).timers_,
                      [&](const auto& t) { return t.get() == reinterpret_cast<Timer*>(timer); });
    }
    static sluice_status start_call(const sluice_host* h, const sluice_http_request* req,
                                    sluice_http_fn done, void* user, sluice_http_call** out,
                                    sluice_error*) {
        FakeHost& f = self(h);
        auto call = std::make_unique<Call>();
        call->seen = {req->endpoint, std::string(view(req->method)), std::string(view(req->target)),
                      std::string(text(req->body)), req->timeout_us};
        call->done = done;
        call->user = user;
        f.requests.push_back(call->seen);
        *out = reinterpret_cast<sluice_http_call*>(call.get());
        f.calls_.push_back(std::move(call));
        return SLUICE_OK;
    }
    static void cancel_call(const sluice_host* h, sluice_http_call* call) {
        std::erase_if(self(h).calls_,
                      [&](const auto& c) { return c.get() == reinterpret_cast<Call*>(call); });
    }
    static sluice_status open_socket(const sluice_host* h, const sluice_zmq_options* o,
                                     const sluice_zmq_handler* handler, sluice_zmq_socket** out,
                                     sluice_error*) {
        auto s = std::make_shared<FakeSocket>();
        s->kind = o->kind;
        s->dp_rank = o->dp_rank;
        s->hwm = o->hwm;
        s->endpoint = o->endpoint;
        s->address = view(o->address);
        s->topic = view(o->topic);
        s->handler = *handler;
        *out = reinterpret_cast<sluice_zmq_socket*>(s.get());
        self(h).sockets.push_back(std::move(s));
        return SLUICE_OK;
    }
    static sluice_status send_frames(const sluice_host*, sluice_zmq_socket* socket,
                                     const sluice_bytes* frames, std::uint32_t count) {
        FakeSocket& s = *reinterpret_cast<FakeSocket*>(socket);
        if (s.send_answer != SLUICE_OK) {
            return s.send_answer;
        }
        auto& message = s.sent.emplace_back();
        for (std::uint32_t i = 0; i < count; ++i) {
            message.emplace_back(text(frames[i]));
        }
        return SLUICE_OK;
    }
    static void close_socket(const sluice_host*, sluice_zmq_socket* socket) {
        reinterpret_cast<FakeSocket*>(socket)->is_open = false;
    }
    static void see_models(const sluice_host* h, std::uint64_t, sluice_array models) {
        auto& list = self(h).models.emplace_back();
        for (const sluice_model_info& m : Rows<sluice_model_info>{models}) {
            list.push_back({m.kind, std::string(view(m.name)), std::string(view(m.parent))});
        }
    }
    static sluice_status apply(const sluice_host* h, const sluice_kv_batch* batch,
                               std::uint32_t* unplaced, sluice_error* err) {
        FakeHost& f = self(h);
        if (f.apply_answer != SLUICE_OK) {
            return sluice::report(err, f.apply_answer, "scripted");
        }
        KvSeen seen;
        seen.endpoint = batch->endpoint;
        seen.dp_rank = batch->dp_rank;
        seen.seq = batch->seq;
        for (const sluice_kv_event& e : Rows<sluice_kv_event>{batch->events}) {
            KvEventSeen copy;
            copy.type = e.type;
            copy.flags = e.flags;
            copy.tier = e.tier;
            copy.group = e.group;
            copy.block_tokens = e.block_tokens;
            copy.hashes.assign(e.hashes, e.hashes + e.num_hashes);
            copy.tokens.assign(e.tokens, e.tokens + e.num_tokens);
            if (e.opaque != nullptr) {
                copy.opaque.assign(e.opaque, e.opaque + e.num_hashes);
            }
            copy.parent = e.parent;
            copy.lora = view(e.lora);
            copy.salt = view(e.salt);
            seen.events.push_back(std::move(copy));
        }
        f.kv.push_back(std::move(seen));
        if (unplaced != nullptr) {
            *unplaced = f.apply_unplaced;
        }
        return SLUICE_OK;
    }
    static void see_report(const sluice_host* h, const sluice_kv_report* r) {
        KvSeen seen;
        seen.what = KvSeen::What::Report;
        seen.endpoint = r->endpoint;
        seen.dp_rank = r->dp_rank;
        seen.state = r->state;
        seen.why = r->why;
        seen.count = r->count;
        seen.detail = view(r->detail);
        seen.reason = view(r->reason);
        seen.advice = view(r->advice);
        self(h).kv.push_back(std::move(seen));
    }

    sluice_host host_{};
    sluice_log_api log_{};
    sluice_metrics_api metrics_{};
    sluice_event_api event_{};
    sluice_http_api http_{};
    sluice_zmq_api zmq_{};
    sluice_fleet_api fleet_{};
    sluice_kv_api kv_{};
    std::uint64_t now_us_ = 1'000'000;
    std::set<std::string, std::less<>> withheld_;
    std::map<std::string, std::function<HttpReply(const HttpSeen&)>> scripts_;
    std::deque<std::pair<sluice_event_fn, void*>> posts_;
    std::vector<std::unique_ptr<Timer>> timers_;
    std::vector<std::unique_ptr<Call>> calls_;
    std::vector<std::unique_ptr<Metric>> declared_;
    mutable std::mutex log_mu_;
    std::vector<LogSeen> logs_;
};

}  // namespace sluice::testing
