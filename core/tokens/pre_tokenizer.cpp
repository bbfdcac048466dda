#include "core/tokens/pre_tokenizer.hpp"

#include <algorithm>

namespace sluice::tokens {

bool PreTokenizer::depends_on_start() const noexcept {
    return std::any_of(stages_.begin(), stages_.end(),
                       [](const Stage& s) { return s.prefix_when == Prefix::First; });
}

std::string PreTokenizer::changed(const Stage& stage, std::string_view piece, bool is_at_start) {
    std::string body;
    if (!stage.mark.empty()) {
        body.reserve(piece.size() + piece.size() / 2);
        for (const char c : piece) {
            if (c == ' ') {
                body += stage.mark;
            } else {
                body += c;
            }
        }
    } else {
        body = piece;
    }
    const bool wants_prefix =
        stage.prefix_when == Prefix::Always || (stage.prefix_when == Prefix::First && is_at_start);
    if (wants_prefix && !body.empty() && !body.starts_with(stage.prefix)) {
        body.insert(0, stage.prefix);
    }
    return body;
}

}  // namespace sluice::tokens
