// One published stream at work: what it still has to send, and to whom again.
//
// Threads: EventPublisher's.
// Errors:  zmq::error_t for what a socket of ours must not say; a reader that is gone is none.
// Source:  see event_publisher.hpp.
#pragma once
#include <cstdint>
#include <list>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "core/flow/event_publisher.hpp"

namespace sluice::flow {

class EventPublisher::Outlet {
public:
    Outlet(EventPublisher::Sockets sockets, EventLogPtr log)
        : sockets_(std::move(sockets)), log_(std::move(log)) {}

    // Two items, in the order pub, replay.
    void add_to(std::vector<zmq::pollitem_t>& items);
    void turn(zmq::context_t& context);
    // Something is left to do that no event will announce.
    bool has_to_retry() const noexcept { return is_blocked_ || !sockets_.pub; }
    bool has_more() const noexcept { return has_more_; }
    void end() noexcept;

private:
    struct Replay {
        std::string reader;  // its routing id
        std::uint64_t next = 0;
    };
    void take_subscriptions();
    void send_new();
    void take_requests();
    void serve(Replay& replay, bool& is_over);
    // False: the reader's queue is full.
    bool answer(const Replay& replay, std::uint64_t seq, const EventLog::Batch* batch);
    void bind_again(zmq::context_t& context);

    EventPublisher::Sockets sockets_;
    const EventLogPtr log_;
    std::uint64_t next_ = 0;     // to send
    std::list<Replay> replays_;  // the one that waits longest first
    std::size_t topics_ = 0;     // asked for, other than everything
    std::uint64_t warn_again_us_ = 0;
    bool is_blocked_ = false;  // some reader takes nothing now
    bool has_more_ = false;    // this turn did not send all there is
};

}  // namespace sluice::flow
