// What one instance holds on the event thread: timers, HTTP calls, ZMQ sockets, endpoints.
//
// Handles given to plugins are numbers in the shape of pointers, never reused: a stale one finds
// nothing instead of something else.
//
// Threads: event, all of it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

namespace sluice::plugin {

class PluginTimer;
class HttpCall;
class ZmqLink;
struct AttachmentRecord;

struct AttachedEndpoint {
    std::string base_url;
    std::string authorization;
    const AttachmentRecord* record = nullptr;
};

struct EventSide {
    EventSide();
    ~EventSide();

    std::uint64_t next_handle = 1;
    std::unordered_map<std::uint64_t, std::unique_ptr<PluginTimer>> timers;
    std::unordered_map<std::uint64_t, std::shared_ptr<HttpCall>> calls;
    std::unordered_map<std::uint64_t, std::shared_ptr<ZmqLink>> sockets;
    std::unordered_map<std::uint64_t, AttachedEndpoint> endpoints;

    // Cancels everything; how much there was.
    std::size_t cancel_all();
};

template <class Handle>
Handle* to_handle(std::uint64_t id) noexcept {
    static_assert(sizeof(void*) >= sizeof(std::uint64_t));
    return reinterpret_cast<Handle*>(id);
}
inline std::uint64_t from_handle(const void* handle) noexcept {
    return reinterpret_cast<std::uint64_t>(handle);
}

}  // namespace sluice::plugin
