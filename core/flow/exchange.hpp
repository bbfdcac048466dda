// One request of a client, from its head to the last byte of the answer.
//
//   head -> body -> facts -> rule -> gate -> tokens -> ladder -> lease -> dispatch -> relay ->
//   settle
//
// Threads: its worker's loop.
// Owns:    everything the request holds; all of it is released when run() ends, on every way out.
// Errors:  what the gateway answers itself has the shape and the codes of the data plane's
// contract;
//          after the head went out a failure is an event in the stream or a broken connection,
//          never a made-up end.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/fleet/breaker.hpp"
#include "core/fleet/silence.hpp"
#include "core/flow/observer.hpp"
#include "core/flow/shared.hpp"
#include "core/http/server.hpp"
#include "core/http/upstream.hpp"
#include "core/json/edits.hpp"
#include "core/route/facts.hpp"
#include "core/route/gate.hpp"

namespace sluice::flow {

class Exchange {
public:
    Exchange(WorkerState& worker, const rules::ListenAddress& listener, http::ServerStream& client);
    ~Exchange();
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

    net::Task<void> run();

private:
    // Each step fills members; false: refusal_ says what to answer, or the client is gone.
    net::Task<bool> receive();
    bool is_taken();
    bool find_service();
    net::Task<bool> tokenize();
    bool edit_body();
    net::Task<bool> dispatch();
    net::Task<void> relay();

    // One attempt at the chosen endpoint.
    enum class Attempt { Answered, Elsewhere, Over };
    net::Task<Attempt> attempt(const route::Decision& decision);
    net::Task<Status> send_and_read_head();
    net::Task<Status> read_rest_of_error(bool is_error);
    // False: the endpoint's breaker lets nobody through now.
    bool take_permit(const fleet::Member& member);
    bool refuse_unrouted();
    // What the attempt came to when no answer could be had.
    Attempt lose_connect(const Error& error);
    Attempt lose(const Error& error);
    // What the attempt came to when the answer says that something is wrong.
    Attempt judge(const route::Decision& decision);
    Attempt judge_first_event(const route::Decision& decision, std::string_view error);
    route::Judgement ask_adapter(int status, std::string_view text) const;
    bool is_load(route::Judgement judgement) const;
    bool has_alternative(std::size_t chosen, route::Judgement judgement) const;
    // Whether the rule as it is now (null: gone) still has an endpoint of this request's pool.
    bool is_still_in(const route::Service* now, std::size_t index) const;
    void pass_over_removed();
    // Until when to wait for the endpoint's next bytes, at most `ms` (0 = no limit). When nothing
    // came until then is_pause() says whether to wait on; an endpoint that is gone is no pause.
    net::Wait next_wait(std::uint64_t ms) noexcept;
    net::Wait same_wait() noexcept { return {silence_.deadline_us(), &halt_}; }
    bool is_pause(const Error& error);
    net::Task<void> fail_relay(const Error& error);
    void note_error_event();

    // Notes what the client will be told instead of an engine's answer; returns false.
    bool refuse(route::Refusal refusal);
    net::Task<void> answer_refusal();
    net::Task<void> end_stream_with_error(std::string_view code, std::string_view message);
    // The exchange as a whole has taken too long: its own limit, or the rule's cap.
    bool is_overdue() const noexcept { return worker_.loop.now_us() >= deadline_us_; }
    bool is_capped() const noexcept { return worker_.loop.now_us() >= cap_us_; }
    bool refuse_timeout();
    void client_left();
    // A wait was ended from outside: the client is gone, or the gateway stops.
    void interrupted();
    fleet::Endpoint& endpoint() const { return *(*service_->pool)[*chosen_].endpoint; }
    void settle();
    void count(const Usage& usage);
    void count_echo();
    void tell_served(const Usage& usage);
    net::Wait wait_ms(std::uint64_t ms) noexcept;
    std::uint64_t since_start_us() const noexcept;
    bool is_json_body() const noexcept;
    route::LegRecord& leg() noexcept { return receipt_.legs.back(); }

    WorkerState& worker_;
    const rules::ListenAddress& listener_;
    http::ServerStream& client_;
    net::Cancel halt_;  // ends every wait for an endpoint
    net::CancelWith halts_with_gateway_;
    std::unique_ptr<Scratch> scratch_;
    route::Receipt& receipt_;
    ReplyHead& reply_;
    Observer& observer_;
    std::unique_ptr<json::BodyReader> reader_;  // while the body is viewed

    route::ServicePtr service_;
    route::Facts facts_;
    std::string served_model_;
    std::string_view client_ip_;
    std::string_view body_;
    bool has_prompt_ = false;
    bool is_text_prompt_ = false;  // its tokens are ours, not the client's
    std::optional<json::Edits> edits_;
    std::size_t body_bytes_ = 0;  // as it goes upstream

    std::optional<route::Refusal> refusal_;
    route::Ticket place_;  // in the rule
    route::InFlight in_flight_;
    std::optional<std::size_t> chosen_;  // pool index of the last attempt
    fleet::Lease lease_;
    fleet::Permit permit_;
    fleet::Silence silence_;
    http::UpstreamStream upstream_;
    std::string_view first_part_;  // of the answer; upstream_'s until it is read on, or scratch_'s
    bool has_first_part_ = false;
    bool is_gone_ = false;                     // the endpoint: its port refuses while we wait
    std::uint64_t deadline_us_ = net::kNever;  // of the whole exchange, the cap included
    std::uint64_t cap_us_ = net::kNever;       // max_stream_duration_sec
    std::uint64_t first_byte_us_ = 0;
    int status_ = 0;  // what the client was answered; 0 = nothing
    bool is_stream_counted_ = false;
};

}  // namespace sluice::flow
