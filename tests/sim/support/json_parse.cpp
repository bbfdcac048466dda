#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "tests/sim/support/json.hpp"
#include "tests/sim/support/utf8.hpp"

namespace sluice::sim::json {
namespace {

class Parser {
public:
    explicit Parser(std::string_view text) : text_(text) {}

    std::variant<Value, ParseError> run() {
        Value v;
        skip_space();
        if (!value(v, 0)) {
            return std::move(error_);
        }
        skip_space();
        if (at_ != text_.size()) {
            (void)fail("Extra data", at_);  // its result is the error we return
            return std::move(error_);
        }
        return v;
    }

private:
    bool fail(const char* message, std::size_t byte) {
        error_ = ParseError{message, utf8::count(text_.substr(0, byte))};
        return false;
    }
    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    void skip_space() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' ||
                                      text_[at_] == '\r' || text_[at_] == '\t')) {
            ++at_;
        }
    }
    bool word(std::string_view w) {
        if (text_.substr(at_, w.size()) != w) {
            return false;
        }
        at_ += w.size();
        return true;
    }

    bool value(Value& out, int depth) {
        if (depth > kMaxDepth) {
            return fail("maximum recursion depth exceeded", at_);
        }
        switch (peek()) {
            case '"': {
                std::string s;
                if (!string(s)) {
                    return false;
                }
                out = Value(std::move(s));
                return true;
            }
            case '{':
                return object(out, depth);
            case '[':
                return array(out, depth);
            default:
                return scalar(out);
        }
    }

    bool scalar(Value& out) {
        if (word("null")) {
            out = Value();
        } else if (word("true")) {
            out = Value(true);
        } else if (word("false")) {
            out = Value(false);
        } else if (word("NaN")) {
            out = Value(std::numeric_limits<double>::quiet_NaN());
        } else if (word("Infinity")) {
            out = Value(std::numeric_limits<double>::infinity());
        } else if (word("-Infinity")) {
            out = Value(-std::numeric_limits<double>::infinity());
        } else {
            return number(out);
        }
        return true;
    }

    std::size_t digits(std::size_t from) const {
        while (from < text_.size() && text_[from] >= '0' && text_[from] <= '9') {
            ++from;
        }
        return from;
    }

    bool number(Value& out) {
        const std::size_t start = at_;
        std::size_t end = start + (peek() == '-' ? 1 : 0);
        const std::size_t int_end = end < text_.size() && text_[end] == '0' ? end + 1 : digits(end);
        if (int_end == end) {
            return fail("Expecting value", start);
        }
        end = int_end;
        if (end < text_.size() && text_[end] == '.' && digits(end + 1) > end + 1) {
            end = digits(end + 1);
        }
        if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
            const bool sign =
                end + 1 < text_.size() && (text_[end + 1] == '+' || text_[end + 1] == '-');
            const std::size_t exp = end + (sign ? 2 : 1);
            end = digits(exp) > exp ? digits(exp) : end;
        }
        const char* first = text_.data() + start;
        const char* last = text_.data() + end;
        at_ = end;
        std::int64_t n = 0;
        if (end == int_end && std::from_chars(first, last, n).ec == std::errc()) {
            out = Value(n);
            return true;
        }
        double d = 0;
        if (std::from_chars(first, last, d).ec != std::errc()) {
            d = *first == '-' ? -HUGE_VAL : HUGE_VAL;
        }
        out = Value(d);
        return true;
    }

    bool hex4(unsigned& out) {
        out = 0;
        if (at_ + 4 > text_.size()) {
            return fail("Invalid \\uXXXX escape", at_ - 1);
        }
        const auto r = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, out, 16);
        if (r.ptr != text_.data() + at_ + 4) {
            return fail("Invalid \\uXXXX escape", at_ - 1);
        }
        at_ += 4;
        return true;
    }

    bool escape(std::string& s) {
        static constexpr std::string_view kFrom = "\"\\/bfnrt";
        static constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
        if (at_ >= text_.size()) {
            return false;
        }
        const char c = text_[at_++];
        if (const auto i = kFrom.find(c); i != std::string_view::npos) {
            s.push_back(kTo[i]);
            return true;
        }
        if (c != 'u') {
            return fail("Invalid \\escape", at_ - 2);
        }
        unsigned high = 0;
        if (!hex4(high)) {
            return false;
        }
        if (high >= 0xD800 && high < 0xDC00 && text_.substr(at_, 2) == "\\u") {
            const std::size_t back = at_;
            at_ += 2;
            unsigned low = 0;
            if (!hex4(low)) {
                return false;
            }
            if (low >= 0xDC00 && low < 0xE000) {
                high = 0x10000 + ((high - 0xD800) << 10U) + (low - 0xDC00);
            } else {
                at_ = back;
            }
        }
        // A lone surrogate has no UTF-8 form; what the engine does with one is no concern here.
        utf8::append(s, high >= 0xD800 && high < 0xE000 ? 0xFFFD : high);
        return true;
    }

    bool string(std::string& s) {
        const std::size_t start = at_++;
        for (;;) {
            const std::size_t from = at_;
            while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
                   static_cast<unsigned char>(text_[at_]) >= 0x20) {
                ++at_;
            }
            s.append(text_.substr(from, at_ - from));
            if (at_ >= text_.size()) {
                return fail("Unterminated string starting at", start);
            }
            const char c = text_[at_++];
            if (c == '"') {
                return true;
            }
            if (c != '\\') {
                return fail("Invalid control character at", at_ - 1);
            }
            if (!escape(s)) {
                return at_ >= text_.size() && error_.message.empty()
                           ? fail("Unterminated string starting at", start)
                           : false;
            }
        }
    }

    bool array(Value& out, int depth) {
        Array items;
        ++at_;
        skip_space();
        if (peek() == ']') {
            ++at_;
            out = Value(std::move(items));
            return true;
        }
        for (;;) {
            items.emplace_back();
            if (!value(items.back(), depth + 1)) {
                return false;
            }
            skip_space();
            const char c = peek();
            if (c != ',' && c != ']') {
                return fail("Expecting ',' delimiter", at_);
            }
            ++at_;
            if (c == ']') {
                out = Value(std::move(items));
                return true;
            }
            skip_space();
        }
    }

    bool object(Value& out, int depth) {
        Object members;
        ++at_;
        skip_space();
        if (peek() == '}') {
            ++at_;
            out = Value(std::move(members));
            return true;
        }
        for (;;) {
            if (peek() != '"') {
                return fail("Expecting property name enclosed in double quotes", at_);
            }
            Member& m = members.emplace_back();
            if (!string(m.key)) {
                return false;
            }
            skip_space();
            if (peek() != ':') {
                return fail("Expecting ':' delimiter", at_);
            }
            ++at_;
            skip_space();
            if (!value(m.value, depth + 1)) {
                return false;
            }
            skip_space();
            const char c = peek();
            if (c != ',' && c != '}') {
                return fail("Expecting ',' delimiter", at_);
            }
            ++at_;
            if (c == '}') {
                out = Value(std::move(members));
                return true;
            }
            skip_space();
        }
    }

    std::string_view text_;
    std::size_t at_ = 0;
    ParseError error_;
};

}  // namespace

std::variant<Value, ParseError> parse(std::string_view utf8) {
    return Parser(utf8).run();
}

}  // namespace sluice::sim::json
