#include "plugins/trtllm/signal.hpp"

namespace sluice::trtllm {

namespace {

constexpr std::string_view kAdviseRing =
    "raise kv_cache_config.event_buffer_max_size on the engine";
constexpr std::string_view kAdviseAlone =
    "let this gateway alone POST /kv_cache_events: stop the other reader, or let it follow this "
    "gateway's kvRepublish";
constexpr std::string_view kAdviseEvents =
    "set kv_cache_config.event_buffer_max_size above 0 on the engine, and leave "
    "kv_cache_config.kv_events_config.enable_kv_cache_events off";
constexpr std::string_view kAdviseReuse =
    "set kv_cache_config.enable_block_reuse to true on the engine";
constexpr std::string_view kAdviseListen =
    "see that trtllm-serve runs and listens at the endpoint's address and targetPort";
constexpr std::string_view kAdviseEngine =
    "see that targetPort and kvEngineType fit: what answers there is not trtllm-serve, or not "
    "alone";
constexpr std::string_view kAdviseKey =
    "set backend_auth_file: the engine, or what stands before it, asks for a key";

Word word(std::uint32_t state, std::uint32_t why, std::string_view reason = {},
          std::string_view detail = {}, std::string_view advice = {}) {
    return {state, why, SLUICE_ANY, std::string(reason), std::string(detail), std::string(advice)};
}

std::string both(std::string_view a, std::string_view b) {
    return std::string(a) + "; or " + std::string(b);
}

Word unreachable(std::uint32_t state, std::string_view route, std::uint32_t http_code) {
    std::string detail(route);
    std::string_view advice;
    switch (http_code) {
        case 0:
            detail += " gets no reply";
            advice = kAdviseListen;
            break;
        case 200:
            detail += " is answered with something else than its JSON";
            advice = kAdviseEngine;
            break;
        default:
            detail += " is answered " + std::to_string(http_code);
            if (http_code == 401 || http_code == 403) {
                advice = kAdviseKey;
            } else if (http_code < 500) {
                advice = kAdviseEngine;
            }
    }
    return word(state, SLUICE_WHY_UNREACHABLE, "unreachable", detail, advice);
}

Word silent(Silence silence) {
    switch (silence) {
        case Silence::EventsEmpty:
            return word(SLUICE_KV_DEAD, SLUICE_WHY_EVENTS_OFF, "events_empty",
                        "cached tokens are reported, but no events come", kAdviseEvents);
        case Silence::ReuseOff:
            return word(SLUICE_KV_DEAD, SLUICE_WHY_EVENTS_OFF, "reuse_off",
                        "prompts served again report no cached tokens", kAdviseReuse);
        default:
            return word(SLUICE_KV_DEAD, SLUICE_WHY_EVENTS_OFF, "events_empty,reuse_off",
                        "prompts are served, but no events come",
                        both(kAdviseEvents, kAdviseReuse));
    }
}

Word of_gap(const Condition& c) {
    Word out;
    switch (c.gap) {
        case GapJudge::Cause::SecondConsumer:
            return word(SLUICE_KV_DEAD, SLUICE_WHY_COMPETITOR, "second_consumer",
                        "events are missing time and again though the ring cannot have overflowed",
                        kAdviseAlone);
        case GapJudge::Cause::Overflow:
            out = word(SLUICE_KV_UNPROVEN, SLUICE_WHY_GAP, "ring_overflow",
                       "events are missing before full drains", kAdviseRing);
            break;
        case GapJudge::Cause::Unclear:
            out = word(SLUICE_KV_UNPROVEN, SLUICE_WHY_GAP, "ring_overflow,second_consumer",
                       "events are missing", both(kAdviseRing, kAdviseAlone));
            break;
        default:
            out = word(SLUICE_KV_UNPROVEN, SLUICE_WHY_GAP, "gap",
                       "events are missing after a drain whose reply was lost");
            break;
    }
    out.rank = c.gap_rank;
    return out;
}

Word of_admitted(const Condition& c) {
    if (c.gap == GapJudge::Cause::SecondConsumer) {
        return of_gap(c);
    }
    if (c.silence != Silence::None) {
        return silent(c.silence);
    }
    if (c.is_lost) {
        return unreachable(SLUICE_KV_UNPROVEN, "POST /kv_cache_events", c.lost_code);
    }
    if (!c.is_heard) {
        return word(SLUICE_KV_WAITING, SLUICE_WHY_NONE);
    }
    if (c.is_oversize) {
        return word(SLUICE_KV_UNPROVEN, SLUICE_WHY_BLOCK_SIZE, "block_size",
                    "the engine stores blocks of more than " +
                        std::to_string(c.admission.block_tokens) + " tokens",
                    "set kvBlockSize to the engine's kv_cache_config.tokens_per_block");
    }
    if (c.gap != GapJudge::Cause::None) {
        return of_gap(c);
    }
    if (c.is_malformed) {
        return word(SLUICE_KV_UNPROVEN, SLUICE_WHY_MALFORMED, "malformed",
                    "a drain could not be read and is lost");
    }
    if (c.admission.kind == Admission::Kind::Legacy) {
        return word(SLUICE_KV_LIVE, SLUICE_WHY_LEGACY, c.admission.reason, c.admission.detail,
                    c.admission.advice);
    }
    if (c.is_restarted) {
        return word(SLUICE_KV_LIVE, SLUICE_WHY_RESTART, "restart",
                    "the engine restarted; its blocks are learned anew");
    }
    return word(SLUICE_KV_LIVE, SLUICE_WHY_NONE);
}

// Each time it happens, by count().
bool is_counted_apart(std::uint32_t why) noexcept {
    return why == SLUICE_WHY_NONE || why == SLUICE_WHY_GAP || why == SLUICE_WHY_MALFORMED ||
           why == SLUICE_WHY_RESTART;
}

}  // namespace

Word word_of(const Condition& c) {
    switch (c.door) {
        case Condition::Door::Asking:
            return word(SLUICE_KV_WAITING, SLUICE_WHY_NONE);
        case Condition::Door::Unreachable:
            return unreachable(SLUICE_KV_WAITING, "GET /server_info", c.door_code);
        case Condition::Door::Judged:
            break;
    }
    if (!c.is_admitted()) {
        return word(SLUICE_KV_REFUSED, c.admission.why, c.admission.reason, c.admission.detail,
                    c.admission.advice);
    }
    return of_admitted(c);
}

void Signal::say() {
    Word next = word_of(now);
    if (next != said_) {
        report(next, is_counted_apart(next.why) ? 0 : 1);
        said_ = std::move(next);
    }
}

void Signal::count(std::uint32_t why, std::uint64_t n, std::uint32_t rank, std::string_view reason,
                   std::string_view detail, std::string_view advice) const {
    if (n != 0) {
        Word counted = word(SLUICE_KV_SAME, why, reason, detail, advice);
        counted.rank = rank;
        report(counted, n);
    }
}

void Signal::report(const Word& word, std::uint64_t n) const {
    sluice_kv_report out{};
    out.dp_rank = word.rank;
    out.endpoint = endpoint_;
    out.state = word.state;
    out.why = word.why;
    out.count = n;
    out.detail = borrow(word.detail);
    out.reason = borrow(word.reason);
    out.advice = borrow(word.advice);
    host_.report(out);
}

}  // namespace sluice::trtllm
