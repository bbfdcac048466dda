#include "core/route/kv_plane.hpp"

#include "core/base/clock.hpp"

namespace sluice::route {
namespace {

std::string text(sluice_str s) {
    return s.len == 0 ? std::string() : std::string(s.ptr, s.len);
}

std::string_view mismatch_of(std::uint32_t why) noexcept {
    switch (why) {
        case SLUICE_WHY_BLOCK_SIZE:
            return "mismatch:block_size";
        case SLUICE_WHY_ALGORITHM:
            return "mismatch:hash_algo";
        case SLUICE_WHY_SEED:
            return "mismatch:seed";
        default:
            return {};
    }
}

}  // namespace

bool KvMember::is_warming(std::uint32_t warmup_sec, std::uint64_t now) const noexcept {
    const std::uint64_t since = since_us();
    return warmup_sec > 0 && (since == 0 || now < since + std::uint64_t{warmup_sec} * 1'000'000U);
}

std::string_view KvMember::signal(std::uint32_t warmup_sec, std::uint64_t now) const {
    switch (state()) {
        case SLUICE_KV_REFUSED:
            return "refused";
        case SLUICE_KV_DEAD: {
            const auto words = words_.get();
            return words->reason == "events_off" ? "off" : "dead";
        }
        case SLUICE_KV_UNPROVEN:
            return "doubtful";
        case SLUICE_KV_LIVE:
            if (is_warming(warmup_sec, now)) {
                return "warming";
            }
            return last_event_us() == 0 ? "quiet" : "ok";
        default:
            return "warming";
    }
}

KvMemberPtr KvPlane::member(std::uint64_t endpoint) {
    const std::lock_guard lock(mu_);
    KvMemberPtr& member = members_[endpoint];
    if (!member) {
        member = std::make_shared<KvMember>(endpoint);
        member->state_.store(SLUICE_KV_WAITING, std::memory_order_relaxed);
    }
    return member;
}

KvMemberPtr KvPlane::find(std::uint64_t endpoint) const {
    const std::lock_guard lock(mu_);
    const auto it = members_.find(endpoint);
    return it == members_.end() ? nullptr : it->second;
}

void KvPlane::detach(std::uint64_t endpoint) {
    index_.detach(endpoint);
    const std::lock_guard lock(mu_);
    members_.erase(endpoint);
}

void KvPlane::copy(KvPlane& from, std::uint64_t endpoint) {
    index_.copy(from.index_, endpoint);
    const KvMemberPtr known = from.find(endpoint);
    const KvMemberPtr here = find(endpoint);
    if (!known || !here) {
        return;
    }
    here->since_us_.store(known->since_us());
    here->last_event_us_.store(known->last_event_us());
    here->block_tokens_.store(known->block_tokens());
    here->words_.set(known->words());
    here->state_.store(known->state());
}

void KvPlane::reset(std::uint64_t endpoint, std::uint32_t rank) {
    index_.reset(endpoint, rank);
    // What answers there now has yet to show what its tokens are.
    if (const KvMemberPtr member = find(endpoint)) {
        member->tokens_agree_.store(false, std::memory_order_relaxed);
    }
}

Status KvPlane::apply(const sluice_kv_batch& batch, std::uint32_t* unplaced) {
    const Status status = index_.apply(batch, unplaced);
    const KvMemberPtr member = find(batch.endpoint);
    if (!member) {
        return status;
    }
    if (!status) {
        member->rejects_.fetch_add(1, std::memory_order_relaxed);
        return status;
    }
    const std::uint64_t now = now_us();
    member->last_event_us_.store(now, std::memory_order_relaxed);
    if (member->since_us() == 0) {
        member->since_us_.store(now, std::memory_order_relaxed);
    }
    for (std::uint32_t i = 0; i < batch.events.count; ++i) {
        const auto* event = SLUICE_AT(sluice_kv_event, batch.events, i);
        // A block size without tokens is that of an offload chunk, not of the prompt's blocks.
        if (event->type == SLUICE_KV_STORED && event->num_tokens > 0 && event->block_tokens > 0) {
            member->block_tokens_.store(event->block_tokens, std::memory_order_relaxed);
        }
    }
    return status;
}

void KvPlane::report(const sluice_kv_report& report) {
    index_.report(report);
    const KvMemberPtr member = find(report.endpoint);
    if (!member) {
        return;
    }
    const std::string_view mismatch = mismatch_of(report.why);
    const std::string reason = text(report.reason);
    auto words = std::make_shared<KvWords>(*member->words_.get());
    const std::string_view wrong_size = mismatch_of(SLUICE_WHY_BLOCK_SIZE);
    if (words->attestation == wrong_size &&
        (report.state == SLUICE_KV_WAITING || report.state == SLUICE_KV_LIVE)) {
        words->attestation.clear();  // it begins anew
    }
    if (!mismatch.empty()) {
        words->attestation = mismatch;
    } else if (words->attestation != wrong_size && (reason == "attested" || reason == "unproven")) {
        // Blocks of another size are not attested by a hash that fits them.
        words->attestation = reason;
    }
    if (report.state == SLUICE_KV_SAME) {
        // Only a count, or a word of attestation that changes nothing of the signal.
        member->words_.set(std::move(words));
        return;
    }
    words->reason = reason;
    words->detail = text(report.detail);
    words->advice = text(report.advice);
    member->words_.set(std::move(words));
    member->state_.store(report.state, std::memory_order_relaxed);
    if (report.state == SLUICE_KV_LIVE && member->since_us() == 0) {
        member->since_us_.store(now_us(), std::memory_order_relaxed);
    }
}

}  // namespace sluice::route
