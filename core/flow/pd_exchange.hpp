// The middle of an exchange on a P/D rule: the adapter says how the request runs, endpoints for
// both legs are chosen before the first is sent, prefill's reply is kept and handed on, and the
// decode leg is left to the exchange to relay.
//
//   plan -> decode chosen -> prefill chosen, perhaps waited for -> prefill -> hand-off -> decode
//
// Where the plan says so both legs run at once: prefill goes on beside the decode leg, and ends it
// if it fails before the answer began.
//
// The client is told nothing before the head of the leg that answers it is in.
//
// Threads: its worker's loop.
// Owns:    the prefill leg, its place in the queue, the hand-off.
// Errors:  as Exchange: false from run() with a refusal noted, or the client gone. Which fault has
//          which cure is pd_faults'.
// Limits:  a prefill reply of Shared::max_prefill_reply_bytes; a longer one is dropped, and decode
//          computes the prompt itself.
// Source:  routing contract, sections 6 and 7; SDK, engine adapter (legs).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/flow/exchange.hpp"
#include "core/flow/leg.hpp"
#include "core/flow/leg_edits.hpp"
#include "core/flow/pd_faults.hpp"
#include "core/flow/prefill_leg.hpp"
#include "core/flow/sdk_request.hpp"
#include "core/route/admission.hpp"
#include "core/route/handoffs.hpp"

namespace sluice::flow {

class PdExchange {
public:
    // After the body was edited: what only engines may say is out of it.
    explicit PdExchange(Exchange& exchange);
    ~PdExchange();
    PdExchange(const PdExchange&) = delete;
    PdExchange& operator=(const PdExchange&) = delete;

    // As Exchange::dispatch().
    net::Task<bool> run();

    // An endpoint without a role could take it.
    bool has_spare() const { return has_other(rules::kRoleWhole, SIZE_MAX); }
    // Two legs answer, or would have.
    bool is_split() const noexcept { return is_split_; }
    // Prefill goes on beside the answer, and may still say what it had cached.
    bool is_prefilling() const noexcept { return is_prefilling_; }
    // A leg may be sent yet, or is on its way up.
    bool needs_body() const noexcept { return is_prefilling_ || is_refused_; }
    // After the answer: blocks that decode was to read and refused are given back.
    net::Task<void> let_go();
    // The first bytes of the decode leg's answer are there: whether they may be of other blocks
    // than the prompt's. Asked again it says the same.
    enum class Reading : std::uint8_t { InTime, TooLate, Halted };
    net::Task<Reading> reading();
    // They go to the client.
    void decode_began();
    // The answer broke off.
    void decode_broke(bool has_bytes);
    void settle();

private:
    enum class Step : std::uint8_t {
        Answered,
        Over,
        Again,
        Plain,
        Rebuilt,  // the same leg at the same endpoint, built anew
    };

    void view_body();
    void read_affinity();
    route::Decision choose(std::uint32_t role);
    bool has_other(std::uint32_t role, std::size_t than) const;
    bool is_fit(std::size_t index) const;
    bool may_finish_at(std::size_t index) const;
    bool holds_prompt(const route::Decision& decode) const;
    bool is_short() const;

    net::Task<bool> run_whole(std::uint32_t role);
    net::Task<Step> pair();
    // Fills prefill_ and what the leg holds; Answered: it may be sent.
    net::Task<Step> admit();
    net::Task<Step> wait_for_place(std::size_t index);
    net::Task<Step> prefill();
    Step build_prefill();
    net::Task<Leg::End> send_prefill();
    void hear_prefill();
    void open_handoff();
    Step act_on_prefill(Leg::End end);
    Step act_on_reply();

    // Both legs at once.
    net::Task<Step> both();
    net::Task<void> prefill_beside();
    void stop_prefill();
    Step fail_with_prefill();
    net::Task<Leg::End> hold_head(Leg::End end);
    net::Task<void> let_read();

    bool enter_decode(Leg& leg);
    net::Task<Step> decode();
    std::uint64_t decode_patience_ms() const noexcept;
    std::uint64_t most_idle_us(bool is_once) const noexcept;
    net::Task<Step> judge_decode_head(Leg::End end);
    Step judge_decode(int status, std::string_view body);
    std::uint32_t next_of(const route::LegAsk& ask, const sluice_reply& reply,
                          sluice_error& err) const;
    std::string_view object_for_decode();
    net::Task<void> release_blocks();
    // `words`: what the client is told in the place of the table's, if it is refused.
    Step cure(PdFault fault, std::string_view words = {});
    Step spare(const PdRefusal& refusal, bool is_prefill_missing);
    Step relay_prefill();
    bool tells_of_engines(std::string_view error) const;
    Step hide_error(int status);
    Step interrupted();
    route::LegAsk ask_of(std::uint32_t kind);
    sluice_status build(LegEdits& edits, const route::LegAsk& ask);
    void note_engine_id(LegEdits& edits);
    void note_prompt_ids();
    bool is_concurrent() const noexcept { return plan_.kind == SLUICE_PLAN_CONCURRENT; }
    void learn_prefix();
    void learn_session();

    // Of one request, both roles. More than retries, endpoints and edits ever come to.
    static constexpr std::uint32_t kMostChoices = 1000;
    // How long a leg is kept that only lets blocks go.
    static constexpr std::uint64_t kReleaseMs = 500;
    // How long an answer is kept back until its prefill engine has said what it let go.
    static constexpr std::uint64_t kWordUs = 10'000'000;
    // What is sent only once goes over a connection that its engine is not about to close: vLLM's
    // server does after 5 s, by its own clock, and a busy one reads late.
    static constexpr std::uint64_t kSureIdleUs = 1'000'000;

    Exchange& x_;
    const rules::PdSpec& spec_;
    PdMetrics::OfModel& metrics_;

    std::string flat_;  // the body, if it was edited
    std::string_view body_;
    const json::Body* view_ = nullptr;
    std::unique_ptr<json::BodyReader> reader_;  // of flat_
    std::optional<SdkRequest> request_;
    route::Chain chain_;

    sluice_plan plan_{};
    bool is_split_ = false;
    bool is_prefill_rebuilt_ = false;
    bool is_decode_rebuilt_ = false;
    std::uint32_t attempt_ = 0;
    std::uint32_t choices_ = 0;
    std::uint64_t transfer_id_ = 0;
    std::uint64_t park_until_us_ = 0;  // 0 = did not wait yet
    std::uint64_t queued_us_ = 0;
    PdSpent spent_;
    std::vector<std::size_t> tried_[3];  // pool indexes by role
    std::optional<std::uint32_t> spare_role_;

    PrefillLeg prefill_leg_;
    std::optional<LegEdits> prefill_edits_;
    route::Slot slot_;
    route::Decision prefill_;
    PrefillLeg::Heard heard_;

    route::Handoff handoff_;
    std::optional<fleet::Load> counts_before_;  // of the prefill engine, if it counts hand-offs
    std::optional<Reading> reading_;
    bool has_object_ = false;
    bool may_release_ = false;

    route::Decision decode_;
    std::uint64_t decode_sent_us_ = 0;
    std::string_view phase_ = "unknown";

    Leg::End prefill_end_ = Leg::End::Head;
    bool is_prefilling_ = false;  // beside the decode leg
    bool is_prefill_bad_ = false;
    bool is_refused_ = false;    // decode turned down what it was handed
    bool is_answering_ = false;  // what the decode leg says goes to the client
    bool is_read_ = false;       // a decode engine answered from what prefill holds
    net::TaskGroup beside_;      // ends first: it uses all of the above
};

}  // namespace sluice::flow
