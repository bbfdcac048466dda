#include "core/flow/member_mask.hpp"

#include <algorithm>

namespace sluice::flow {
namespace {

bool is_blank(char c) noexcept {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

}  // namespace

MemberMask::MemberMask(std::span<const std::string> names) : names_(names) {
    for (const std::string& name : names_) {
        if (!name.empty()) {
            is_first_.set(static_cast<unsigned char>(name.front()));
        }
    }
}

MemberMask::Look MemberMask::look(std::string_view text) const noexcept {
    for (const std::string& name : names_) {
        const std::size_t common = std::min(text.size() - 1, name.size());
        if (text.substr(1, common) != std::string_view(name).substr(0, common)) {
            continue;
        }
        std::size_t at = 1 + common;
        if (at == text.size()) {
            return {Look::Is::Cut, 0};
        }
        if (text[at++] != '"') {
            continue;
        }
        bool has_colon = false;
        for (; at < text.size() && (is_blank(text[at]) || (text[at] == ':' && !has_colon)); ++at) {
            has_colon = has_colon || text[at] == ':';
        }
        if (at == text.size()) {
            return {at > kMost ? Look::Is::Other : Look::Is::Cut, 0};
        }
        return {has_colon ? Look::Is::Member : Look::Is::Other, at};
    }
    return {};
}

std::size_t MemberMask::skip(std::string_view text) noexcept {
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        if (is_string_) {
            if (is_escaped_) {
                is_escaped_ = false;
            } else if (c == '\\') {
                is_escaped_ = true;
            } else if (c == '"') {
                is_string_ = false;
                if (depth_ == 0) {
                    is_skipping_ = false;
                    return at + 1;
                }
            }
        } else if (c == '"') {
            is_string_ = true;
        } else if (c == '{' || c == '[') {
            ++depth_;
        } else if (depth_ == 0 && has_begun_ && (c == ',' || c == '}' || c == ']' || is_blank(c))) {
            is_skipping_ = false;  // behind a number or a word
            return at;
        } else if (c == '}' || c == ']') {
            depth_ -= depth_ > 0 ? 1 : 0;
            if (depth_ == 0) {
                is_skipping_ = false;
                return at + 1;
            }
        }
        has_begun_ = true;
    }
    return text.size();
}

// The next quote behind which a name may stand, or come to stand.
std::size_t MemberMask::next_quote(std::string_view text, std::size_t at) const noexcept {
    for (at = text.find('"', at); at != std::string_view::npos; at = text.find('"', at + 1)) {
        if (at + 1 == text.size() || is_first_[static_cast<unsigned char>(text[at + 1])]) {
            return at;
        }
    }
    return text.size();
}

std::string_view MemberMask::apply(std::string_view part, bool last) {
    // The usual case copies nothing.
    if (held_.empty() && !is_skipping_) {
        std::size_t quote = next_quote(part, 0);
        while (quote < part.size() && look(part.substr(quote)).is == Look::Is::Other) {
            quote = next_quote(part, quote + 1);
        }
        if (quote == part.size()) {
            return part;
        }
    }
    const std::string joined = held_.empty() ? std::string() : std::move(held_) + std::string(part);
    const std::string_view text = joined.empty() ? part : std::string_view(joined);
    held_.clear();
    out_.clear();
    out_.reserve(text.size());
    std::size_t at = is_skipping_ ? skip(text) : 0;
    while (at < text.size()) {
        const std::size_t quote = next_quote(text, at);
        out_ += text.substr(at, quote - at);
        at = quote;
        if (at == text.size()) {
            break;
        }
        const Look found = look(text.substr(at));
        if (found.is == Look::Is::Member) {
            out_ += text.substr(at, found.value_at);
            out_ += "null";
            is_skipping_ = true;
            has_begun_ = is_string_ = is_escaped_ = false;
            depth_ = 0;
            at += found.value_at;
            at += skip(text.substr(at));
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
