// Who is attached to which endpoint: one attachment per (plugin, base URL) in the process.
//
// A key has a queue of records; the first is attached or being so, those behind it belong to other
// instances of the same plugin (a reconfigured rule) and wait for it to be let go. One whose
// adapter does not admit the engine as it is configured makes way for those that wait, each in its
// turn.
//
// Threads: attach() and is_held_elsewhere() control; the rest event.
// Limits:  kTurnUs between two turns of a record that was refused.
#pragma once
#include <sluice/sdk/engine.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/plugin/engine.hpp"

namespace sluice::plugin {

class EventThread;

struct AttachmentRecord {
    AttachmentRecord(std::shared_ptr<EngineInstance> for_engine, const EndpointInfo& endpoint,
                     std::uint32_t watch);
    AttachmentRecord(const AttachmentRecord&) = delete;
    AttachmentRecord& operator=(const AttachmentRecord&) = delete;

    const std::shared_ptr<EngineInstance> engine;
    const EndpointInfo info;
    const sluice_endpoint endpoint;  // borrows from info; valid until detach
    std::atomic<std::uint32_t> wanted_watch;

    // Event thread.
    std::uint32_t watch = 0;           // in force while live
    bool is_live = false;              // the plugin has it
    bool is_released = false;          // no rule wants it any more
    bool makes_way = false;            // for the one behind it, once no leg holds it
    std::uint64_t refused_us = 0;      // when its adapter last refused the engine; 0 = it does not
    std::string authorization;         // now; info has the first one
    std::weak_ptr<Attachment> handle;  // guarded by the book's mutex

    mutable std::mutex mu;
    mutable std::condition_variable changed;
    Attachment::State state = Attachment::State::Waiting;  // guarded by mu
    std::string error;                                     // guarded by mu
    std::shared_ptr<const Attached> current;               // guarded by mu

    void set(Attachment::State next, std::string why, std::shared_ptr<const Attached> now);
};

class AttachmentBook {
public:
    using RecordPtr = std::shared_ptr<AttachmentRecord>;

    explicit AttachmentBook(EventThread& events) : events_(events) {}

    AttachmentPtr attach(const std::shared_ptr<EngineInstance>& engine,
                         const EndpointInfo& endpoint, std::uint32_t watch);
    bool is_held_elsewhere(const EngineInstance& engine, const std::string& base_url) const;

    // The last rule let go of the record's handle.
    void release(const RecordPtr& record);
    // Nobody holds the plugin's attachment any more.
    void unused(const RecordPtr& record, sluice_attachment* at);
    // The adapter's word on the engine of an attached record; called from within the adapter.
    void judged(const AttachmentRecord* record, bool is_refused);

private:
    static constexpr std::uint64_t kTurnUs = 60'000'000;

    using Key = std::pair<std::string, std::string>;  // plugin id, base URL

    static Key key_of(const EngineInstance& engine, const std::string& base_url);
    void begin(const RecordPtr& record);
    void widen(const RecordPtr& record);
    // Lets another have its turn if this one is refused and one waits whose turn it is.
    void make_way(const RecordPtr& record);
    static RecordPtr next_of(const std::deque<RecordPtr>& queue);
    // Puts the next one in front, and says who is now.
    RecordPtr pass_turn(const RecordPtr& record);
    // Takes the record out of its queue; the one behind it begins.
    void leave(const RecordPtr& record);

    EventThread& events_;
    mutable std::mutex mu_;
    std::map<Key, std::deque<RecordPtr>> queues_;  // guarded by mu_
};

}  // namespace sluice::plugin
