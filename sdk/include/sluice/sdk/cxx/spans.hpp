// JSON text cut into the texts of its members, nothing converted: what an engine wrote is handed on
// as it was written, number spellings, key order, escapes and all.
//
// Threads: any; pure functions over the caller's text, which the results borrow.
// Errors:  empty unless the whole text is exactly one object (array), to its last bracket.
// Limits:  none on depth or length: one bit a level, one pass.
#pragma once
#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

// A stack of bits; the first 64 take no memory of their own.
class Levels {
public:
    bool empty() const noexcept { return count_ == 0; }
    void push(bool bit) {
        if (count_ != 0 && count_ % 64 == 0) {
            full_.push_back(top_);
        }
        top_ = top_ << 1U | std::uint64_t{bit};
        ++count_;
    }
    bool pop() noexcept {
        const bool bit = (top_ & 1U) != 0;
        top_ >>= 1U;
        --count_;
        if (count_ != 0 && count_ % 64 == 0) {
            top_ = full_.back();
            full_.pop_back();
        }
        return bit;
    }

private:
    std::uint64_t top_ = 0;
    std::size_t count_ = 0;
    std::vector<std::uint64_t> full_;
};

inline constexpr std::uint8_t kOfNumber = 1;
inline constexpr std::uint8_t kOfWord = 2;
// What stands in numbers and in the three words.
inline constexpr std::array<std::uint8_t, 256> kLetters = [] {
    std::array<std::uint8_t, 256> out{};
    for (unsigned char c = 'a'; c <= 'z'; ++c) {
        out[c] = kOfWord;
    }
    for (const char c : std::string_view("0123456789+-.eE")) {
        out[static_cast<unsigned char>(c)] = kOfWord | kOfNumber;
    }
    return out;
}();

// How many bytes at the front are no quote, no backslash and no control character; perhaps fewer at
// the end of `text`.
inline std::size_t plain_bytes(std::string_view text) noexcept {
    if constexpr (std::endian::native != std::endian::little) {
        return 0;
    }
    constexpr std::uint64_t kOnes = 0x0101010101010101U;
    constexpr std::uint64_t kTops = 0x8080808080808080U;
    std::size_t at = 0;
    for (; at + sizeof(std::uint64_t) <= text.size(); at += sizeof(std::uint64_t)) {
        std::uint64_t bytes = 0;
        std::memcpy(&bytes, text.data() + at, sizeof bytes);
        // The top bit of the first byte that is one is set, and none before it.
        const std::uint64_t quote = bytes ^ (kOnes * std::uint64_t{'"'});
        const std::uint64_t slash = bytes ^ (kOnes * std::uint64_t{'\\'});
        const std::uint64_t found = (((quote - kOnes) & ~quote) | ((slash - kOnes) & ~slash) |
                                     ((bytes - kOnes * 0x20U) & ~bytes)) &
                                    kTops;
        if (found != 0) {
            return at + static_cast<std::size_t>(std::countr_zero(found)) / 8;
        }
    }
    return at;
}

class Walk {
public:
    explicit Walk(std::string_view text) : text_(text) {}

    std::optional<std::vector<Span>> run(char open) {
        skip_space();
        if (peek() != open) {
            return std::nullopt;
        }
        std::vector<Span> out;
        out.reserve(kUsualCount);
        if (!container(out)) {
            return std::nullopt;
        }
        skip_space();
        return at_ == text_.size() ? std::optional(std::move(out)) : std::nullopt;
    }

private:
    static constexpr std::size_t kUsualCount = 16;

    char peek() const noexcept { return at_ < text_.size() ? text_[at_] : '\0'; }
    void skip_space() noexcept {
        std::size_t at = at_;
        while (at < text_.size() &&
               (text_[at] == ' ' || text_[at] == '\n' || text_[at] == '\r' || text_[at] == '\t')) {
            ++at;
        }
        at_ = at;
    }

    // From an opening bracket to the one that closes it. Iterative: depth is the sender's choice.
    bool container(std::vector<Span>& outermost) {
        Levels around;  // the containers around the innermost one
        bool in_object = peek() == '{';
        ++at_;
        bool may_close = true;  // right after an opening bracket or a value
        bool wants_value = true;
        Span top;
        std::size_t value_at = 0;
        while (true) {
            skip_space();
            const char c = peek();
            if (may_close && c == (in_object ? '}' : ']')) {
                ++at_;
                if (around.empty()) {
                    return true;
                }
                in_object = around.pop();
                if (around.empty()) {
                    top.value = text_.substr(value_at, at_ - value_at);
                    outermost.push_back(top);
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
                if (around.empty()) {
                    top.name = name;
                }
            }
            if (around.empty()) {
                value_at = at_;
            }
            const char first = peek();
            if (first == '{' || first == '[') {
                around.push(in_object);
                in_object = first == '{';
                ++at_;
                may_close = true;
                continue;
            }
            if (!(first == '"' ? string() : word())) {
                return false;
            }
            if (around.empty()) {
                top.value = text_.substr(value_at, at_ - value_at);
                outermost.push_back(top);
            }
            wants_value = false;
            may_close = true;
        }
    }

    bool string() noexcept {
        for (std::size_t at = at_ + 1; at < text_.size(); ++at) {
            at += plain_bytes(text_.substr(at));
            const char c = at < text_.size() ? text_[at] : '\0';
            if (c == '"') {
                at_ = at + 1;
                return true;
            }
            if (static_cast<unsigned char>(c) < 0x20) {
                return false;
            }
            at += c == '\\' ? 1 : 0;
        }
        return false;
    }

    // A number or one of the three words, in any spelling a reader of the engine's may accept.
    bool word() noexcept {
        const std::size_t start = at_;
        std::size_t at = start;
        std::uint8_t all = kOfNumber | kOfWord;
        while (at < text_.size()) {
            const std::uint8_t is_of = kLetters[static_cast<unsigned char>(text_[at])];
            if (is_of == 0) {
                break;
            }
            all &= is_of;
            ++at;
        }
        at_ = at;
        const std::string_view w = text_.substr(start, at - start);
        const std::size_t digit = w.empty() || w[0] != '-' ? 0 : 1;
        const bool is_number =
            (all & kOfNumber) != 0 && w.size() > digit && w[digit] >= '0' && w[digit] <= '9';
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
