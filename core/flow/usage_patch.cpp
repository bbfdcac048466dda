#include "core/flow/usage_patch.hpp"

#include <algorithm>

namespace sluice::flow {
namespace {

constexpr std::string_view kName = "\"cached_tokens\"";
constexpr std::size_t kMost = 63;  // name, colon, blanks and digits; a longer one is left alone

// How `text` begins: with the whole of it (where the digits are), with what may become it, or
// with something else.
struct Look {
    enum class Is { Whole, Cut, Other } is = Is::Other;
    std::size_t digits_at = 0;
    std::size_t digits_end = 0;
};

bool is_blank(char c) noexcept {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}

Look look(std::string_view text) noexcept {
    const std::size_t common = std::min(text.size(), kName.size());
    if (text.substr(0, common) != kName.substr(0, common)) {
        return {};
    }
    std::size_t at = common;
    const auto skip = [&](auto&& is_one) {
        while (at < text.size() && is_one(text[at])) {
            ++at;
        }
    };
    skip(is_blank);
    bool has_colon = false;
    if (at < text.size() && common == kName.size()) {
        has_colon = text[at] == ':';
        if (!has_colon) {
            return {};
        }
        ++at;
        skip(is_blank);
    }
    const std::size_t digits = at;
    skip(is_digit);
    if (at == text.size()) {
        return {at > kMost ? Look::Is::Other : Look::Is::Cut, digits, at};
    }
    const bool is_number = has_colon && at > digits;
    return {is_number ? Look::Is::Whole : Look::Is::Other, digits, at};
}

// The next quote behind which the name may stand, or come to stand.
std::size_t next_quote(std::string_view text, std::size_t at) noexcept {
    for (at = text.find('"', at); at != std::string_view::npos; at = text.find('"', at + 1)) {
        const bool is_cut = at + 2 >= text.size();
        if ((at + 1 == text.size() || text[at + 1] == kName[1]) &&
            (is_cut || text[at + 2] == kName[2])) {
            return at;
        }
    }
    return text.size();
}

}  // namespace

std::string_view UsagePatch::apply(std::string_view part, bool last) {
    // The usual case copies nothing.
    if (held_.empty() && next_quote(part, 0) == part.size()) {
        return part;
    }
    const std::string text = std::move(held_) + std::string(part);
    held_.clear();
    out_.clear();
    out_.reserve(text.size() + 16);
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t quote = next_quote(text, at);
        out_.append(text, at, quote - at);
        at = quote;
        if (at == text.size()) {
            break;
        }
        const Look found = look(std::string_view(text).substr(at));
        if (found.is == Look::Is::Whole && cached_tokens_) {
            out_.append(text, at, found.digits_at);
            out_ += std::to_string(*cached_tokens_);
            at += found.digits_end;
        } else if (found.is == Look::Is::Cut && !last) {
            held_ = text.substr(at);
            break;
        } else {
            out_ += '"';
            ++at;
        }
    }
    return out_;
}

}  // namespace sluice::flow
