#include "core/tokens/onig_pattern.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "core/tokens/unicode.hpp"

namespace sluice::tokens {
namespace {

constexpr char32_t kCharEnd = 0x110000;

// A test on the class byte of a character.
struct Class {
    unicode::Mask categories = 0;
    std::uint8_t flags = 0;
    bool is_negated = false;

    bool has(char32_t c) const noexcept {
        const std::uint8_t cls = unicode::class_of(c);
        return (unicode::is_in(cls, categories) || (cls & flags) != 0) != is_negated;
    }
};

std::optional<Class> property(std::string_view name) {
    static constexpr std::array<std::string_view, 30> kNames = {
        "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
        "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};
    if (name == "Han") {
        return Class{0, unicode::kHanBit};
    }
    Class found;
    for (std::size_t i = 0; i < kNames.size(); ++i) {
        if (kNames[i] == name || (name.size() == 1 && kNames[i].starts_with(name))) {
            found.categories |= unicode::Mask{1} << i;
        }
    }
    return found.categories != 0 ? std::optional(found) : std::nullopt;
}

std::optional<Class> shorthand(char letter) {
    switch (letter) {
        case 's':
            return Class{0, unicode::kWhiteBit};
        case 'S':
            return Class{0, unicode::kWhiteBit, true};
        case 'd':
            return Class{unicode::mask(unicode::Category::Nd)};
        case 'D':
            return Class{unicode::mask(unicode::Category::Nd), 0, true};
        case 'w':
            return Class{0, unicode::kWordBit};
        case 'W':
            return Class{0, unicode::kWordBit, true};
        default:
            return std::nullopt;
    }
}

class Rewriter {
public:
    explicit Rewriter(std::string_view in) : in_(in) {}

    Result<std::string> run() {
        while (at_ < in_.size() && !error_) {
            step();
        }
        if (error_) {
            return *std::move(error_);
        }
        return std::move(out_);
    }

private:
    void fail(std::string_view what) {
        if (!error_) {
            error_ = Error{Code::Unsupported,
                           "pattern: " + std::string(what) + " at byte " + std::to_string(at_)};
        }
    }
    bool sees(std::string_view what) const { return in_.substr(at_).starts_with(what); }
    bool take(std::string_view what) {
        if (!sees(what)) {
            return false;
        }
        at_ += what.size();
        return true;
    }

    void put_char(char32_t c) {
        std::array<char, 16> text{};
        std::snprintf(text.data(), text.size(), "\\x{%X}", static_cast<unsigned>(c));
        out_ += text.data();
    }
    // The members of a class as ranges, to go between brackets. Surrogates are no characters.
    void put_ranges(const Class& cls) {
        if (cls.categories != 0 && is_caseless()) {
            fail("a character property within (?i:");
            return;
        }
        const auto has = [&cls](char32_t c) {
            return (c < 0xD800 || c > 0xDFFF) && cls.has(c);
        };
        for (char32_t c = 0; c < kCharEnd; ++c) {
            if (!has(c)) {
                continue;
            }
            const char32_t first = c;
            while (c + 1 < kCharEnd && has(c + 1)) {
                ++c;
            }
            put_char(first);
            if (c != first) {
                out_ += '-';
                put_char(c);
            }
        }
    }

    void step() {
        const char c = in_[at_];
        switch (c) {
            case '\\': {
                ++at_;
                char32_t literal = 0;
                if (const auto cls = escape(literal)) {
                    out_ += '[';
                    put_ranges(*cls);
                    out_ += ']';
                } else if (!error_) {
                    put_char(literal);
                }
                break;
            }
            case '[':
                bracket();
                break;
            case '(':
                group();
                break;
            case '^':
            case '$':
                fail("an anchor is not supported");
                break;
            case '{':
                interval();
                break;
            case ')':
                if (groups_.empty()) {
                    fail("a group that was not opened");
                    break;
                }
                groups_.pop_back();
                out_ += c;
                ++at_;
                break;
            case '|':
            case '*':
            case '+':
            case '?':
            case '.':
                out_ += c;
                ++at_;
                break;
            default: {
                const unicode::Decoded d = unicode::decode(in_.data() + at_);
                put_char(d.value);
                at_ += d.length;
            }
        }
    }

    // After a backslash: a class, or a literal character.
    std::optional<Class> escape(char32_t& literal) {
        if (at_ == in_.size()) {
            fail("ends in a backslash");
            return std::nullopt;
        }
        const char c = in_[at_];
        if (auto cls = shorthand(c)) {
            ++at_;
            return cls;
        }
        if (c == 'p' || c == 'P') {
            ++at_;
            return braces_property(c == 'P');
        }
        static constexpr std::pair<char, char32_t> kControls[] = {
            {'r', '\r'}, {'n', '\n'}, {'t', '\t'}, {'f', '\f'}, {'v', '\v'}, {'a', 7}, {'e', 27}};
        for (const auto& [letter, value] : kControls) {
            if (c == letter) {
                ++at_;
                literal = value;
                return std::nullopt;
            }
        }
        if (c == 'x' || c == 'u') {
            ++at_;
            literal = hex(c == 'u' ? 4 : 2, c == 'x');
            return std::nullopt;
        }
        const unicode::Decoded d = unicode::decode(in_.data() + at_);
        if (d.length == 1 && ((c | 0x20) < 'a' || (c | 0x20) > 'z') && (c < '0' || c > '9')) {
            ++at_;
            literal = d.value;
            return std::nullopt;
        }
        fail("unknown escape");
        return std::nullopt;
    }

    std::optional<Class> braces_property(bool is_negated) {
        const std::size_t close = in_.find('}', at_);
        if (!take("{") || close == std::string_view::npos) {
            fail("\\p without a name");
            return std::nullopt;
        }
        is_negated ^= take("^");
        auto cls = property(in_.substr(at_, close - at_));
        if (!cls) {
            fail("unknown property '" + std::string(in_.substr(at_, close - at_)) + "'");
            return std::nullopt;
        }
        at_ = close + 1;
        cls->is_negated = is_negated;
        return cls;
    }

    char32_t hex(std::size_t digits, bool may_brace) {
        const bool is_braced = may_brace && take("{");
        char32_t value = 0;
        std::size_t count = 0;
        for (; at_ < in_.size() && count < (is_braced ? 6 : digits); ++count, ++at_) {
            const char c = in_[at_];
            const int digit = c >= '0' && c <= '9'   ? c - '0'
                              : c >= 'a' && c <= 'f' ? c - 'a' + 10
                              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                     : -1;
            if (digit < 0) {
                break;
            }
            value = value * 16 + static_cast<char32_t>(digit);
        }
        // Below two digits Oniguruma's \xH means a byte of a multi-byte character.
        if (count == 0 || (!is_braced && count != digits) || (is_braced && !take("}")) ||
            (!is_braced && digits == 2 && value >= 0x80) || value >= kCharEnd ||
            (value >= 0xD800 && value <= 0xDFFF)) {
            fail("a character number that is not clear");
        }
        return value;
    }

    void bracket() {
        ++at_;
        out_ += '[';
        if (take("^")) {
            out_ += '^';
        }
        bool is_first = true;
        while (!error_) {
            if (at_ >= in_.size()) {
                fail("a class without end");
            } else if (sees("]") && !is_first) {
                ++at_;
                out_ += ']';
                return;
            } else if (sees("[") || sees("&&") || sees("]")) {
                fail("a class within a class");
            } else {
                class_item();
            }
            is_first = false;
        }
    }

    // One character, class or range inside brackets.
    void class_item() {
        char32_t first = 0;
        if (const auto cls = class_member(first)) {
            put_ranges(*cls);
            if (sees("-") && !sees("-]")) {
                fail("a range that starts with a class");
            }
            return;
        }
        put_char(first);
        if (!error_ && sees("-") && !sees("-]")) {
            ++at_;
            char32_t last = 0;
            if (at_ >= in_.size() || sees("[") || class_member(last) || last < first) {
                fail("a range that is not clear");
                return;
            }
            out_ += '-';
            put_char(last);
        }
    }
    std::optional<Class> class_member(char32_t& literal) {
        if (take("\\")) {
            return escape(literal);
        }
        const unicode::Decoded d = unicode::decode(in_.data() + at_);
        literal = d.value;
        at_ += d.length;
        return std::nullopt;
    }

    void group() {
        for (const std::string_view open : {"(?:", "(?=", "(?!", "(?>", "(?i:"}) {
            if (take(open)) {
                out_ += open;
                groups_.push_back(open == "(?i:");
                return;
            }
        }
        if (sees("(?") || sees("(*")) {
            fail("this kind of group is not supported");
            return;
        }
        // Nothing refers back to a group, so it need not be captured.
        ++at_;
        out_ += "(?:";
        groups_.push_back(false);
    }
    bool is_caseless() const {
        return std::find(groups_.begin(), groups_.end(), true) != groups_.end();
    }

    // {n}, {n,} and {n,m}; others mean different things to the two engines.
    void interval() {
        std::size_t i = at_ + 1;
        const auto digits = [&] {
            const std::size_t from = i;
            while (i < in_.size() && in_[i] >= '0' && in_[i] <= '9') {
                ++i;
            }
            return i - from;
        };
        bool is_good = digits() != 0;
        if (i < in_.size() && in_[i] == ',') {
            ++i;
            digits();
        }
        is_good = is_good && i < in_.size() && in_[i] == '}' && i - at_ < 12;
        if (!is_good || (i + 1 < in_.size() && (in_[i + 1] == '+' || in_[i + 1] == '?'))) {
            fail("a repeat count that is not clear");
            return;
        }
        out_.append(in_.substr(at_, i + 1 - at_));
        at_ = i + 1;
    }

    std::string_view in_;
    std::size_t at_ = 0;
    std::string out_;
    std::vector<bool> groups_;  // the open ones: is it (?i:
    std::optional<Error> error_;
};

}  // namespace

Result<std::string> to_pcre2(std::string_view pattern) {
    if (pattern.size() > kMaxPatternBytes) {
        return Error{Code::Limit, "pattern is over " + std::to_string(kMaxPatternBytes) + " bytes"};
    }
    return Rewriter(pattern).run();
}

}  // namespace sluice::tokens
