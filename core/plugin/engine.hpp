// An engine adapter at work: what it knows of the engine, its attachments, and its word on legs.
//
// Threads: each function has the SDK's tag in front. [request] functions may run on any number of
//          threads at once and take no lock but the one pointer copy of Attachment::hold().
// Owns:    attachments are refcounted; the last reference to one, dropped on any thread, has the
//          plugin's detach() run on the event thread.
// Limits:  one attachment per (plugin, base URL) in the process. The second asker with the same
//          instance shares it; another instance waits until the first one's is detached.
#pragma once
#include <sluice/sdk/engine.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/base/snapshot.hpp"
#include "core/plugin/instance.hpp"

namespace sluice::plugin {

// sluice_engine_info, copied.
struct EngineInfo {
    std::uint32_t caps = 0;
    std::uint32_t block_tokens = 0;
    std::uint32_t uncached_tail_tokens = 0;
    std::vector<std::string> reserved_fields;
    std::vector<std::string> reserved_paths;
};

// What attach() hands to the plugin.
struct EndpointInfo {
    std::uint64_t id = 0;       // one number for one base URL in the whole process, never reused
    std::uint32_t roles = 0;    // SLUICE_ROLE_*
    std::string base_url;       // "http://10.0.0.7:8000"
    std::string address;        // "10.0.0.7" or "[fd00::7]"
    std::string name;           // "10.0.0.7:8000"
    std::string fields = "{}";  // JSON, checked by the plugin's endpoint schema
    std::string authorization;  // sent with the adapter's calls to it; empty = none
    std::uint32_t num_dp_ranks = 1;
    std::uint32_t weight = 1;
};
// As plugins see it; borrows from `info`.
sluice_endpoint to_sdk(const EndpointInfo& info) noexcept;

class EngineInstance;
struct AttachmentRecord;

// One successful attach() of the plugin; detach() runs once nobody holds it.
class Attached {
public:
    Attached(std::shared_ptr<EngineInstance> engine, std::shared_ptr<AttachmentRecord> record,
             sluice_attachment* at);
    ~Attached();
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;
    // For sluice_leg::at and peer_at.
    sluice_attachment* at() const noexcept { return at_; }

private:
    std::shared_ptr<EngineInstance> engine_;
    std::shared_ptr<AttachmentRecord> record_;
    sluice_attachment* at_;
};

// A rule's share in the attachment of one endpoint.
class Attachment {
public:
    enum class State {
        Waiting,
        Attached,
        Failed
    };  // Waiting: for the event thread, or for another
        // instance to let go of the endpoint
    explicit Attachment(std::shared_ptr<AttachmentRecord> record);
    ~Attachment();
    Attachment(const Attachment&) = delete;
    Attachment& operator=(const Attachment&) = delete;

    // [request] Null while not attached. Kept by a leg until its answering head has arrived.
    std::shared_ptr<const Attached> hold() const;
    // [any]
    State state() const;
    std::string error() const;  // why Failed
    const EndpointInfo& endpoint() const noexcept;
    // [any] For the adapter's calls from now on, in the place of EndpointInfo::authorization.
    void set_authorization(std::string text) const;
    // [control] Waits for the state to leave Waiting.
    Status wait(std::chrono::milliseconds limit) const;

private:
    std::shared_ptr<AttachmentRecord> record_;
};

using AttachmentPtr = std::shared_ptr<Attachment>;

class EngineInstance final : public Instance, public std::enable_shared_from_this<EngineInstance> {
public:
    // [control]
    static Result<std::shared_ptr<EngineInstance>> create(Runtime& runtime, PluginPtr plugin,
                                                          InstanceSpec spec);

    const EngineInfo& info() const noexcept { return info_; }
    bool can(std::uint32_t caps) const noexcept { return (info_.caps & caps) == caps; }

    // [control] Never blocks: the attachment starts as Waiting. A wider `watch` than that of the
    // attachment shared re-attaches it; hold() is null meanwhile. Unavailable: not active.
    Result<AttachmentPtr> attach(const EndpointInfo& endpoint, std::uint32_t watch);
    // [control] True when another instance of the same plugin holds this endpoint: rules with
    // different configurations of an engine whose events have one reader are refused by it.
    bool is_held_elsewhere(const std::string& base_url) const;

    // [request] As in sluice/sdk/engine.h; E_STATE when the instance is not active, E_UNSUPPORTED
    // when the plugin does not have the function. Never throw, allocate nothing here.
    sluice_status plan(const sluice_request& request, sluice_plan& out,
                       sluice_error* err) const noexcept;
    sluice_status build_leg(const sluice_leg& leg, sluice_leg_out& out,
                            sluice_error* err) const noexcept;
    sluice_status on_reply(const sluice_leg& leg, const sluice_reply& reply, sluice_reply_out& out,
                           sluice_error* err) const noexcept;
    // Writes at most out.size() keys and says how many.
    Result<std::size_t> hash_blocks(const sluice_hash_input& in,
                                    std::span<std::uint64_t> out) const;
    // What traffic shows of an endpoint's cache; nothing where the adapter does not ask for it.
    void on_served(sluice_attachment* at, const sluice_served& served) const noexcept;
    bool hears_served() const noexcept;

    // [event] For the attachment book.
    sluice_status attach_now(const AttachmentRecord& record, std::uint32_t watch,
                             sluice_attachment** out, sluice_error* err) const noexcept;
    void detach_now(const AttachmentRecord& record, sluice_attachment* at) const noexcept;
    // The record has another authorization now.
    void authorize(const AttachmentRecord& record) const;

private:
    using Instance::Instance;
    const sluice_engine& engine() const noexcept {
        return *static_cast<const sluice_engine*>(table_);
    }
    Status read_info();

    EngineInfo info_;
};

}  // namespace sluice::plugin
