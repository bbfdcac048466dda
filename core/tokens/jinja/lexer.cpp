#include "core/tokens/jinja/lexer.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/tokens/jinja/unicode.hpp"

namespace sluice::tokens::jinja {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
}
bool is_name(char c) {
    return is_name_start(c) || is_digit(c);
}

class Lexer {
public:
    Lexer(std::string_view source, std::deque<std::string>& pool) : src_(source), pool_(pool) {}

    Result<TokenStream> run() {
        while (!error_ && pos_ < src_.size()) {
            text();
        }
        if (error_) {
            return std::move(*error_);
        }
        push(Tok::End, {});
        return std::move(out_);
    }

private:
    void fail(std::string what) {
        if (!error_) {
            error_ = Error{Code::Invalid, "line " + std::to_string(line_) + ": " + what};
        }
        pos_ = src_.size();
    }
    void push(Tok kind, std::string_view text) { out_.tokens.push_back(Token{kind, line_, text}); }
    // Moves to `to`, counting lines.
    void advance(std::size_t to) {
        line_ += static_cast<std::uint32_t>(
            std::count(src_.begin() + static_cast<std::ptrdiff_t>(pos_),
                       src_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
        pos_ = to;
    }
    bool at(std::string_view what) const { return src_.substr(pos_, what.size()) == what; }
    std::size_t skip_space(std::size_t at) const {
        return src_.size() - strip_left(src_.substr(at)).size();
    }

    // The text before a tag that begins with `sign` after its two characters.
    std::string_view trimmed(std::string_view text, char sign, bool may_lstrip) const {
        if (sign == '-') {
            return strip_right(text);
        }
        if (sign == '+' || !may_lstrip) {
            return text;
        }
        const std::size_t newline = text.rfind('\n');
        const std::size_t line_at = newline == std::string_view::npos ? 0 : newline + 1;
        if ((line_at > 0 || line_starting_) && strip_left(text.substr(line_at)).empty()) {
            return text.substr(0, line_at);
        }
        return text;
    }
    void add_text(std::string_view text) {
        if (!text.empty()) {
            push(Tok::Text, text);
        }
    }
    // After a tag's end at pos_: what "-", "+" and trim_blocks take.
    void after_block(bool minus, bool plus) {
        if (minus) {
            advance(skip_space(pos_));
        } else if (!plus && pos_ < src_.size() && src_[pos_] == '\n') {
            advance(pos_ + 1);
        }
        line_starting_ = src_[pos_ - 1] == '\n';
    }

    void text();
    void comment();
    bool raw_block(std::size_t after_sign);
    void expression(bool is_block);
    void one_token();
    void string();
    void number();

    std::string_view src_;
    std::deque<std::string>& pool_;
    TokenStream out_;
    std::optional<Error> error_;
    std::size_t pos_ = 0;
    std::uint32_t line_ = 1;
    bool line_starting_ = true;
};

void Lexer::text() {
    std::size_t tag = pos_;
    for (;;) {
        tag = src_.find('{', tag);
        if (tag == std::string_view::npos || tag + 1 >= src_.size()) {
            add_text(src_.substr(pos_));
            pos_ = src_.size();
            return;
        }
        const char c = src_[tag + 1];
        if (c == '{' || c == '%' || c == '#') {
            break;
        }
        ++tag;
    }
    const char type = src_[tag + 1];
    const char sign = tag + 2 < src_.size() ? src_[tag + 2] : '\0';
    const bool is_signed = sign == '-' || sign == '+';
    add_text(trimmed(src_.substr(pos_, tag - pos_), is_signed ? sign : '\0', type != '{'));
    advance(tag + 2 + (is_signed ? 1 : 0));
    line_starting_ = false;
    if (type == '#') {
        comment();
    } else if (type == '{') {
        push(Tok::VarBegin, {});
        expression(false);
    } else if (!raw_block(pos_)) {
        push(Tok::BlockBegin, {});
        expression(true);
    }
}

void Lexer::comment() {
    const std::size_t end = src_.find("#}", pos_);
    if (end == std::string_view::npos) {
        fail("a comment is not closed");
        return;
    }
    const char before = end > pos_ ? src_[end - 1] : '\0';
    advance(end + 2);
    after_block(before == '-', before == '+');
}

// `{% raw %}` up to `{% endraw %}`; false if this block is another one.
bool Lexer::raw_block(std::size_t after_sign) {
    std::size_t at = skip_space(after_sign);
    if (src_.substr(at, 3) != "raw") {
        return false;
    }
    at = skip_space(at + 3);
    const bool minus = src_.substr(at, 3) == "-%}";
    if (!minus && src_.substr(at, 2) != "%}") {
        return false;
    }
    at += minus ? 3 : 2;
    advance(minus ? skip_space(at) : at);
    for (std::size_t tag = src_.find("{%", pos_); tag != std::string_view::npos;
         tag = src_.find("{%", tag + 2)) {
        std::size_t p = tag + 2;
        const char sign = p < src_.size() && (src_[p] == '-' || src_[p] == '+') ? src_[p] : '\0';
        p = skip_space(p + (sign != '\0' ? 1 : 0));
        if (src_.substr(p, 6) != "endraw") {
            continue;
        }
        p = skip_space(p + 6);
        const char end_sign =
            p < src_.size() && (src_[p] == '-' || src_[p] == '+') ? src_[p] : '\0';
        p += end_sign != '\0' ? 1 : 0;
        if (src_.substr(p, 2) != "%}") {
            continue;
        }
        line_starting_ = false;
        add_text(trimmed(src_.substr(pos_, tag - pos_), sign, true));
        advance(p + 2);
        after_block(end_sign == '-', end_sign == '+');
        return true;
    }
    fail("a raw block is not closed");
    return true;
}

void Lexer::expression(bool is_block) {
    std::string open;  // the brackets still open: an end tag inside them is no end tag
    for (;;) {
        advance(skip_space(pos_));
        if (error_) {
            return;
        }
        if (pos_ >= src_.size()) {
            fail("a tag is not closed");
            return;
        }
        if (open.empty()) {
            const std::string_view end = is_block ? "%}" : "}}";
            const char c = src_[pos_];
            const bool is_signed =
                (c == '-' || (c == '+' && is_block)) && src_.substr(pos_ + 1, 2) == end;
            if (is_signed || at(end)) {
                push(is_block ? Tok::BlockEnd : Tok::VarEnd, {});
                advance(pos_ + 2 + (is_signed ? 1 : 0));
                if (is_block) {
                    after_block(is_signed && c == '-', is_signed && c == '+');
                } else {
                    if (is_signed) {
                        advance(skip_space(pos_));
                    }
                    line_starting_ = src_[pos_ - 1] == '\n';
                }
                return;
            }
        }
        const char c = src_[pos_];
        if (c == '(' || c == '[' || c == '{') {
            open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
        } else if (c == ')' || c == ']' || c == '}') {
            if (open.empty() || open.back() != c) {
                fail(std::string("unexpected '") + c + "'");
                return;
            }
            open.pop_back();
        }
        one_token();
    }
}

void Lexer::one_token() {
    const char c = src_[pos_];
    if (is_name_start(c)) {
        std::size_t end = pos_;
        while (end < src_.size() && is_name(src_[end])) {
            ++end;
        }
        push(Tok::Name, src_.substr(pos_, end - pos_));
        pos_ = end;
        return;
    }
    if (is_digit(c)) {
        number();
        return;
    }
    if (c == '\'' || c == '"') {
        string();
        return;
    }
    static constexpr std::string_view kDouble[] = {"//", "**", "==", "!=", ">=", "<="};
    for (const std::string_view op : kDouble) {
        if (at(op)) {
            push(Tok::Op, op);
            pos_ += 2;
            return;
        }
    }
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) {
        fail(std::string("unexpected char '") + c + "'");
        return;
    }
    push(Tok::Op, src_.substr(pos_, 1));
    ++pos_;
}

void Lexer::number() {
    std::string digits;
    std::size_t p = pos_;
    const auto take = [&](auto accepts) {
        while (p < src_.size() && (accepts(src_[p]) || (src_[p] == '_' && p + 1 < src_.size() &&
                                                        accepts(src_[p + 1])))) {
            if (src_[p] != '_') {
                digits.push_back(src_[p]);
            }
            ++p;
        }
    };
    if (src_[p] == '0' && p + 1 < src_.size() &&
        std::string_view("xXoObB").find(src_[p + 1]) != std::string_view::npos) {
        const char radix = static_cast<char>(src_[p + 1] | 0x20);
        const int base = radix == 'x' ? 16 : radix == 'o' ? 8 : 2;
        p += 2;
        take([base](char c) {
            const int v = is_digit(c)                                ? c - '0'
                          : ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') ? (c | 0x20) - 'a' + 10
                                                                     : 99;
            return v < base;
        });
        std::int64_t value = 0;
        const auto [end, ec] =
            std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
        if (ec != std::errc() || end != digits.data() + digits.size() || digits.empty()) {
            fail("a number of this base is wrong or too large");
            return;
        }
        push(Tok::Integer, pool_.emplace_back(std::to_string(value)));
        pos_ = p;
        return;
    }
    take(is_digit);
    bool is_float = false;
    const bool after_dot = pos_ > 0 && src_[pos_ - 1] == '.';
    if (!after_dot && p + 1 < src_.size() && src_[p] == '.' && is_digit(src_[p + 1])) {
        is_float = true;
        digits.push_back('.');
        ++p;
        take(is_digit);
    }
    if (!after_dot && p < src_.size() && (src_[p] | 0x20) == 'e') {
        std::size_t q = p + 1;
        if (q < src_.size() && (src_[q] == '+' || src_[q] == '-')) {
            ++q;
        }
        if (q < src_.size() && is_digit(src_[q])) {
            is_float = true;
            digits.append(src_.substr(p, q - p));
            p = q;
            take(is_digit);
        }
    }
    if (!is_float && digits.size() > 1 && digits[0] == '0' &&
        digits.find_first_not_of('0') != std::string::npos) {
        fail("an integer must not begin with 0");
        return;
    }
    push(is_float ? Tok::Float : Tok::Integer, pool_.emplace_back(std::move(digits)));
    pos_ = p;
}

void Lexer::string() {
    const char quote = src_[pos_];
    std::size_t p = pos_ + 1;
    bool is_escaped = false;
    while (p < src_.size() && src_[p] != quote) {
        is_escaped = is_escaped || src_[p] == '\\';
        p += src_[p] == '\\' ? 2 : 1;
    }
    if (p >= src_.size()) {
        fail("a string is not closed");
        return;
    }
    const std::string_view body = src_.substr(pos_ + 1, p - pos_ - 1);
    if (!is_escaped) {
        push(Tok::String, body);
    } else if (auto plain = unescape(body)) {
        push(Tok::String, pool_.emplace_back(std::move(*plain)));
    } else {
        fail("a string has a wrong escape");
        return;
    }
    advance(p + 1);
}

}  // namespace

Result<TokenStream> tokenize(std::string_view source, std::deque<std::string>& pool) {
    return Lexer(source, pool).run();
}

}  // namespace sluice::tokens::jinja
