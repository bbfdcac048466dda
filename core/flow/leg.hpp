// One attempt at one endpoint: connection, request, the head of the answer. A single pool's request
// has one leg an attempt, a split one has two; both are this.
//
//   Leg leg(scene, reply_head);
//   if (leg.enter(index)) {
//       const Leg::End end = co_await leg.run(sending);
//       if (end == Leg::End::Head) { ... leg.status(), leg.upstream().read_body(leg.next_wait(ms))
//       }
//   }
//
// Threads: its worker's loop.
// Owns:    the endpoint's unit of load, its breaker's permit, the connection; all are given up by
//          close() or with the leg. An engine learns from the closed connection that it may stop.
// Errors:  End says what became of it; the breaker and the endpoint's mark have learnt it already.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "core/fleet/breaker.hpp"
#include "core/fleet/silence.hpp"
#include "core/flow/shared.hpp"
#include "core/http/server.hpp"
#include "core/http/upstream.hpp"
#include "core/route/handoffs.hpp"
#include "core/route/ladder.hpp"

namespace sluice::flow {

// What all legs of one request share.
struct Scene {
    WorkerState& worker;
    http::ServerStream& client;
    route::Receipt& receipt;
    net::Cancel& halt;  // ends every wait for an endpoint
    const route::Service* service = nullptr;
    std::string_view client_ip = {};
    std::uint64_t deadline_us = net::kNever;  // of the whole exchange

    std::uint64_t now_us() const noexcept { return worker.loop.now_us(); }
    std::uint64_t since_start_us() const noexcept;
    bool is_overdue() const noexcept { return now_us() >= deadline_us; }
    net::Wait wait_ms(std::uint64_t ms) const noexcept;
    // Whether the rule as it is now still has this endpoint, and gives it new requests. The request
    // goes on with the rule as it found it, but is not sent to what an edit has taken out since.
    bool is_still_in(std::size_t index) const;
};

class Leg {
public:
    // `reply` holds the head of the answer, `head` is memory for that of the request.
    Leg(const Scene& scene, ReplyHead& reply, std::string& head) noexcept
        : scene_(scene), reply_(reply), head_(head) {}
    Leg(const Leg&) = delete;
    Leg& operator=(const Leg&) = delete;

    // Takes what a request holds of an endpoint of the pool; what this leg held before is given up.
    // False: others took the breaker's last trials since the endpoint was chosen.
    bool enter(std::size_t index);

    enum class End : std::uint8_t {
        Head,         // an answer began
        Interrupted,  // the client left, or the gateway stops
        Overdue,      // the time of the whole exchange is over
        Unreached,    // no connection: the engine cannot have begun
        TakenOut,     // an edit took the endpoint out before the engine began
        Outdated,     // what it carries may not be sent any more, and was not sent whole
        Stale,        // a kept connection broke under what may be sent only once
        Late,         // no answer in time
        Gone,         // silent, and its port refuses connections
        Died,         // the connection ended before an answer
        Garbled,      // an answer nobody can read
    };
    // The engine cannot have seen the request.
    static bool is_before_begin(End end) noexcept {
        return end == End::Unreached || end == End::TakenOut || end == End::Outdated;
    }

    struct Sending {
        route::LegKind kind = route::LegKind::Whole;
        const route::Decision& decision;
        std::uint32_t attempt = 1;
        std::span<const std::string_view> pieces;  // of the body
        std::size_t body_bytes = 0;
        http::HeaderSpan headers = {};  // in the place of the client's; empty values remove
        std::uint64_t first_byte_ms = 0;
        bool is_once = false;  // never to be sent again, whatever became of it
        // Only over a kept connection that was idle for less; 0: only over a new one.
        std::uint64_t most_idle_us = UINT64_MAX;
        std::uint64_t send_by_us = net::kNever;   // not whole on its way by then: it is not sent
        const route::Handoff* carried = nullptr;  // nor when this is not held any more
    };
    // Adds a record to the receipt. `sending` and what it borrows live until it is done.
    net::Task<End> run(const Sending& sending);

    std::size_t index() const noexcept { return index_; }
    fleet::Endpoint& endpoint() const noexcept { return *(*scene_.service->pool)[index_].endpoint; }
    fleet::Permit& permit() noexcept { return permit_; }
    http::UpstreamStream& upstream() noexcept { return upstream_; }
    ReplyHead& reply() noexcept { return reply_; }
    int status() const noexcept { return reply_.status(); }
    route::LegRecord& record() const noexcept { return scene_.receipt.legs[record_]; }
    bool has_run() const noexcept { return has_run_; }
    bool is_held() const noexcept { return lease_.is_held(); }
    // The whole request is on its way.
    bool is_sent() const noexcept { return is_sent_; }
    // Why it died, for people.
    std::string_view failure() const noexcept { return failure_; }

    // Until when to wait for the endpoint's next bytes, at most `ms` (0 = no limit). When nothing
    // came until then is_pause() says whether to wait on; an endpoint that is gone is no pause.
    net::Wait next_wait(std::uint64_t ms) noexcept;
    net::Wait same_wait() const noexcept { return {silence_.deadline_us(), &scene_.halt}; }
    bool is_pause(const Error& error);
    bool is_gone() const noexcept { return is_gone_; }
    // What a failed wait for the answer came to; told to breaker and mark.
    End lose(const Error& error);

    void close() noexcept;

private:
    net::Task<Status> exchange(const Sending& sending);
    End lose_connect(const Error& error, const Sending& sending);
    End outdated();
    net::Wait wait_to_send(const Sending& sending, std::uint64_t ms) const noexcept;

    const Scene& scene_;
    ReplyHead& reply_;
    std::string& head_;
    std::size_t index_ = 0;
    std::size_t record_ = 0;
    fleet::Lease lease_;
    fleet::Permit permit_;
    fleet::Silence silence_;
    http::UpstreamStream upstream_;
    std::string failure_;
    bool has_run_ = false;
    bool is_sent_ = false;
    bool is_gone_ = false;
};

}  // namespace sluice::flow
