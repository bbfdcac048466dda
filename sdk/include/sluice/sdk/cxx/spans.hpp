// JSON text cut into the texts of its members, nothing converted: what an engine wrote is handed on
// as it was written, number spellings, key order, escapes and all.
//
// Threads: any; pure functions over the caller's text, which the results borrow.
// Errors:  empty unless the whole text is exactly one object (array), to its last bracket.
// Limits:  none on depth or length: one bit a level, one pass.
#pragma once
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::spans {

struct Span {
    std::string_view name;   // without quotes, escapes as written; empty in an array
    std::string_view value;  // as written, without spaces around it
};

namespace detail {

class Walk {
public:
    explicit Walk(std::string_view text) : text_(text) {}

    std::optional<std::vector<Span>> run(char open) {
        skip_space();
        if (peek() != open) {
            return std::nullopt;
        }
        std::vector<Span> out;
        if (!container(&out)) {
            return std::nullopt;
        }
        skip_space();
        return at_ == text_.size() ? std::optional(std::move(out)) : std::nullopt;
    }

private:
    char peek() const noexcept { return at_ < text_.size() ? text_[at_] : '\0'; }
    void skip_space() noexcept {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' ||
                                      text_[at_] == '\r' || text_[at_] == '\t')) {
            ++at_;
        }
    }

    // From an opening bracket to the one that closes it. Iterative: depth is the sender's choice.
    bool container(std::vector<Span>* outermost) {
        std::vector<bool> is_object{peek() == '{'};
        ++at_;
        bool may_close = true;  // right after an opening bracket or a value
        bool wants_value = true;
        Span top;
        std::size_t value_at = 0;
        while (true) {
            skip_space();
            const bool in_object = is_object.back();
            const char c = peek();
            if (may_close && c == (in_object ? '}' : ']')) {
                ++at_;
                is_object.pop_back();
                if (is_object.empty()) {
                    return true;
                }
                if (is_object.size() == 1 && outermost != nullptr) {
                    top.value = text_.substr(value_at, at_ - value_at);
                    outermost->push_back(top);
                }
                wants_value = false;
                continue;
            }
            if (!wants_value) {
                if (c != ',') {
                    return false;
                }
                ++at_;
                wants_value = true;
                may_close = false;
                continue;
            }
            if (in_object) {
                const std::size_t name_at = at_ + 1;
                if (c != '"' || !string()) {
                    return false;
                }
                const std::string_view name = text_.substr(name_at, at_ - 1 - name_at);
                skip_space();
                if (peek() != ':') {
                    return false;
                }
                ++at_;
                skip_space();
                if (is_object.size() == 1) {
                    top.name = name;
                }
            }
            if (is_object.size() == 1) {
                value_at = at_;
            }
            if (peek() == '{' || peek() == '[') {
                is_object.push_back(peek() == '{');
                ++at_;
                may_close = true;
                continue;
            }
            if (!(peek() == '"' ? string() : word())) {
                return false;
            }
            if (is_object.size() == 1 && outermost != nullptr) {
                top.value = text_.substr(value_at, at_ - value_at);
                outermost->push_back(top);
            }
            wants_value = false;
            may_close = true;
        }
    }

    bool string() noexcept {
        for (++at_; at_ < text_.size(); ++at_) {
            const char c = text_[at_];
            if (c == '"') {
                ++at_;
                return true;
            }
            if (static_cast<unsigned char>(c) < 0x20) {
                return false;
            }
            at_ += c == '\\' ? 1 : 0;
        }
        return false;
    }

    // A number or one of the three words, in any spelling a reader of the engine's may accept.
    bool word() noexcept {
        const std::size_t start = at_;
        while (at_ < text_.size() &&
               ((text_[at_] >= '0' && text_[at_] <= '9') ||
                (text_[at_] >= 'a' && text_[at_] <= 'z') || text_[at_] == '-' ||
                text_[at_] == '+' || text_[at_] == '.' || text_[at_] == 'E')) {
            ++at_;
        }
        const std::string_view w = text_.substr(start, at_ - start);
        const std::size_t digit = w.empty() || w[0] != '-' ? 0 : 1;
        const bool is_number = w.size() > digit && w[digit] >= '0' && w[digit] <= '9' &&
                               w.find_first_not_of("0123456789+-.eE") == std::string_view::npos;
        return is_number || w == "true" || w == "false" || w == "null";
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

}  // namespace detail

inline std::optional<std::vector<Span>> members_of(std::string_view text) {
    return detail::Walk(text).run('{');
}

inline std::optional<std::vector<Span>> elements_of(std::string_view text) {
    return detail::Walk(text).run('[');
}

// The value of the last member of that name, as a reader of the engine's language takes it; empty:
// there is none, or it is null.
inline std::string_view value_of(const std::vector<Span>& members, std::string_view name) {
    std::string_view out;
    for (const Span& m : members) {
        if (m.name == name) {
            out = m.value == "null" ? std::string_view() : m.value;
        }
    }
    return out;
}

// The inside of a text value that needs no unescaping; empty for anything else.
inline std::string_view plain_text(std::string_view value) {
    const bool is_text = value.size() >= 2 && value.front() == '"';
    const std::string_view inside = is_text ? value.substr(1, value.size() - 2) : "";
    return inside.find('\\') == std::string_view::npos ? inside : std::string_view();
}

inline std::optional<std::uint64_t> whole_number(std::string_view value) {
    std::uint64_t n = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
    return error == std::errc() && end == value.data() + value.size() && !value.empty()
               ? std::optional(n)
               : std::nullopt;
}

}  // namespace sluice::spans
