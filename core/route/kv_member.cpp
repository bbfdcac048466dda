#include "core/route/kv_member.hpp"

#include "core/base/clock.hpp"

namespace sluice::route {
namespace {

constexpr std::string_view kWrongSize = "mismatch:block_size";

std::string text(sluice_str s) {
    return s.len == 0 ? std::string() : std::string(s.ptr, s.len);
}

std::string_view mismatch_of(std::uint32_t why) noexcept {
    switch (why) {
        case SLUICE_WHY_BLOCK_SIZE:
            return kWrongSize;
        case SLUICE_WHY_ALGORITHM:
            return "mismatch:hash_algo";
        case SLUICE_WHY_SEED:
            return "mismatch:seed";
        default:
            return {};
    }
}

// Words for a source that does not answer. Others that come with SLUICE_WHY_UNREACHABLE are of its
// replay, or of a link that is up again.
bool is_silent(std::string_view reason) noexcept {
    return reason == "unreachable" || reason == "publisher_connects_out";
}

}  // namespace

std::string_view signal_word(std::uint32_t state, std::uint32_t why,
                             std::string_view reason) noexcept {
    switch (state) {
        case SLUICE_KV_REFUSED:
            return "refused";
        case SLUICE_KV_DEAD:
            if (why == SLUICE_WHY_COMPETITOR) {
                return "stolen";
            }
            return reason == "events_off" ? "off" : "dead";
        case SLUICE_KV_UNPROVEN:
            return "doubtful";
        case SLUICE_KV_LIVE:
            return "ok";
        default:
            return "warming";
    }
}

std::uint32_t KvMember::engine_block_tokens() const noexcept {
    const std::uint32_t seen = block_tokens();
    return seen != 0 ? seen : told_block_tokens_.load(std::memory_order_relaxed);
}

std::uint32_t KvMember::foreign_block_tokens() const noexcept {
    const std::uint32_t declared = declared_.load(std::memory_order_relaxed);
    const std::uint32_t engine = engine_block_tokens();
    return declared == 0 || declared == engine ? 0 : engine;
}

bool KvMember::agrees() const noexcept {
    const std::uint32_t declared = declared_.load(std::memory_order_relaxed);
    return declared != 0 && declared == engine_block_tokens();
}

bool KvMember::is_refused_for_another() const noexcept {
    return agrees() && why_.load(std::memory_order_relaxed) == SLUICE_WHY_BLOCK_SIZE &&
           state_.load(std::memory_order_relaxed) == SLUICE_KV_REFUSED;
}

std::uint32_t KvMember::state() const noexcept {
    if (foreign_block_tokens() != 0) {
        return SLUICE_KV_REFUSED;
    }
    if (is_refused_for_another()) {
        return block_tokens() != 0 ? SLUICE_KV_LIVE : SLUICE_KV_WAITING;
    }
    return state_.load(std::memory_order_relaxed);
}

KvWords KvMember::words() const {
    KvWords out = *words_.get();
    const std::uint32_t engine = foreign_block_tokens();
    if (engine != 0) {
        const std::string declared = std::to_string(declared_.load(std::memory_order_relaxed));
        out.reason = "block_size";
        out.detail = "the engine's blocks have " + std::to_string(engine) +
                     " tokens, the rule says " + declared;
        out.advice = "set kvBlockSize to " + std::to_string(engine) +
                     " or leave it out, or start the engine with blocks of " + declared;
        out.attestation = kWrongSize;
        return out;
    }
    for (const TokensOf kind : {TokensOf::Text, TokensOf::Template}) {
        if (differs(kind)) {
            out.attestation = kind == TokensOf::Text ? "mismatch:tokenizer" : "mismatch:template";
            out.detail = "the engine's token ids of prompts are others than this gateway's";
            out.advice = "give the gateway the tokenizer directory of the engine's model";
            return out;
        }
    }
    if (is_refused_for_another()) {
        out.reason.clear();
        out.detail.clear();
        out.advice.clear();
    }
    if (out.attestation == kWrongSize && agrees()) {
        out.attestation.clear();
    }
    return out;
}

bool KvMember::is_warming(std::uint32_t warmup_sec, std::uint64_t now) const noexcept {
    const std::uint64_t since = since_us();
    return warmup_sec > 0 && (since == 0 || now < since + std::uint64_t{warmup_sec} * 1'000'000U);
}

std::string_view KvMember::signal(std::uint32_t warmup_sec, std::uint64_t now) const {
    const std::uint32_t now_is = state();
    if (now_is == SLUICE_KV_LIVE) {
        if (is_warming(warmup_sec, now)) {
            return "warming";
        }
        return last_event_us() == 0 ? "quiet" : "ok";
    }
    return signal_word(now_is, why_.load(std::memory_order_relaxed), words_.get()->reason);
}

std::string_view KvMember::distrust() const noexcept {
    switch (state()) {
        case SLUICE_KV_REFUSED:
            return "mismatch";
        case SLUICE_KV_DEAD:
            return "stale";
        default:
            return differs(TokensOf::Text) || differs(TokensOf::Template) ? "mismatch" : "";
    }
}

bool KvMember::note_engine_tokens(TokensOf kind, bool is_same) noexcept {
    std::atomic<std::uint32_t>& differ = differ_[static_cast<std::size_t>(kind)];
    if (is_same) {
        differ.store(0, std::memory_order_relaxed);
        note_tokens_agree();
        return false;
    }
    const std::uint32_t now = differ.load(std::memory_order_relaxed);
    if (now >= kManyDiffer) {
        return false;
    }
    const bool begins = differ.fetch_add(1, std::memory_order_relaxed) + 1 == kManyDiffer;
    if (begins) {
        // What the engine itself denies is shown no more.
        tokens_agree_.store(false, std::memory_order_relaxed);
    }
    return begins;
}

bool KvMember::is_connected() const {
    const bool is_off = state_.load(std::memory_order_relaxed) == SLUICE_KV_DEAD &&
                        words_.get()->reason == "events_off";
    return is_linked_.load(std::memory_order_relaxed) && state() != SLUICE_KV_REFUSED && !is_off;
}

void KvMember::set_linked(bool is_up) noexcept {
    const bool was_up = is_linked_.exchange(is_up, std::memory_order_relaxed);
    if (is_up && !was_up && was_linked_.exchange(true, std::memory_order_relaxed)) {
        reconnects_.fetch_add(1, std::memory_order_relaxed);
    }
}

void KvMember::hear(const sluice_kv_report& report) {
    if (report.why < counts_.size()) {
        counts_[report.why].fetch_add(report.count, std::memory_order_relaxed);
    }
    const std::string_view mismatch = mismatch_of(report.why);
    const std::string reason = text(report.reason);
    if (is_silent(reason)) {
        set_linked(false);
    } else if (report.state == SLUICE_KV_LIVE || report.state == SLUICE_KV_UNPROVEN) {
        set_linked(true);
    }
    auto words = std::make_shared<KvWords>(*words_.get());
    if (words->attestation == kWrongSize &&
        (report.state == SLUICE_KV_WAITING || report.state == SLUICE_KV_LIVE)) {
        words->attestation.clear();  // it begins anew
    }
    if (!mismatch.empty()) {
        words->attestation = mismatch;
    } else if (words->attestation != kWrongSize && (reason == "attested" || reason == "unproven")) {
        // Blocks of another size are not attested by a hash that fits them.
        words->attestation = reason;
    }
    if (report.state == SLUICE_KV_SAME) {
        // Only a count, or a word of attestation that changes nothing of the signal.
        words_.set(std::move(words));
        return;
    }
    if (report.state == SLUICE_KV_LIVE && report.why == SLUICE_WHY_LEGACY) {
        words->note = reason.empty() ? "legacy" : reason;
    } else if (report.state == SLUICE_KV_WAITING || report.state == SLUICE_KV_REFUSED) {
        words->note.clear();  // it is admitted anew, or not
    }
    words->reason = reason;
    words->detail = text(report.detail);
    words->advice = text(report.advice);
    words_.set(std::move(words));
    why_.store(report.why, std::memory_order_relaxed);
    state_.store(report.state, std::memory_order_relaxed);
    if (report.state == SLUICE_KV_LIVE && since_us() == 0) {
        since_us_.store(now_us(), std::memory_order_relaxed);
    }
}

void KvMember::events_came(const sluice_kv_batch& batch) {
    const std::uint64_t now = now_us();
    last_event_us_.store(now, std::memory_order_relaxed);
    if (since_us() == 0) {
        since_us_.store(now, std::memory_order_relaxed);
    }
    set_linked(true);
    for (std::uint32_t i = 0; i < batch.events.count; ++i) {
        const auto* event = SLUICE_AT(sluice_kv_event, batch.events, i);
        // A block size without tokens is that of an offload chunk, not of the prompt's blocks.
        if (event->type == SLUICE_KV_STORED && event->num_tokens > 0 && event->block_tokens > 0) {
            block_tokens_.store(event->block_tokens, std::memory_order_relaxed);
        }
    }
}

void KvMember::forget(bool is_all) noexcept {
    // What answers there now has yet to show what its tokens are.
    tokens_agree_.store(false, std::memory_order_relaxed);
    for (std::atomic<std::uint32_t>& differ : differ_) {
        differ.store(0, std::memory_order_relaxed);
    }
    if (is_all) {
        block_tokens_.store(0, std::memory_order_relaxed);
        for (std::atomic<kv::Key>& slot : first_blocks_) {
            slot.store(0, std::memory_order_relaxed);
        }
    }
}

void KvMember::copy(const KvMember& from) {
    since_us_ = from.since_us();
    last_event_us_ = from.last_event_us();
    block_tokens_ = from.block_tokens();
    told_block_tokens_ = from.told_block_tokens_.load();
    is_linked_ = from.is_linked_.load();
    was_linked_ = from.was_linked_.load();
    words_.set(from.words_.get());
    why_ = from.why_.load();
    state_ = from.state_.load();
}

}  // namespace sluice::route
