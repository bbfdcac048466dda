// What the running gateway says about itself as a whole.
#include <algorithm>
#include <array>
#include <set>

#include "core/app/live.hpp"
#include "core/base/log.hpp"
#include "core/base/metrics.hpp"
#include "core/json/writer.hpp"

namespace sluice::app {
namespace {

// What an operator may look for, and what this build lacks.
struct Feature {
    const char* name;
    bool is_built;
};

constexpr std::array<Feature, 9> kFeatures = {{
    {"http1", true},
    {"server_sent_events", true},
    {"kv_exact", true},
    {"http2", false},
    {"tls", false},
    {"mtls", false},
    {"pd_disagg", false},
    {"api_keys", false},
    {"io_uring", false},
}};

metrics::Counter& reload_counter(const char* result) {
    return metrics::registry().counter("sluice_config_reloads_total",
                                       "Reloads of the configuration, by how they ended.",
                                       {{"result", result}});
}

}  // namespace

void Live::reloaded(const Settings& settings) {
    settings_.set(std::make_shared<const Settings>(settings));
    reload_counter("ok").add();
    const std::lock_guard lock(mu_);
    ++reloads_.taken;
    reloads_.last_refusal.clear();
}

void Live::reload_refused(const std::string& why) {
    log::error("reload refused, the old configuration stays", {{"reason", why}});
    reload_counter("refused").add();
    const std::lock_guard lock(mu_);
    ++reloads_.refused;
    reloads_.last_refusal = why;
}

std::vector<admin::Capability> Live::capabilities() {
    std::vector<admin::Capability> out;
    for (const Feature& feature : kFeatures) {
        out.push_back({feature.name, feature.is_built, feature.is_built ? "" : "NOT_BUILT"});
    }
    bool has_vllm = false;
    for (const plugin::FileReport& file : registry_.reports()) {
        const bool is_loaded = file.state == plugin::FileState::Loaded;
        for (const plugin::Descriptor& p : file.plugins) {
            const bool is_engine = p.provides_extension(SLUICE_EXT_ENGINE);
            const std::string kind = is_engine ? "engine_" : "selector_";
            out.push_back({kind + (p.alias.empty() ? p.id : p.alias), is_loaded,
                           is_loaded ? "" : "PLUGIN_NOT_LOADED"});
            has_vllm = has_vllm || (is_engine && is_loaded && p.alias == "vllm");
        }
    }
    // No seed is needed here, so only a missing adapter stands in the way.
    out.push_back({"kv_exact_vllm", has_vllm, has_vllm ? "" : "PLUGIN_NOT_LOADED"});
    return out;
}

std::uint64_t Live::in_flight() {
    std::uint64_t out = 0;
    for (const auto& worker : workers_) {
        out += worker->counts().exchanges;
    }
    return out;
}

void Live::refuse_new_requests(bool is_refusing) {
    shared_.is_refusing_new.store(is_refusing, std::memory_order_relaxed);
}

std::string Live::diagnostics_json() {
    std::string out;
    json::Writer w(out);
    const auto settings = settings_.get();
    flow::WorkerCounts sum;
    for (const auto& worker : workers_) {
        const flow::WorkerCounts one = worker->counts();
        sum.connections += one.connections;
        sum.exchanges += one.exchanges;
        sum.accept_pauses += one.accept_pauses;
    }
    Reloads reloads;
    {
        const std::lock_guard lock(mu_);
        reloads = reloads_;
    }
    const std::vector<std::string> unbound = conductor_.unbound();
    w.object([&] {
        w.member("config_file", settings->config_file);
        w.key("settings");
        w.object([&] {
            for (const Shown& one : shown(*settings)) {
                w.member("[" + one.section + "] " + one.key, one.value);
            }
        });
        w.key("reloads");
        w.object([&] {
            w.member("taken", reloads.taken);
            w.member("refused", reloads.refused);
            w.member("last_refusal", reloads.last_refusal);
        });
        w.key("listeners");
        w.array([&] {
            const auto table = book_.table();
            for (const rules::ListenAddress& at : table->listeners()) {
                w.value(at.ip + " " + std::to_string(at.port));
            }
        });
        w.key("unbound");
        w.array([&] {
            for (const std::string& one : unbound) {
                w.value(one);
            }
        });
        w.member("workers", workers_.size());
        w.member("connections", sum.connections);
        w.member("exchanges", sum.exchanges);
        w.member("accept_pauses", sum.accept_pauses);
    });
    return out;
}

}  // namespace sluice::app
