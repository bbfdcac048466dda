#include "core/tokens/jinja/text.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "core/tokens/jinja/unicode.hpp"

namespace sluice::tokens::jinja {
namespace {

// Takes '_' between two digits out, as Python's numbers allow it; false if one is elsewhere.
bool drop_underscores(std::string_view text, std::string& out) {
    const auto is_alnum = [](char c) {
        return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '_') {
            out.push_back(text[i]);
        } else if (i == 0 || i + 1 == text.size() || !is_alnum(text[i - 1]) ||
                   !is_alnum(text[i + 1])) {
            return false;
        }
    }
    return true;
}

bool is_line_end(std::uint32_t code) {
    return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
           code == 0x2028 || code == 0x2029;
}

}  // namespace

Value replace_text(Interp& in, const Value& text, std::string_view from, std::string_view to,
                   std::int64_t count) {
    const std::string_view s = text.str();
    std::uint64_t left =
        count < 0 ? std::numeric_limits<std::uint64_t>::max() : static_cast<std::uint64_t>(count);
    if (!from.empty() && (left == 0 || s.find(from) == std::string_view::npos)) {
        in.charge(s.size() / 256);
        return text;
    }
    std::string out;
    std::size_t at = 0;
    while (left > 0 && out.size() <= in.max_text()) {
        if (from.empty()) {  // between all code points and at both ends
            out += to;
            --left;
            if (at == s.size()) {
                break;
            }
            const std::size_t start = at;
            next_code_point(s, at);
            out += s.substr(start, at - start);
            continue;
        }
        const std::size_t hit = s.find(from, at);
        if (hit == std::string_view::npos) {
            break;
        }
        out += s.substr(at, hit - at);
        out += to;
        at = hit + from.size();
        --left;
    }
    out += s.substr(at);
    if (out.size() > in.max_text()) {
        return in.fail(Code::Limit, "a replaced text is too large");
    }
    in.charge((s.size() + out.size()) / 64);
    return in.text_like(text, out, true);
}

Value pad_text(Interp& in, const Value& text, std::int64_t width, std::string_view fill, Pad side) {
    const auto length = static_cast<std::int64_t>(count_code_points(text.str()));
    if (width <= length) {
        return text;
    }
    const auto missing = static_cast<std::uint64_t>(width - length);
    if (missing > in.max_text() / std::max<std::size_t>(fill.size(), 1)) {
        return in.fail(Code::Limit, "a padded text is too large");
    }
    // Python's str.center: an odd filling puts the extra one on the left of an odd width.
    const std::uint64_t left =
        side == Pad::Left    ? missing
        : side == Pad::Right ? 0
                             : missing / 2 + (missing & static_cast<std::uint64_t>(width) & 1U);
    std::string out;
    for (std::uint64_t i = 0; i < left; ++i) {
        out += fill;
    }
    out += text.str();
    for (std::uint64_t i = left; i < missing; ++i) {
        out += fill;
    }
    in.charge(out.size() / 64);
    return in.text_like(text, out, true);
}

std::vector<std::string_view> split_lines(std::string_view text, bool keeps_ends) {
    std::vector<std::string_view> out;
    std::size_t start = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = at;
        const std::uint32_t code = next_code_point(text, at);
        if (!is_line_end(code)) {
            continue;
        }
        if (code == '\r' && at < text.size() && text[at] == '\n') {
            ++at;
        }
        out.push_back(text.substr(start, (keeps_ends ? at : end) - start));
        start = at;
    }
    if (start < text.size()) {
        out.push_back(text.substr(start));
    }
    return out;
}

bool parse_integer(std::string_view text, std::int64_t base, std::int64_t& out) {
    std::string digits;
    if (!drop_underscores(strip(text), digits)) {
        return false;
    }
    std::string_view s = digits;
    const bool is_negative = s.starts_with('-');
    if (is_negative || s.starts_with('+')) {
        s.remove_prefix(1);
    }
    if (s.size() > 2 && s[0] == '0') {
        const char mark = static_cast<char>(s[1] | 0x20);
        const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
        if (marked != 0 && (base == marked || base == 0)) {
            base = marked;
            s.remove_prefix(2);
        }
    }
    base = base == 0 ? 10 : base;
    if (base < 2 || base > 36 || s.empty() || s[0] == '-') {
        return false;
    }
    const auto r = std::from_chars(s.data(), s.data() + s.size(), out, static_cast<int>(base));
    out = is_negative ? -out : out;
    return r.ec == std::errc() && r.ptr == s.data() + s.size();
}

bool parse_double(std::string_view text, double& out) {
    std::string digits;
    if (!drop_underscores(strip(text), digits)) {
        return false;
    }
    std::string_view s = digits;
    const bool is_negative = s.starts_with('-');
    if (is_negative || s.starts_with('+')) {
        s.remove_prefix(1);
    }
    if (s.empty() || s[0] == '-' || s[0] == '+') {
        return false;
    }
    const auto r = std::from_chars(s.data(), s.data() + s.size(), out);
    out = is_negative ? -out : out;
    return r.ec == std::errc() && r.ptr == s.data() + s.size() && s.back() != ')';
}

}  // namespace sluice::tokens::jinja
