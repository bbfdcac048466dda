#include "core/route/service.hpp"

namespace sluice::route {

std::uint32_t Service::block_tokens(std::size_t i) const noexcept {
    if (rule->kv.block_tokens) {
        return *rule->kv.block_tokens;
    }
    if (i < kv_members.size() && kv_members[i]->block_tokens() != 0) {
        return kv_members[i]->block_tokens();
    }
    const std::uint32_t reported = (*pool)[i].endpoint->block_tokens();
    return reported != 0 ? reported : traits.default_block_tokens;
}

}  // namespace sluice::route
