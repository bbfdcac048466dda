// Sends the batches of EventLogs to whoever subscribes, and again to whoever asks: a PUB and a
// replay ROUTER socket a stream, as vLLM has them.
//
// A subscriber that is too slow loses batches at its own mark and finds out by their numbers; a
// replay waits for its reader, and loses nothing. Neither holds anybody else up.
//
// Threads: owns one, named "sluice-kv-pub", from the first stream on. bind(), start(), close()
//          control or event; wake() any.
// Errors:  bind(): Unavailable, with the system's reason, also where no descriptor is left.
// Source:  vLLM 0.26 to 0.32: (topic, seq, payload) live; a request is (identity, "", seq), its
//          answers are (identity, "", topic, seq, payload), then the end marker with seq 2^64 - 1
//          and no payload.
// Limits:  kSendMark messages waiting for a subscriber or a reader, payloads shared with the log;
//          kMaxReplays replays a stream at a time, the one that waits longest goes first;
//          kMaxTopics topics asked for, then every subscriber has to connect anew.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "core/base/result.hpp"
#include "core/flow/event_log.hpp"

namespace sluice::flow {

class EventPublisher {
public:
    static constexpr int kSendMark = 1000;
    static constexpr std::size_t kMaxReplays = 64;
    static constexpr std::size_t kMaxTopics = 256;

    // The two sockets of a stream, listening.
    struct Sockets {
        zmq::socket_t pub, replay;
        std::string pub_address, replay_address;  // as bound: "tcp://127.0.0.1:5600"
    };
    class Outlet;
    using OutletPtr = std::shared_ptr<Outlet>;

    EventPublisher();
    ~EventPublisher();
    EventPublisher(const EventPublisher&) = delete;
    EventPublisher& operator=(const EventPublisher&) = delete;

    // `host` as in tcp://HOST:PORT; port 0 takes one from the system.
    Result<Sockets> bind(const std::string& host, std::uint16_t port, std::uint16_t replay_port);
    OutletPtr start(Sockets sockets, EventLogPtr log);
    // The sockets close soon after.
    void close(const OutletPtr& outlet);
    // Some log has more.
    void wake() noexcept;

    // A socket that listens; in the class for Outlet.
    static Result<zmq::socket_t> bound(zmq::context_t& context, zmq::socket_type type,
                                       const std::string& address);

private:
    // The address of a socket under the host that was asked for.
    static std::string shown(const zmq::socket_t& socket, const std::string& host);
    void run(const std::stop_token& stop);
    void take_changes();
    void begin();

    zmq::context_t context_;
    const int wake_fd_;
    std::vector<OutletPtr> outlets_;  // the thread's

    std::mutex mu_;
    std::vector<OutletPtr> added_;    // guarded by mu_
    std::vector<OutletPtr> removed_;  // guarded by mu_
    std::jthread thread_;             // begun under mu_
};

}  // namespace sluice::flow
