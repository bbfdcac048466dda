#include "core/tokens/normalizer.hpp"

#include "core/tokens/nfc.hpp"

namespace sluice::tokens {
namespace {

void append_replaced(std::string_view text, const std::string& pattern, const std::string& content,
                     std::string& out) {
    std::size_t at = 0;
    for (;;) {
        const std::size_t found = text.find(pattern, at);
        out.append(text.substr(at, found - at));
        if (found == std::string_view::npos) {
            return;
        }
        out.append(content);
        at = found + pattern.size();
    }
}

}  // namespace

std::string_view Normalizer::apply(std::string_view segment, std::string& buffer) const {
    std::string_view now = segment;
    for (const Step& step : steps_) {
        std::string next;
        switch (step.kind) {
            case Kind::Nfc:
                if (is_nfc_quick(now)) {
                    continue;
                }
                next.reserve(now.size());
                append_nfc(now, next);
                break;
            case Kind::Replace:
                if (now.find(step.pattern) == std::string_view::npos) {
                    continue;
                }
                next.reserve(now.size() + now.size() / 2);
                append_replaced(now, step.pattern, step.content, next);
                break;
            case Kind::Prepend:
                if (now.empty()) {
                    continue;
                }
                next.reserve(step.content.size() + now.size());
                next.append(step.content).append(now);
                break;
        }
        buffer = std::move(next);
        now = buffer;
    }
    return now;
}

}  // namespace sluice::tokens
