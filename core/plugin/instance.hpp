// A configured plugin: created, activated, deactivated, destroyed, in that order.
//
// Reconfiguration is a new instance beside the old one; the old one ends when the last reference
// to it is dropped, on whatever thread: deactivate() and destroy() then run on the control queue.
//
// Threads: control, unless a function says otherwise.
// Errors:  create() and activate() carry the plugin's own words. E_INTERNAL three times within
//          60 s or the plugin's fail() makes the instance faulted: it gets no calls any more but
//          deactivate and destroy, and on_fault is told once.
#pragma once
#include <sluice/sdk/plugin.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "core/plugin/plugin.hpp"

namespace sluice::plugin {

class HostContext;
class Runtime;

struct InstanceSpec {
    std::string name;    // label `instance` of metrics and logs; unique, bounded in number
    std::string config;  // Verdict::config
    // On the control queue, at most once. Gets the plugin's last message.
    std::function<void(const std::string& why)> on_fault;
};

class Instance {
public:
    virtual ~Instance();
    Instance(const Instance&) = delete;
    Instance& operator=(const Instance&) = delete;

    Status activate();

    const PluginPtr& plugin() const noexcept { return plugin_; }
    const std::string& name() const noexcept;
    // [any]
    bool is_active() const noexcept;
    bool is_faulted() const noexcept;
    std::string fault_text() const;
    // Times this instance broke the contract: leftovers, refused rows picked, wrong threads.
    std::uint64_t defects() const noexcept;
    // [any] Extension table by id; null when not provided.
    const void* query(const char* extension_id) const;

    Runtime& runtime() const noexcept { return runtime_; }
    HostContext& host() const noexcept { return *host_; }

protected:
    Instance(Runtime& runtime, PluginPtr plugin, InstanceSpec spec);
    // Calls the plugin's create() and looks up `extension_id`; the table's size must reach
    // `min_table_size`.
    Status create(const char* extension_id, std::size_t min_table_size);
    // [any] Sees a status returned by the plugin: counts E_INTERNAL towards a fault. Returns it, or
    // E_INTERNAL in the place of a status nobody knows.
    sluice_status judge(sluice_status status, const sluice_error* err) const noexcept;
    // [request] Runs plugin code when the instance is active, E_STATE otherwise; one call in 64 is
    // timed.
    template <class F>
    sluice_status request_call(std::size_t bytes, sluice_error* err, const F& f) const noexcept;

    Runtime& runtime_;
    const PluginPtr plugin_;
    std::shared_ptr<HostContext> host_;
    sluice_instance* self_ = nullptr;
    const void* table_ = nullptr;

private:
    void deactivate();

    const InstanceSpec spec_;
    bool was_activated_ = false;
};

// Deletes an instance on the control queue, whatever thread drops the last reference to it.
struct InstanceDeleter {
    Runtime* runtime;
    void operator()(Instance* instance) const;
};

}  // namespace sluice::plugin
