#include "core/json/edits.hpp"

#include <algorithm>

namespace sluice::json {

void Edits::set_existing(std::string_view name, std::string json) {
    if (const Field* field = body_->find(name)) {
        const auto index = static_cast<std::size_t>(field - body_->fields().data());
        std::erase_if(replacements_, [&](const Replacement& r) { return r.field == index; });
        replacements_.push_back({index, std::move(json)});
    }
}

void Edits::erase(std::string_view name) {
    const auto fields = body_->fields();
    for (std::size_t i = 0; i < fields.size(); ++i) {
        if (fields[i].name == name && !is_erased(i)) {
            erased_.push_back(i);
        }
    }
}

bool Edits::is_erased(std::size_t field) const noexcept {
    return std::find(erased_.begin(), erased_.end(), field) != erased_.end();
}

std::vector<std::string_view> Edits::pieces() const {
    std::vector<std::string_view> out;
    const std::string_view text = body_->text();
    const auto fields = body_->fields();
    std::size_t at = 0;  // first byte not yet copied
    const auto copy_to = [&](std::size_t end) {
        if (end > at) {
            out.push_back(text.substr(at, end - at));
        }
        at = std::max(at, end);
    };
    bool is_first = true;  // no member was kept yet, so no comma is owed
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const json::Field& field = fields[i];
        if (is_erased(i)) {
            // With members kept before it, its comma goes too; else the one behind it does.
            copy_to(is_first || i == 0 ? field.at : fields[i - 1].end());
            at = field.end();
            if (is_first && i + 1 < fields.size()) {
                at = fields[i + 1].at;
            }
            continue;
        }
        is_first = false;
        for (const Replacement& r : replacements_) {
            if (r.field == i) {
                copy_to(field.value_at);
                out.push_back(r.data);
                at = field.end();
            }
        }
    }
    copy_to(text.size());
    return out;
}

std::size_t Edits::size_after() const {
    std::size_t size = 0;
    for (const std::string_view piece : pieces()) {
        size += piece.size();
    }
    return size;
}

}  // namespace sluice::json
