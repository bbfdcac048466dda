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

#include "core/flow/leg.hpp"
#include "core/flow/observer.hpp"
#include "core/flow/shared.hpp"
#include "core/http/server.hpp"
#include "core/http/upstream.hpp"
#include "core/json/edits.hpp"
#include "core/route/facts.hpp"
#include "core/route/gate.hpp"

namespace sluice::flow {

class PdExchange;

class Exchange {
public:
    Exchange(WorkerState& worker, const rules::ListenAddress& listener, http::ServerStream& client);
    ~Exchange();
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

    net::Task<void> run();

private:
    friend class PdExchange;  // in the place of dispatch() on a P/D rule

    // Each step fills members; false: refusal_ says what to answer, or the client is gone.
    net::Task<bool> receive();
    bool is_taken();
    bool find_service();
    net::Task<bool> tokenize();
    bool edit_body();
    net::Task<bool> dispatch();
    net::Task<void> relay();
    net::Task<void> answer_ready();

    // One attempt at the chosen endpoint.
    enum class Attempt { Answered, Elsewhere, Over };
    net::Task<Attempt> attempt(const route::Decision& decision);
    route::Question question() const;
    void note_prediction(const route::Decision& decision);
    // Waits a moment for the first part behind the head; Head: whether it came or not. With
    // `may_pause` the endpoint's silence is no fault, however short the rule's limit.
    net::Task<Leg::End> peek(bool is_error, bool may_pause = false);
    net::Task<Status> read_rest_of_error(bool is_error);
    bool refuse_unrouted();
    bool turn_to_spare();
    // What the attempt came to when no answer could be had.
    Attempt lose(Leg::End end);
    // What the attempt came to when the answer says that something is wrong.
    Attempt judge(const route::Decision& decision);
    Attempt judge_first_event(const route::Decision& decision, std::string_view error);
    route::Judgement ask_adapter(int status, std::string_view text) const;
    bool is_load(route::Judgement judgement) const;
    bool has_alternative(std::size_t chosen, route::Judgement judgement) const;
    void pass_over_removed();
    net::Task<void> fail_relay(const Error& error);
    net::Task<void> end_read_late();
    void note_error_event();

    // Notes what the client will be told instead of an engine's answer; returns false.
    bool refuse(route::Refusal refusal);
    net::Task<void> answer_refusal();
    net::Task<void> end_stream_with_error(std::string_view code, std::string_view message);
    // The exchange as a whole has taken too long: its own limit, or the rule's cap.
    bool is_overdue() const noexcept { return scene_.is_overdue(); }
    bool is_capped() const noexcept { return worker_.loop.now_us() >= cap_us_; }
    bool refuse_timeout();
    void client_left();
    // A wait was ended from outside: the client is gone, or the gateway stops.
    void interrupted();
    void settle();
    void count(const Usage& usage);
    void count_echo();
    void tell_served(const Usage& usage);
    // Whose blocks the answer tells of: prefill's, where a request was split.
    std::size_t held_by() const noexcept { return predicted_by_.value_or(leg_.index()); }
    net::Wait wait_ms(std::uint64_t ms) noexcept { return scene_.wait_ms(ms); }
    std::uint64_t since_start_us() const noexcept { return scene_.since_start_us(); }
    bool is_json_body() const noexcept;

    WorkerState& worker_;
    const rules::ListenAddress& listener_;
    http::ServerStream& client_;
    net::Cancel halt_;  // ends every wait for an endpoint
    net::CancelWith halts_with_gateway_;
    net::Cancel answer_halt_;  // ends the waits for the endpoint that answers, and no others
    std::unique_ptr<Scratch> scratch_;
    route::Receipt& receipt_;
    ReplyHead& reply_;
    Observer& observer_;
    std::unique_ptr<json::BodyReader> reader_;  // while the body is viewed

    Scene scene_;
    Leg leg_;  // the one that answers, or the last one tried
    route::ServicePtr service_;
    route::Facts facts_;
    std::string served_model_;
    std::string_view body_;
    bool has_prompt_ = false;
    bool is_text_prompt_ = false;  // its tokens are ours, not the client's
    std::optional<json::Edits> edits_;
    std::size_t body_bytes_ = 0;  // as it goes upstream

    std::optional<route::Refusal> refusal_;
    route::Ticket place_;  // in the rule
    route::InFlight in_flight_;
    std::string_view first_part_;  // of the answer; the leg's until it is read on, or scratch_'s
    bool has_first_part_ = false;
    std::uint32_t role_ = route::kAnyRole;  // of a P/D rule: who is asked for whole requests
    std::size_t legs_before_ = 0;           // of the receipt, that dispatch() did not send
    std::uint64_t session_ = 0;             // of a P/D rule; 0 = none
    // Of a split request.
    std::optional<std::size_t> predicted_by_;     // its prefill endpoint
    std::optional<std::uint32_t> cached_tokens_;  // there, for the client's usage
    std::string engine_id_;  // what its engines call it; empty: as the client does
    // A whole answer that is here already.
    struct Ready {
        int status = 200;
        std::vector<std::pair<std::string, std::string>> headers;
        std::string body;
    };
    std::optional<Ready> ready_;
    std::uint64_t cap_us_ = net::kNever;  // max_stream_duration_sec
    std::uint64_t first_byte_us_ = 0;
    int status_ = 0;  // what the client was answered; 0 = nothing
    bool is_stream_counted_ = false;
    bool has_begun_ = false;          // bytes of a split request's answer came
    std::unique_ptr<PdExchange> pd_;  // null: the rule does not split
};

}  // namespace sluice::flow
