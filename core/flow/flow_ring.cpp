#include "core/flow/flow_ring.hpp"

#include <algorithm>
#include <utility>

namespace sluice::flow {

void FlowRing::push(route::Receipt& receipt) {
    {
        const std::lock_guard lock(mu_);
        std::swap(slots_[next_ % kSlots], receipt);
        ++next_;
    }
    receipt.reset();
}

bool FlowRing::matches(const route::Receipt& r, const FlowQuery& query) {
    const bool is_rule =
        query.rule.empty() || r.rule == query.rule || std::to_string(r.rule_number) == query.rule;
    return is_rule && (query.model.empty() || r.model == query.model) &&
           (query.outcome.empty() || to_string(r.outcome) == query.outcome);
}

FlowRing::Read FlowRing::read(FlowCursor& cursor, const FlowQuery& query,
                              std::vector<route::Receipt>& out) const {
    const std::lock_guard lock(mu_);
    if (next_ > kSlots && cursor.next < next_ - kSlots) {
        return Read::Lost;
    }
    const std::uint64_t end = std::min(next_, cursor.next + kReadStep);
    for (; cursor.next < end; ++cursor.next) {
        const route::Receipt& r = slots_[cursor.next % kSlots];
        if (matches(r, query) && cursor.matched++ % cursor.every == 0) {
            out.push_back(r);
        }
    }
    return cursor.next == next_ ? Read::Done : Read::More;
}

std::string FlowRing::to_json(const FlowQuery& query) const {
    std::vector<route::Receipt> found;
    {
        const std::lock_guard lock(mu_);
        const std::uint64_t oldest = next_ > kSlots ? next_ - kSlots : 0;
        for (std::uint64_t i = next_; i > oldest && found.size() < query.limit; --i) {
            const route::Receipt& r = slots_[(i - 1) % kSlots];
            if (matches(r, query)) {
                found.push_back(r);
            }
        }
    }
    std::string out = "[";
    for (const route::Receipt& r : found) {
        if (out.size() > 1) {
            out += ',';
        }
        out += r.to_json();
    }
    out += ']';
    return out;
}

std::uint64_t FlowRing::pushed() const {
    const std::lock_guard lock(mu_);
    return next_;
}

}  // namespace sluice::flow
