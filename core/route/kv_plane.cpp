#include "core/route/kv_plane.hpp"

namespace sluice::route {

KvMemberPtr KvPlane::member(std::uint64_t endpoint) {
    const std::lock_guard lock(mu_);
    KvMemberPtr& member = members_[endpoint];
    if (!member) {
        member = std::make_shared<KvMember>(endpoint);
        member->declare(declared_);
    }
    return member;
}

void KvPlane::declare(std::uint32_t block_tokens) {
    const std::lock_guard lock(mu_);
    declared_ = block_tokens;
    for (const auto& [endpoint, member] : members_) {
        member->declare(block_tokens);
    }
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
    if (known && here) {
        here->copy(*known);
    }
}

void KvPlane::reset(std::uint64_t endpoint, std::uint32_t rank) {
    index_.reset(endpoint, rank);
    if (const KvMemberPtr member = find(endpoint)) {
        member->forget(rank == SLUICE_ANY);
    }
}

void KvPlane::facts(std::uint64_t endpoint, std::uint32_t block_tokens) {
    const KvMemberPtr member = block_tokens == 0 ? nullptr : find(endpoint);
    if (member) {
        member->told_block_tokens(block_tokens);
    }
}

// Blocks of a size that the rule does not declare are kept like others: the operator may correct
// the rule, and the engine does not tell them again.
Status KvPlane::apply(const sluice_kv_batch& batch, std::uint32_t* unplaced) {
    const Status status = index_.apply(batch, unplaced);
    if (const KvMemberPtr member = find(batch.endpoint)) {
        if (status) {
            member->events_came(batch);
        } else {
            member->batch_refused();
        }
    }
    return status;
}

void KvPlane::report(const sluice_kv_report& report) {
    index_.report(report);
    if (const KvMemberPtr member = find(report.endpoint)) {
        member->hear(report);
    }
}

}  // namespace sluice::route
