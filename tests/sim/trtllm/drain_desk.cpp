#include "tests/sim/trtllm/drain_desk.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "tests/sim/trtllm/api_error.hpp"

namespace sluice::sim::trtllm {
namespace {

void pause_ms(std::uint64_t ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

std::uint32_t capped(std::uint64_t ms) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(ms, 600'000));
}

}  // namespace

DrainDesk::DrainDesk(EventRing& ring, DrainStyle style, const Timing& timing,
                     bool publishes_elsewhere)
    : ring_(ring), style_(style), timing_(timing), publishes_elsewhere_(publishes_elsewhere) {
    if (style_ == DrainStyle::Mover) {
        mover_ = std::jthread([this](const std::stop_token& stop) { move_events(stop); });
        pthread_setname_np(mover_.native_handle(), "mover");
    }
}

DrainDesk::~DrainDesk() = default;

void DrainDesk::move_events(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
        pause_ms(timing_.move_ms);
        auto fresh = ring_.take();
        const std::lock_guard lock(mu_);
        moved_.insert(moved_.end(), std::make_move_iterator(fresh.begin()),
                      std::make_move_iterator(fresh.end()));
    }
}

void DrainDesk::note_request() {
    const std::lock_guard lock(mu_);
    has_had_request_ = true;
    is_reader_done_ = false;
}

std::vector<std::string> DrainDesk::take_moved() {
    if (style_ != DrainStyle::Mover) {
        return ring_.take();
    }
    const std::lock_guard lock(mu_);
    return std::exchange(moved_, {});
}

// What a whole drain collects; it lasts until nothing has come for the tail's time.
std::vector<std::string> DrainDesk::collect() {
    if (style_ == DrainStyle::AtOnce) {
        return ring_.take();
    }
    std::vector<std::string> out;
    {
        const std::lock_guard lock(mu_);
        if (is_reader_done_ && style_ == DrainStyle::Mover) {
            return out;
        }
    }
    for (std::uint32_t quiet = 0; quiet < timing_.tail_ms; quiet += timing_.poll_ms) {
        auto fresh = take_moved();
        if (!fresh.empty()) {
            quiet = 0;
            out.insert(out.end(), std::make_move_iterator(fresh.begin()),
                       std::make_move_iterator(fresh.end()));
        }
        pause_ms(timing_.poll_ms);
    }
    const std::lock_guard lock(mu_);
    is_reader_done_ = true;
    return out;
}

void DrainDesk::answer(http::Exchange& exchange, const Fault& fault) {
    if (fault.kind == FaultKind::SlowHead || fault.kind == FaultKind::Hang) {
        // As long as asked for, whether the client is there or not: it is the handler that is slow.
        pause_ms(capped(fault.number));
    }
    // It has ended before its client can know.
    const auto send = [&](const http::Response& r) {
        end();
        exchange.send(r);
    };
    if (fault.kind == FaultKind::Status) {
        return send(ApiError{static_cast<int>(fault.number), "fault asked for"}.response());
    }
    if (fault.kind == FaultKind::Reset) {
        end();
        return exchange.reset();
    }
    if (fault.kind == FaultKind::Close) {
        end();
        return exchange.close_after();
    }
    bool has_reader = true;
    {
        const std::lock_guard lock(mu_);
        has_reader = style_ != DrainStyle::Mover || has_had_request_;
    }
    if (!has_reader) {
        return send(ApiError{500, "'NoneType' object has no attribute 'aget'"}.response());
    }
    const auto events = publishes_elsewhere_ ? std::vector<std::string>() : collect();
    http::Response r;
    r.has_vary = false;
    r.body = "[";
    for (const std::string& e : events) {
        r.body += (r.body.size() == 1 ? "" : ",") + e;
    }
    r.body += "]";
    if (fault.kind == FaultKind::Garbage) {
        r.body = R"([{"event_id":0,"data":{"type":"stored","par)";
    }
    if (fault.kind == FaultKind::CutAfter && r.body.size() <= fault.number) {
        faults_.arm(fault, 1);  // nothing to cut in this one
    } else if (fault.kind == FaultKind::CutAfter) {
        r.sends_length = false;
        r.extra.emplace_back("content-length", std::to_string(r.body.size()));
        r.body.resize(std::min<std::size_t>(r.body.size(), fault.number));
        exchange.close_after();
    }
    send(r);
    const std::lock_guard lock(mu_);
    (exchange.is_gone() ? counts_.lost : counts_.events) += events.size();
}

void DrainDesk::drain(http::Exchange& exchange) {
    bool is_first = false;
    {
        const std::lock_guard lock(mu_);
        is_first = ++counts_.in_flight == 1;
        counts_.max_in_flight = std::max(counts_.max_in_flight, counts_.in_flight);
        ++(is_first ? counts_.drains : counts_.overlaps);
    }
    if (is_first) {
        return answer(exchange, faults_.take());
    }
    end();
    exchange.send(ApiError{409, "another drain is running"}.response());
}

void DrainDesk::end() {
    const std::lock_guard lock(mu_);
    --counts_.in_flight;
}

DrainDesk::Counts DrainDesk::counts() const {
    const std::lock_guard lock(mu_);
    return counts_;
}

void DrainDesk::forget() {
    const std::lock_guard lock(mu_);
    const std::uint32_t running = counts_.in_flight;
    counts_ = Counts{};
    counts_.in_flight = running;
    counts_.max_in_flight = running;
}

}  // namespace sluice::sim::trtllm
