// A plugin whose behaviour a test writes as lambdas, a sink that remembers, and a running Runtime.
#pragma once
#include <doctest/doctest.h>
#include <sluice/sdk/engine.h>
#include <sluice/sdk/kv.h>
#include <sluice/sdk/net.h>
#include <sluice/sdk/selector.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/log.hpp"
#include "core/plugin/control_queue.hpp"
#include "core/plugin/engine.hpp"
#include "core/plugin/host_context.hpp"
#include "core/plugin/runtime.hpp"
#include "core/plugin/sdk_text.hpp"
#include "core/plugin/selector.hpp"

namespace sluice::plugin::testing {

inline constexpr auto kSoon = std::chrono::seconds(10);  // a bound, never a wait in a good run

// Log lines of one test, instead of stderr.
class QuietLog {
public:
    QuietLog() {
        log::set_sink([this](log::Level, const std::string& line) {
            const std::lock_guard lock(mu_);
            lines_.push_back(line);
        });
    }
    ~QuietLog() { log::set_sink({}); }
    bool says(std::string_view text) const {
        const std::lock_guard lock(mu_);
        for (const auto& line : lines_) {
            if (line.find(text) != std::string::npos) {
                return true;
            }
        }
        return false;
    }

private:
    mutable std::mutex mu_;
    std::vector<std::string> lines_;
};

// What reached the gateway's side; event thread writes, tests read through Runtime::settle().
class RecordingSink final : public EngineSink {
public:
    std::vector<std::string> calls;

    void load(const sluice_load& load) override {
        calls.push_back("load " + std::to_string(load.endpoint) + " running " +
                        std::to_string(load.running));
    }
    void health(std::uint64_t endpoint, std::uint32_t state, std::string_view why) override {
        calls.push_back("health " + std::to_string(endpoint) + " " + std::to_string(state) + " " +
                        std::string(why));
    }
    void facts(const sluice_engine_facts& facts) override {
        calls.push_back("facts " + std::to_string(facts.endpoint) + " " +
                        std::string(view(facts.version)));
    }
    void models(std::uint64_t endpoint, sluice_array models) override {
        calls.push_back("models " + std::to_string(endpoint) + " x" + std::to_string(models.count));
    }
    sluice_status apply(const sluice_kv_batch& batch, std::uint32_t* unplaced,
                        sluice_error*) override {
        calls.push_back("apply " + std::to_string(batch.endpoint) + " x" +
                        std::to_string(batch.events.count));
        if (unplaced != nullptr) {
            *unplaced = 0;
        }
        return SLUICE_OK;
    }
    void reset(std::uint64_t endpoint, std::uint32_t dp_rank) override {
        calls.push_back("reset " + std::to_string(endpoint) + " " + std::to_string(dp_rank));
    }
    void report(const sluice_kv_report& report) override {
        calls.push_back("report " + std::to_string(report.endpoint) + " why " +
                        std::to_string(report.why));
    }
};

// One fake plugin; alive from its construction on, found by its id.
class Fake {
public:
    using Status = std::function<sluice_status(sluice_error*)>;

    explicit Fake(std::string plugin_id = "org.example.fake") : id(std::move(plugin_id)) {
        book()[id] = this;
        instance.size = sizeof instance;
        instance.impl = this;
        instance.activate = [](sluice_instance* self, sluice_error* err) noexcept {
            Fake& f = of(self);
            return f.on_activate ? f.on_activate(err) : sluice_status{SLUICE_OK};
        };
        instance.deactivate = [](sluice_instance* self) noexcept {
            Fake& f = of(self);
            ++f.deactivated;
            if (f.on_deactivate) {
                f.on_deactivate();
            }
        };
        instance.destroy = [](sluice_instance* self) noexcept {
            ++of(self).destroyed;
        };
        instance.query = [](sluice_instance* self, const char* ext) noexcept -> const void* {
            Fake& f = of(self);
            if (std::strcmp(ext, SLUICE_EXT_ENGINE) == 0) {
                return f.has_engine ? &f.engine_table : nullptr;
            }
            return std::strcmp(ext, SLUICE_EXT_SELECTOR) == 0 && f.has_selector ? &f.selector_table
                                                                                : nullptr;
        };
        make_engine_table();
        make_selector_table();
    }
    ~Fake() { book().erase(id); }
    Fake(const Fake&) = delete;
    Fake& operator=(const Fake&) = delete;

