#include "core/route/models.hpp"

namespace sluice::route {

std::string_view lora_of(const fleet::Pool& pool, std::string_view served_model,
                         std::string& parent) {
    for (const fleet::Member& member : pool.members()) {
        if (served_model.empty() || !member.endpoint->has_models()) {
            continue;
        }
        const auto models = member.endpoint->models();
        for (const fleet::Model& model : *models) {
            if (model.is_lora && model.name == served_model) {
                parent = model.parent;
                return served_model;
            }
        }
    }
    return {};
}

}  // namespace sluice::route
