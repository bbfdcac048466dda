// One ZeroMQ socket of a plugin: two bounded queues between the ZMQ thread and the event thread.
//
// What is received is handed over in batches. When the plugin falls behind and the queue is full,
// messages are dropped and counted, and the place of the hole is marked by link down, link up:
// adapters already know what a broken link means. Nothing ever blocks.
//
// Threads: send(), close() and the handler event; the rest the ZMQ thread.
// Limits:  ZmqSpec; 1,024 messages and 4 MiB waiting to be sent, 64 frames a message.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "core/base/metrics.hpp"

namespace sluice::plugin {

class EventThread;
class ZmqThread;

struct ZmqSpec {
    bool is_dealer = false;  // else a subscriber
    std::string address;     // "tcp://10.0.0.7:5557"
    std::string topic;
    std::uint32_t hwm = 100'000;  // messages
    std::size_t max_message_bytes = 64U << 20U;
    std::size_t queue_bytes = 64U << 20U;
    std::string plugin, instance;  // labels of what is counted
};

using ZmqFrames = std::vector<zmq::message_t>;

struct ZmqHandler {
    std::function<void(const ZmqFrames&)> on_message;
    std::function<void(bool is_connected)> on_link;
};

class ZmqLink : public std::enable_shared_from_this<ZmqLink> {
public:
    static constexpr std::size_t kMaxFrames = 64;
    static constexpr std::size_t kMaxOutMessages = 1024;
    static constexpr std::size_t kMaxOutBytes = 4U << 20U;

    ZmqLink(ZmqThread& owner, EventThread& events, ZmqSpec spec, ZmqHandler handler);
    ~ZmqLink();

    // [event] False when the queue is full; nothing was taken.
    bool send(ZmqFrames frames);
    // [event] The handler is not called any more.
    void close();
    std::uint64_t dropped() const;

    // [ZMQ thread]
    const ZmqSpec& spec() const noexcept { return spec_; }
    void received(ZmqFrames frames);
    void lost();  // something that came could not be taken
    void link(bool is_connected);
    bool has_output() const;
    // The next message to send, empty when there is none; unsent() puts it back.
    ZmqFrames next_output();
    void unsent(ZmqFrames frames);

private:
    enum class Kind : std::uint8_t { Message, Up, Down };
    struct Item {
        Kind kind;
        ZmqFrames frames;
    };
    void push(Item item, std::unique_lock<std::mutex>& lock);
    void mark_gap();
    void drain();

    ZmqThread& owner_;
    EventThread& events_;
    const ZmqSpec spec_;
    metrics::Counter& dropped_counter_;
    std::shared_ptr<const ZmqHandler> handler_;  // event; null once closed

    mutable std::mutex mu_;
    std::deque<Item> in_;                       // guarded by mu_
    std::deque<ZmqFrames> out_;                 // guarded by mu_
    std::size_t in_bytes_ = 0, out_bytes_ = 0;  // guarded by mu_
    std::size_t in_messages_ = 0;               // guarded by mu_
    std::uint64_t dropped_ = 0;                 // guarded by mu_
    bool is_drain_posted_ = false;              // guarded by mu_
    bool is_in_gap_ = false;                    // guarded by mu_
    bool is_up_ = false;                        // guarded by mu_
    bool is_closed_ = false;                    // guarded by mu_
};

}  // namespace sluice::plugin