    // The plugin object a registry would have made of it.
    PluginPtr plugin() {
        Descriptor d;
        d.id = id;
        d.name = d.summary = "fake";
        d.version = "1.0.0";
        d.license = "Apache-2.0";
        d.config_schema = schema;
        if (has_engine) {
            d.provides.push_back(SLUICE_EXT_ENGINE);
        }
        if (has_selector) {
            d.provides.push_back(SLUICE_EXT_SELECTOR);
        }
        auto parsed = Schema::parse(schema);
        REQUIRE(parsed.ok());
        entry.size = sizeof entry;
        entry.abi_major = SLUICE_ABI_MAJOR;
        entry.sdk_version = "1.0.0";
        entry.create = [](const sluice_host* its_host, const char* plugin_id, sluice_str fields,
                          sluice_instance** out, sluice_error* err) noexcept -> sluice_status {
            Fake& f = *book().at(plugin_id);
            f.host = its_host;
            f.config = view(fields);
            if (f.on_create) {
                if (const auto status = f.on_create(err); status != SLUICE_OK) {
                    return status;
                }
            }
            *out = &f.instance;
            return SLUICE_OK;
        };
        if (on_check) {
            entry.check = [](const char* plugin_id, const sluice_proposal* in,
                             sluice_verdict_out* out, sluice_error* err) noexcept {
                return book().at(plugin_id)->on_check(*in, *out, err);
            };
        }
        return std::make_shared<const Plugin>(d, std::move(parsed).value(), std::nullopt, &entry,
                                              file_mutex);
    }

    template <class Api>
    const Api& service(const char* service_id) const {
        return *static_cast<const Api*>(host->query(host, service_id));
    }
    const sluice_event_api& events() const { return service<sluice_event_api>(SLUICE_SVC_EVENT); }

    std::string id;
    std::string schema = R"({"type":"object","additionalProperties":false})";
    bool has_engine = false, has_selector = false;
    const sluice_host* host = nullptr;
    std::string config;
    std::atomic<int> deactivated{0}, destroyed{0};
    Status on_create, on_activate;
    std::function<void()> on_deactivate;
    std::function<sluice_status(const sluice_proposal&, sluice_verdict_out&, sluice_error*)>
        on_check;

    sluice_engine_info info{sizeof(sluice_engine_info), SLUICE_CAP_PD, 16, 1, nullptr, nullptr};
    std::function<sluice_status(const sluice_endpoint&, std::uint32_t watch, sluice_error*)>
        on_attach;
    std::function<void(sluice_attachment*)> on_detach;
    std::function<sluice_status(const sluice_request&, sluice_plan&, sluice_error*)> on_plan;

    std::function<sluice_status(const sluice_choice&, std::uint8_t*)> on_filter;
    std::function<sluice_status(const sluice_choice&, float*)> on_score;
    std::function<sluice_status(const sluice_choice&, std::uint32_t*)> on_pick;
    std::atomic<int> prepared{0}, released{0};

    sluice_instance instance{};
    sluice_plugin_entry entry{};
    sluice_engine engine_table{};
    sluice_selector selector_table{};
    std::shared_ptr<std::mutex> file_mutex = std::make_shared<std::mutex>();

    static Fake& of(sluice_instance* self) noexcept { return *static_cast<Fake*>(self->impl); }

private:
    static std::map<std::string, Fake*, std::less<>>& book() {
        static std::map<std::string, Fake*, std::less<>> all;
        return all;
    }

