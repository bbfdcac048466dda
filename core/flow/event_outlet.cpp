#include "core/flow/event_outlet.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "core/base/bytes.hpp"
#include "core/base/clock.hpp"
#include "core/base/log.hpp"

namespace sluice::flow {
namespace {

constexpr std::size_t kBatchesATurn = 64;
constexpr std::size_t kBytesATurn = 1U << 20U;
constexpr int kMessagesATurn = 256;
constexpr std::uint64_t kWarnPauseUs = 60'000'000;

// A message that shares the payload with the log.
zmq::message_t shared(const std::shared_ptr<const std::string>& payload) {
    // Owned by the message: libzmq calls back when its last copy is gone.
    auto* const held = new std::shared_ptr<const std::string>(payload);
    return {
        const_cast<char*>(payload->data()), payload->size(),  // only ever read
        [](void*, void* hint) { delete static_cast<std::shared_ptr<const std::string>*>(hint); },
        held};
}

zmq::message_t number(std::uint64_t seq) {
    zmq::message_t out(8);
    store_be64(seq, {static_cast<std::uint8_t*>(out.data()), out.size()});
    return out;
}

}  // namespace

void EventPublisher::Outlet::add_to(std::vector<zmq::pollitem_t>& items) {
    // While it is not bound the first one waits for nothing.
    items.push_back(
        {sockets_.pub.handle(), -1, static_cast<short>(sockets_.pub ? ZMQ_POLLIN : 0), 0});
    items.push_back({sockets_.replay.handle(), -1, ZMQ_POLLIN, 0});
}

void EventPublisher::Outlet::end() noexcept {
    sockets_.pub.close();
    sockets_.replay.close();
}

void EventPublisher::Outlet::turn(zmq::context_t& context) {
    has_more_ = false;
    if (!sockets_.pub) {
        bind_again(context);
    }
    if (sockets_.pub) {
        take_subscriptions();
    }
    if (sockets_.pub) {
        send_new();
    }
    take_requests();
    is_blocked_ = false;
    for (auto it = replays_.begin(); it != replays_.end();) {
        bool is_over = false;
        serve(*it, is_over);
        it = is_over ? replays_.erase(it) : std::next(it);
    }
}

// Readers ask for everything. The memory that other topics take is given back by beginning anew.
void EventPublisher::Outlet::take_subscriptions() {
    for (int i = 0; i < kMessagesATurn; ++i) {
        zmq::message_t message;
        if (!sockets_.pub.recv(message, zmq::recv_flags::dontwait)) {
            break;
        }
        has_more_ = i + 1 == kMessagesATurn;
        if (message.size() > 1) {
            const bool is_wanted = *static_cast<const std::uint8_t*>(message.data()) == 1;
            topics_ = is_wanted ? topics_ + 1 : topics_ - std::min<std::size_t>(topics_, 1);
        }
    }
    if (topics_ > EventPublisher::kMaxTopics) {
        // They may come back at once, and be sent away again.
        if (const std::uint64_t now = now_us(); now >= warn_again_us_) {
            warn_again_us_ = now + kWarnPauseUs;
            log::warn("subscribers of KV events ask for too many topics and have to connect anew",
                      {{"address", sockets_.pub_address}});
        }
        sockets_.pub.close();
        topics_ = 0;
    }
}

void EventPublisher::Outlet::bind_again(zmq::context_t& context) {
    // Refused until the socket before it is closed for good.
    if (auto pub = EventPublisher::bound(context, zmq::socket_type::xpub, sockets_.pub_address)) {
        sockets_.pub = std::move(*pub);
    }
}

void EventPublisher::Outlet::send_new() {
    const auto batches = log_->read(next_, kBatchesATurn, kBytesATurn);
    for (const EventLog::Batch& batch : batches) {
        sockets_.pub.send(zmq::message_t(), zmq::send_flags::sndmore);
        sockets_.pub.send(number(batch.seq), zmq::send_flags::sndmore);
        sockets_.pub.send(shared(batch.payload), zmq::send_flags::none);
        next_ = batch.seq + 1;
    }
    has_more_ = has_more_ || !batches.empty();
}

void EventPublisher::Outlet::take_requests() {
    for (int i = 0; i < kMessagesATurn; ++i) {
        std::array<zmq::message_t, 3> frames;
        std::size_t count = 0;
        bool has_frame = true;
        while (has_frame) {
            zmq::message_t frame;
            if (!sockets_.replay.recv(frame, zmq::recv_flags::dontwait)) {
                return;  // messages come whole: only before a first frame
            }
            has_frame = frame.more();
            if (count < frames.size()) {
                frames[count] = std::move(frame);
            }
            ++count;
        }
        if (count != frames.size() || frames[1].size() != 0 || frames[2].size() != 8) {
            continue;
        }
        Replay replay;
        replay.reader = frames[0].to_string();
        replay.next = load_be64({static_cast<const std::uint8_t*>(frames[2].data()), 8});
        std::erase_if(replays_, [&](const Replay& r) { return r.reader == replay.reader; });
        if (replays_.size() == EventPublisher::kMaxReplays) {
            replays_.pop_front();
        }
        replays_.push_back(std::move(replay));
    }
    has_more_ = true;
}

void EventPublisher::Outlet::serve(Replay& replay, bool& is_over) {
    try {
        const auto batches = log_->read(replay.next, kBatchesATurn, kBytesATurn);
        for (const EventLog::Batch& batch : batches) {
            if (!answer(replay, batch.seq, &batch)) {
                is_blocked_ = true;
                return;
            }
            replay.next = batch.seq + 1;
        }
        if (!batches.empty()) {
            has_more_ = true;
            return;
        }
        is_over = answer(replay, UINT64_MAX, nullptr);
        is_blocked_ = is_blocked_ || !is_over;
    } catch (const zmq::error_t& e) {
        if (e.num() != EHOSTUNREACH) {
            throw;
        }
        is_over = true;  // the reader is gone
    }
}

bool EventPublisher::Outlet::answer(const Replay& replay, std::uint64_t seq,
                                    const EventLog::Batch* batch) {
    zmq::socket_t& to = sockets_.replay;
    const auto more = zmq::send_flags::sndmore | zmq::send_flags::dontwait;
    if (!to.send(zmq::message_t(replay.reader.data(), replay.reader.size()), more)) {
        return false;
    }
    // What follows an accepted first frame is accepted.
    (void)to.send(zmq::message_t(), more);
    (void)to.send(zmq::message_t(), more);
    (void)to.send(number(seq), more);
    (void)to.send(batch == nullptr ? zmq::message_t() : shared(batch->payload),
                  zmq::send_flags::dontwait);
    return true;
}

}  // namespace sluice::flow
