#include "core/route/service.hpp"

namespace sluice::route {

bool watches_kv(const rules::Rule& rule, std::uint32_t role) noexcept {
    return rule.kv.exact_mode == 3 ||
           (rule.kv.exact_mode == 1 && (role == rules::kRolePrefill ||
                                        (role == rules::kRoleDecode && rule.pd.is_conditional)));
}

bool Service::is_kv_watched(std::size_t i) const noexcept {
    return kv != nullptr && watches_kv(*rule, (*pool)[i].spec.role);
}

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
