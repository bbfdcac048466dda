#include "core/plugin/zmq_link.hpp"

#include "core/base/clock.hpp"
#include "core/plugin/event_thread.hpp"
#include "core/plugin/zmq_thread.hpp"

namespace sluice::plugin {
namespace {

// One turn of the event thread hands over at most this, then others have their turn.
constexpr std::size_t kDrainMessages = 256;
constexpr std::uint64_t kDrainUs = 2'000;

std::size_t cost_of(const ZmqFrames& frames) noexcept {
    std::size_t bytes = sizeof(ZmqFrames);
    for (const zmq::message_t& frame : frames) {
        bytes += frame.size() + sizeof(zmq::message_t);
    }
    return bytes;
}

}  // namespace

ZmqLink::ZmqLink(ZmqThread& owner, EventThread& events, ZmqSpec spec, ZmqHandler handler)
    : owner_(owner),
      events_(events),
      spec_(std::move(spec)),
      dropped_counter_(metrics::registry().counter(
          "sluice_plugins_zmq_dropped_total",
          "Messages dropped because an instance did not keep up or could not take them.",
          {{"plugin", spec_.plugin}, {"instance", spec_.instance}})),
      handler_(std::make_shared<const ZmqHandler>(std::move(handler))) {}

ZmqLink::~ZmqLink() = default;

bool ZmqLink::send(ZmqFrames frames) {
    const std::size_t bytes = cost_of(frames);
    {
        const std::lock_guard lock(mu_);
        if (is_closed_ || out_.size() >= kMaxOutMessages || out_bytes_ + bytes > kMaxOutBytes) {
            return false;
        }
        out_bytes_ += bytes;
        out_.push_back(std::move(frames));
    }
    owner_.wake();
    return true;
}

void ZmqLink::close() {
    handler_ = nullptr;
    {
        const std::lock_guard lock(mu_);
        if (is_closed_) {
            return;
        }
        is_closed_ = true;
        in_.clear();
        out_.clear();
        in_bytes_ = out_bytes_ = in_messages_ = 0;
    }
    owner_.remove(shared_from_this());
}

std::uint64_t ZmqLink::dropped() const {
    const std::lock_guard lock(mu_);
    return dropped_;
}

void ZmqLink::push(Item item, std::unique_lock<std::mutex>& lock) {
    if (item.kind == Kind::Message) {
        in_bytes_ += cost_of(item.frames);
        ++in_messages_;
    }
    in_.push_back(std::move(item));
    if (!is_drain_posted_) {
        is_drain_posted_ = true;
        lock.unlock();
        // Refused only while everything stops.
        (void)events_.post([self = shared_from_this()] { self->drain(); });
        lock.lock();
    }
}

void ZmqLink::received(ZmqFrames frames) {
    std::unique_lock lock(mu_);
    if (is_closed_) {
        return;
    }
    if (in_messages_ >= spec_.hwm || in_bytes_ + cost_of(frames) > spec_.queue_bytes) {
        lock.unlock();
        lost();
        return;
    }
    is_in_gap_ = false;
    push({Kind::Message, std::move(frames)}, lock);
}

void ZmqLink::lost() {
    dropped_counter_.add();
    std::unique_lock lock(mu_);
    ++dropped_;
    // One mark a hole, however long it is; so marks are never more than messages, plus one.
    if (is_in_gap_ || is_closed_ || !is_up_) {
        return;
    }
    is_in_gap_ = true;
    push({Kind::Down, {}}, lock);
    push({Kind::Up, {}}, lock);
}

void ZmqLink::link(bool is_connected) {
    std::unique_lock lock(mu_);
    if (is_closed_ || is_up_ == is_connected) {
        return;
    }
    is_up_ = is_connected;
    if (!is_connected) {
        // Questions to a connection that is gone are not answers to ask of the next one.
        out_.clear();
        out_bytes_ = 0;
    }
    push({is_connected ? Kind::Up : Kind::Down, {}}, lock);
}

bool ZmqLink::has_output() const {
    const std::lock_guard lock(mu_);
    return !out_.empty();
}

ZmqFrames ZmqLink::next_output() {
    const std::lock_guard lock(mu_);
    ZmqFrames frames;
    if (!out_.empty()) {
        frames = std::move(out_.front());
        out_.pop_front();
        out_bytes_ -= cost_of(frames);
    }
    return frames;
}

void ZmqLink::unsent(ZmqFrames frames) {
    const std::lock_guard lock(mu_);
    if (!is_closed_) {
        out_bytes_ += cost_of(frames);
        out_.push_front(std::move(frames));
    }
}

void ZmqLink::drain() {
    const std::uint64_t until = now_us() + kDrainUs;
    for (std::size_t i = 0;; ++i) {
        Item item{Kind::Up, {}};
        {
            const std::lock_guard lock(mu_);
            if (in_.empty()) {
                is_drain_posted_ = false;
                return;
            }
            if (i == kDrainMessages || now_us() > until) {
                break;
            }
            item = std::move(in_.front());
            in_.pop_front();
            if (item.kind == Kind::Message) {
                in_bytes_ -= cost_of(item.frames);
                --in_messages_;
            }
        }
        // The plugin may close the socket from inside the call.
        const std::shared_ptr<const ZmqHandler> handler = handler_;
        if (!handler) {
            continue;
        }
        if (item.kind == Kind::Message) {
            handler->on_message(item.frames);
        } else {
            handler->on_link(item.kind == Kind::Up);
        }
    }
    (void)events_.post([self = shared_from_this()] { self->drain(); });
}

}  // namespace sluice::plugin
