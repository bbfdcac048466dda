#include "plugins/trtllm/feed.hpp"

#include <algorithm>
#include <utility>

#include "plugins/trtllm/abandoned.hpp"

namespace sluice::trtllm {

namespace {

bool is_empty_list(std::string_view body) noexcept {
    std::string_view marks = "[]";
    for (const char c : body) {
        if (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
            continue;
        }
        if (marks.empty() || c != marks.front()) {
            return false;
        }
        marks.remove_prefix(1);
    }
    return marks.empty();
}

}  // namespace

Feed::Feed(Owner& owner, const Host& host, Signal& signal, std::uint64_t endpoint,
           std::string base_url)
    : owner_(owner),
      host_(host),
      signal_(signal),
      endpoint_(endpoint),
      base_url_(std::move(base_url)),
      translator_(Translator::Options{}) {}

Feed::~Feed() {
    stop();
}

void Feed::start(std::uint32_t block_tokens) {
    translator_.set_block_tokens(block_tokens);
    if (!is_running_) {
        is_running_ = true;
        attestor_.forget();  // a refusal took back what was attested
        wait(wait_for_abandoned_us(base_url_, host_.now_us()));
    }
}

void Feed::stop() {
    is_running_ = false;
    timer_.cancel();
    if (call_.running()) {
        call_.cancel();
        const std::uint64_t now = host_.now_us();
        note_abandoned(base_url_, now + pace_.engine_needs_us(now - begun_us_), now);
        reply_was_lost_ = true;
    }
}

void Feed::engine_changed() {
    translator_.forget();
    gaps_.forget();
    attestor_.forget();
    has_events_ = false;
    reply_was_lost_ = false;
    answered_ = 0;
    losses_ = 0;
    readable_ = 0;
}

void Feed::wait(std::uint64_t delay_us) {
    if (!timer_.start(host_, delay_us, 0, [this] { drain(); })) {
        host_.fail(SLUICE_E_UNAVAILABLE, "cannot start a timer");
    }
}

void Feed::drain() {
    if (const std::uint64_t more = wait_for_abandoned_us(base_url_, host_.now_us()); more != 0) {
        wait(more);
        return;
    }
    HttpAsk ask;
    ask.endpoint = endpoint_;
    ask.method = "POST";
    ask.target = "/kv_cache_events";
    ask.timeout_us = pace_.timeout_us();
    ask.max_body_bytes = pace_.max_body_bytes();
    begun_us_ = host_.now_us();
    const Started started =
        call_.start(host_, ask, [this](const sluice_http_result& r) { on_reply(r); });
    if (!started) {
        pace_.ended(Pace::Outcome::Failed, 0);
        wait(pace_.delay_us());
    }
}

void Feed::on_reply(const sluice_http_result& r) {
    owner_.call_ended(r);
    if (!is_running_) {
        return;
    }
    const std::uint64_t took_us = host_.now_us() - begun_us_;
    if (r.status == SLUICE_OK && r.http_code == 200) {
        ++answered_;
        failing_since_us_ = 0;
        signal_.now.is_heard = true;
        signal_.now.is_lost = false;
        pace_.ended(take(text(r.body)), took_us);
    } else if (r.http_code == 200 || r.status == SLUICE_E_LIMIT) {
        if (r.status == SLUICE_E_LIMIT) {
            pace_.body_too_long();
        }
        lost(r.status == SLUICE_E_LIMIT ? "a drain was longer than its limit"
                                        : "a drain broke off");
        pace_.ended(Pace::Outcome::Failed, 0);
    } else {
        failed(r);
    }
    if (is_running_) {
        signal_.say();
        wait(pace_.delay_us());
    }
}

// No usable reply: what is known stands, and the next number tells whether anything was lost.
void Feed::failed(const sluice_http_result& r) {
    if (r.http_code == 500 && !signal_.now.is_heard && !owner_.has_served() &&
        signal_.now.admission.kind == Admission::Kind::Legacy) {
        // Early builds have nothing to drain from before their first request.
        pace_.ended(Pace::Outcome::NotYet, 0);
        return;
    }
    const bool is_timeout = r.status == SLUICE_E_TIMEOUT && r.http_code == 0;
    reply_was_lost_ = reply_was_lost_ || r.http_code == 0 || r.http_code >= 500;
    pace_.ended(is_timeout ? Pace::Outcome::TimedOut : Pace::Outcome::Failed, 0);
    const std::uint64_t now = host_.now_us();
    if (is_timeout) {
        note_abandoned(base_url_, now + pace_.engine_needs_us(), now);
        return;  // builds that collect while events flow: nothing yet; look() named the time
    }
    if (failing_since_us_ == 0) {
        failing_since_us_ = now;
    }
    if (now - failing_since_us_ >= kLostAfterUs) {
        signal_.now.is_lost = true;
        signal_.now.lost_code = r.http_code;
    }
}

void Feed::lost(std::string_view why) {
    translator_.lost();
    host_.reset(endpoint_, SLUICE_ANY);
    has_events_ = true;
    ++losses_;
    readable_ = 0;
    signal_.count(SLUICE_WHY_MALFORMED, 1);
    if (!std::exchange(signal_.now.is_malformed, true)) {
        host_.warn("kv drain lost", {{"endpoint", endpoint_}, {"why", why}});
    }
}

void Feed::look() {
    if (call_.running() && host_.now_us() - begun_us_ >= pace_.overdue_us()) {
        signal_.now.is_lost = true;
        signal_.now.lost_code = 0;
    }
}

Pace::Outcome Feed::take(std::string_view body) {
    if (is_empty_list(body)) {
        return Pace::Outcome::Empty;
    }
    Drained drained;
    if (!decode(body, drained)) {
        lost(drained.fault);
        return Pace::Outcome::Failed;  // an engine that goes on so is not asked in a hurry
    }
    if (drained.events.empty()) {
        return Pace::Outcome::Empty;
    }
    has_events_ = true;
    if (!settle_block_tokens(drained)) {
        return Pace::Outcome::Events;
    }
    const Translated out = translator_.translate(drained);
    if (out.highest_rank >= ranks_) {
        ranks_ = out.highest_rank + 1;
        owner_.ranks_seen(ranks_);
    }
    apply(out, drained.events.size());
    reply_was_lost_ = false;
    return Pace::Outcome::Events;
}

bool Feed::settle_block_tokens(const Drained& drained) {
    const auto shown = Translator::shown_block_tokens(drained);
    if (!shown) {
        return true;
    }
    if (std::exchange(signal_.now.is_oversize, false)) {
        attestor_.forget();
    }
    if (*shown == translator_.options().block_tokens) {
        return true;
    }
    // What was stored until now was cut in blocks of a wrong size.
    translator_.lost();
    host_.reset(endpoint_, SLUICE_ANY);
    if (!owner_.block_tokens_shown(*shown)) {
        return false;
    }
    translator_.set_block_tokens(*shown);
    return true;
}

void Feed::apply(const Translated& out, std::size_t length) {
    bool has_gap = false;
    bool is_restart = false;
    for (const Step& step : out.steps) {
        has_gap = has_gap || step.reset == Step::Reset::Gap;
        is_restart = is_restart || step.reset == Step::Reset::Regression;
        apply_step(step, length);
    }
    if (signal_.now.is_restarted && !is_restart && ++calm_ >= GapJudge::kHealDrains) {
        signal_.now.is_restarted = false;
    }
    if (!has_gap && gaps_.calm(length)) {
        signal_.now.gap = GapJudge::Cause::None;
    }
    if (!has_gap && !is_restart && gaps_.cause() == GapJudge::Cause::None) {
        read_again();
    }
    count(out);
    if (out.foreign_algo) {
        owner_.algo_shown(*out.foreign_algo);
    }
    if (out.is_oversize && is_running_) {
        signal_.now.is_oversize = true;
        owner_.size_is_odd();
    }
    if (is_restart && is_running_) {
        owner_.restarted();
    }
}

// One reply that was lost is made good by the next; where it happens again and again, it takes
// more.
void Feed::read_again() {
    readable_ = std::min(readable_ + 1, GapJudge::kHealDrains);
    const bool is_over = readable_ == GapJudge::kHealDrains;
    if (losses_ <= 1 || is_over) {
        signal_.now.is_malformed = false;
    }
    if (is_over) {
        losses_ = 0;
    }
}

void Feed::apply_step(const Step& step, std::size_t length) {
    switch (step.reset) {
        case Step::Reset::None:
            break;
        case Step::Reset::OtherPool:
            host_.reset(endpoint_, step.rank);
            break;
        case Step::Reset::Gap:
            host_.reset(endpoint_, step.rank);
            signal_.now.gap = gaps_.gap(length, reply_was_lost_);
            signal_.now.gap_rank = step.rank;
            signal_.count(SLUICE_WHY_GAP, step.got - step.expected, step.rank);
            break;
        case Step::Reset::Regression:
            host_.reset(endpoint_, step.rank);
            gaps_.forget();
            signal_.now.gap = GapJudge::Cause::None;
            signal_.now.is_restarted = true;
            calm_ = 0;
            signal_.count(SLUICE_WHY_RESTART, 1, step.rank);
            break;
    }
    if (step.events.empty()) {
        return;
    }
    sluice_kv_batch batch{};
    batch.dp_rank = step.rank;
    batch.endpoint = endpoint_;
    batch.seq = step.last_id;
    batch.events = array_of(std::span<const sluice_kv_event>(step.events));
    if (const Started applied = host_.apply(batch); !applied) {
        host_.warn("kv batch not applied",
                   {{"endpoint", endpoint_}, {"rank", step.rank}, {"error", applied.what}});
        host_.reset(endpoint_, step.rank);
    }
}

void Feed::count(const Translated& out) {
    std::uint64_t partial = 0;
    std::uint64_t not_lookup = 0;
    std::uint64_t foreign = 0;
    for (const NotIndexed& n : out.not_indexed) {
        partial += n.why == LeftOut::Partial ? 1 : 0;
        foreign += n.why == LeftOut::ForeignHash ? 1 : 0;
        not_lookup += n.why != LeftOut::Partial && n.why != LeftOut::ForeignHash ? 1 : 0;
    }
    signal_.count(SLUICE_WHY_PARTIAL, partial);
    signal_.count(SLUICE_WHY_NOT_LOOKUP, not_lookup + foreign);
    signal_.count(SLUICE_WHY_UNKNOWN, out.unknown_type + out.other_ranks);
    signal_.count(SLUICE_WHY_LATE_JOIN, out.late_joins.size());
    if (const auto word = attestor_.see(out.indexed, foreign)) {
        if (*word == Attestation::Attested) {
            signal_.count(SLUICE_WHY_NONE, 1, SLUICE_ANY, "attested", "v1_block_key");
        } else {
            signal_.count(SLUICE_WHY_ALGORITHM, 1, SLUICE_ANY, "hash_algo",
                          "no block has the hash of its tokens: adapters or hidden salts alone, or "
                          "another algorithm",
                          "set kv_cache_config.kv_cache_event_hash_algo to v1_block_key on the "
                          "engine");
        }
    }
}

}  // namespace sluice::trtllm