    void make_engine_table() {
        engine_table.size = sizeof engine_table;
        engine_table.info = [](sluice_instance* self) noexcept -> const sluice_engine_info* {
            return &of(self).info;
        };
        engine_table.attach = [](sluice_instance* self, const sluice_endpoint* endpoint,
                                 std::uint32_t watch, sluice_attachment** out,
                                 sluice_error* err) noexcept -> sluice_status {
            Fake& f = of(self);
            if (f.on_attach) {
                if (const auto status = f.on_attach(*endpoint, watch, err); status != SLUICE_OK) {
                    return status;
                }
            }
            // Any address that is not null and tells attachments apart.
            *out = reinterpret_cast<sluice_attachment*>(endpoint->id + 1000U * watch);
            return SLUICE_OK;
        };
        engine_table.detach = [](sluice_instance* self, sluice_attachment* at) noexcept {
            Fake& f = of(self);
            if (f.on_detach) {
                f.on_detach(at);
            }
        };
        engine_table.plan = [](sluice_instance* self, const sluice_request* request,
                               sluice_plan* out, sluice_error* err) noexcept {
            Fake& f = of(self);
            return f.on_plan ? f.on_plan(*request, *out, err) : sluice_status{SLUICE_OK};
        };
        engine_table.build_leg = [](sluice_instance*, const sluice_leg*, sluice_leg_out*,
                                    sluice_error*) noexcept -> sluice_status {
            return SLUICE_OK;
        };
        engine_table.on_reply = [](sluice_instance*, const sluice_leg*, const sluice_reply*,
                                   sluice_reply_out* out, sluice_error*) noexcept -> sluice_status {
            out->next = SLUICE_NEXT_CONTINUE;
            return SLUICE_OK;
        };
    }

    void make_selector_table() {
        selector_table.size = sizeof selector_table;
        selector_table.prepare = [](sluice_instance* self, sluice_array, sluice_view** out,
                                    sluice_error*) noexcept -> sluice_status {
            const auto n = static_cast<std::uintptr_t>(++of(self).prepared);
            *out = reinterpret_cast<sluice_view*>(n);
            return SLUICE_OK;
        };
        selector_table.release = [](sluice_instance* self, sluice_view*) noexcept {
            ++of(self).released;
        };
        selector_table.filter = [](sluice_instance* self, const sluice_choice* c,
                                   std::uint8_t* keep) noexcept -> sluice_status {
            Fake& f = of(self);
            return f.on_filter ? f.on_filter(*c, keep) : sluice_status{SLUICE_PASS};
        };
        selector_table.score = [](sluice_instance* self, const sluice_choice* c,
                                  float* score) noexcept -> sluice_status {
            Fake& f = of(self);
            return f.on_score ? f.on_score(*c, score) : sluice_status{SLUICE_PASS};
        };
        selector_table.pick = [](sluice_instance* self, const sluice_choice* c,
                                 std::uint32_t* index) noexcept -> sluice_status {
            Fake& f = of(self);
            return f.on_pick ? f.on_pick(*c, index) : sluice_status{SLUICE_PASS};
        };
    }
};

// A runtime that runs for the length of a test.
struct Running {
    explicit Running(RuntimeOptions options = {}) : runtime(sink, std::move(options)) {
        REQUIRE(runtime.start().ok());
    }
    ~Running() { runtime.stop(); }

    template <class Instance>
    std::shared_ptr<Instance> active(Fake& fake, std::string name = "fake-1",
                                     std::function<void(const std::string&)> on_fault = {}) {
        auto made =
            Instance::create(runtime, fake.plugin(), {std::move(name), "{}", std::move(on_fault)});
        REQUIRE(made.ok());
        REQUIRE((*made)->activate().ok());
        return *made;
    }
    // Runs on the event thread, and waits for it.
    template <class F>
    void on_event(F&& f) {
        REQUIRE(runtime.events().run(std::forward<F>(f)).ok());
    }

    QuietLog log;
    RecordingSink sink;
    Runtime runtime;
};

// Set on one thread, awaited with a bound on another.
class Signal {
public:
    void set() { promise_.set_value(); }
    bool wait() { return future_.wait_for(kSoon) == std::future_status::ready; }

private:
    std::promise<void> promise_;
    std::future<void> future_ = promise_.get_future();
};

inline sluice_candidate row(std::uint64_t endpoint, std::uint32_t inflight = 0,
                            std::uint32_t excluded = 0) {
    sluice_candidate c{};
    c.size = sizeof c;
    c.excluded = excluded;
    c.endpoint = endpoint;
    c.dp_rank = SLUICE_ANY;
    c.weight = 1;
    c.inflight = inflight;
    c.kv_used_ratio = -1;
    c.load_age_us = UINT64_MAX;
    return c;
}

}  // namespace sluice::plugin::testing
