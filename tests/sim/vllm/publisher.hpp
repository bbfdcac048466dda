// The engine's KV event publisher: a PUB socket, a ROUTER for replay, one thread.
//
// Batches are numbered from 0 with each start. The thread serves replay between batches.
//
// Owns:    its ZeroMQ context, sockets and thread.
// Threads: publish() from the engine's; the sockets belong to the publisher's own.
// Errors:  start() says which address it cannot have.
// Limits:  buffer_steps batches are kept for replay; max_queue_size wait to be sent, then publish()
//          blocks, as vLLM's does.
// Source:  vLLM 0.32 ZmqEventPublisher; contract section 1.1, 1.2 and 1.6.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "core/base/result.hpp"
#include "tests/sim/vllm/events.hpp"

namespace sluice::sim::vllm {

// --kv-events-config, as given.
struct EventsConfig {
    bool enable_kv_cache_events = false;
    std::string publisher = "zmq";
    std::string endpoint = "tcp://*:5557";
    std::string replay_endpoint;  // empty: none
    std::int64_t buffer_steps = 10'000;
    std::int64_t hwm = 100'000;
    std::int64_t max_queue_size = 100'000;
    std::string topic;

    bool publishes() const noexcept { return enable_kv_cache_events && publisher == "zmq"; }
};

Result<EventsConfig> parse_events_config(std::string_view json_text);

class Publisher {
public:
    struct Options {
        EventsConfig config;
        EventEncoding encoding = EventEncoding::Map;
        HashForm form = HashForm::Integer;
        int rank = 0;
        std::string host;  // what '*' binds to: the simulator stays on loopback
    };

    explicit Publisher(Options options);
    ~Publisher();
    Publisher(const Publisher&) = delete;
    Publisher& operator=(const Publisher&) = delete;

    // Binds (or connects, as vLLM would) and starts the thread.
    Status start();
    void publish(std::vector<KvEvent> events);

    // As /kv_event_sources shows it: rank offset applied, port 0 resolved.
    const EventsConfig& shown() const noexcept { return shown_; }
    // Where a subscriber on this machine reaches it; empty when it connected out.
    const std::string& reachable() const noexcept { return reachable_; }
    const std::string& replay_reachable() const noexcept { return replay_reachable_; }

private:
    struct Batch {
        std::uint64_t sequence = 0;
        std::string payload;
    };
    void run();
    bool is_stopping();
    void wake() const noexcept;
    void send_queued();
    void send(Batch batch);
    void serve_replay();

    Options options_;
    EventsConfig shown_;
    std::string reachable_;
    std::string replay_reachable_;
    zmq::context_t context_;
    zmq::socket_t pub_;
    zmq::socket_t router_;
    int wake_fd_;             // something was queued, or it is time to end
    std::deque<Batch> sent_;  // publisher thread only

    std::mutex mu_;
    std::condition_variable room_;
    std::deque<Batch> queue_;   // guarded by mu_
    std::uint64_t next_ = 0;    // guarded by mu_
    bool is_stopping_ = false;  // guarded by mu_
    std::jthread thread_;
};

}  // namespace sluice::sim::vllm
