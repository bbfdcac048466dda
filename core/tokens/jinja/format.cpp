#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/tokens/jinja/interp.hpp"
#include "core/tokens/jinja/print.hpp"
#include "core/tokens/jinja/text.hpp"
#include "core/tokens/jinja/unicode.hpp"

namespace sluice::tokens::jinja {
namespace {

constexpr std::size_t kMaxWidth = 10'000;

// What a conversion asks for, in printf's terms or in format()'s.
struct Spec {
    bool is_zero = false;
    char sign = '-';    // '-': only negative numbers show one; '+', ' '
    char align = '\0';  // '<', '>', '^', '='
    std::string fill = " ";
    bool is_alternate = false;
    bool has_commas = false;
    std::size_t width = 0;
    int precision = -1;
    char type = '\0';
};

std::size_t read_number(std::string_view text, std::size_t& at) {
    std::size_t n = 0;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
        n = std::min<std::size_t>(n * 10 + static_cast<std::size_t>(text[at] - '0'), kMaxWidth + 1);
        ++at;
    }
    return n;
}

std::string aligned(std::string body, std::string_view sign, const Spec& spec, char otherwise) {
    const char align = spec.align != '\0' ? spec.align : otherwise;
    const std::size_t length = count_code_points(body) + sign.size();
    if (length >= spec.width) {
        return std::string(sign) + body;
    }
    std::string fill;
    const std::size_t missing = spec.width - length;
    const std::size_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
    std::string before;
    std::string after;
    for (std::size_t i = 0; i < missing; ++i) {
        (i < left ? before : after) += spec.fill;
    }
    return align == '=' ? std::string(sign) + before + body
                        : before + std::string(sign) + body + after;
}

std::string_view sign_of(bool is_negative, const Spec& spec) {
    return is_negative ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
}

std::string with_commas(std::string digits) {
    const std::size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
    for (std::size_t at = end; at > 3; at -= 3) {
        digits.insert(at - 3, ",");
    }
    return digits;
}

// A number with the conversion d, x, X, o, b, c, f, F, e, E, g, G or %; empty if it does not fit.
std::optional<std::string> number(const Value& v, const Spec& spec) {
    const char type = spec.type;
    if (v.is_int() && std::string_view("dixXobn").find(type) != std::string_view::npos) {
        const std::int64_t i = v.as_int();
        const std::uint64_t u =
            i < 0 ? 0 - static_cast<std::uint64_t>(i) : static_cast<std::uint64_t>(i);
        char digits[72];
        const int base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
        std::string body(digits, std::to_chars(digits, digits + sizeof digits, u, base).ptr);
        if (type == 'X') {
            body = to_case(body, Case::Upper);
        }
        if (spec.precision > 0 && body.size() < static_cast<std::size_t>(spec.precision)) {
            body.insert(0, static_cast<std::size_t>(spec.precision) - body.size(), '0');
        }
        std::string sign(sign_of(i < 0, spec));
        if (spec.is_alternate && base != 10) {
            sign += std::string("0") + type;
        }
        return aligned(spec.has_commas ? with_commas(body) : body, sign, spec, '>');
    }
    if (!v.is_number() || std::string_view("fFeEgG%").find(type) == std::string_view::npos) {
        return std::nullopt;
    }
    const double d = v.as_double() * (type == '%' ? 100 : 1);
    const char form[] = {'%',
                         spec.is_alternate ? '#' : '.',
                         spec.is_alternate ? '.' : '*',
                         spec.is_alternate ? '*' : (type == '%' ? 'f' : type),
                         spec.is_alternate ? (type == '%' ? 'f' : type) : '\0',
                         '\0'};
    char digits[1024];
    const int precision = spec.precision < 0 ? 6 : std::min(spec.precision, 500);
    std::snprintf(digits, sizeof digits, form, precision, std::fabs(d));
    std::string body = digits;
    body = spec.has_commas ? with_commas(body) : body;
    return aligned(body + (type == '%' ? "%" : ""), sign_of(std::signbit(d), spec), spec, '>');
}

std::string cut(std::string_view text, int precision) {
    return std::string(
        precision < 0
            ? text
            : text.substr(0, code_point_offset(text, static_cast<std::size_t>(precision))));
}

// format(value, spec) of Python; empty after a failure.
std::string format_value(Interp& in, const Value& v, std::string_view text) {
    Spec spec;
    std::size_t at = 0;
    if (!text.empty()) {
        std::size_t after = 0;
        next_code_point(text, after);
        if (after < text.size() &&
            std::string_view("<>^=").find(text[after]) != std::string_view::npos) {
            spec.fill = text.substr(0, after);
            spec.align = text[after];
            at = after + 1;
        } else if (std::string_view("<>^=").find(text[0]) != std::string_view::npos) {
            spec.align = text[0];
            at = 1;
        }
    }
    const auto take = [&](char c) {
        return at < text.size() && text[at] == c ? (++at, true) : false;
    };
    if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' ')) {
        spec.sign = text[at++];
    }
    spec.is_alternate = take('#');
    if (take('0') && spec.align == '\0') {
        spec.align = '=';
        spec.fill = "0";
    }
    spec.width = read_number(text, at);
    spec.has_commas = take(',');
    if (take('.')) {
        spec.precision = static_cast<int>(read_number(text, at));
    }
    if (at < text.size()) {
        spec.type = text[at++];
    }
    if (at < text.size() || spec.width > kMaxWidth ||
        spec.precision > static_cast<int>(kMaxWidth)) {
        in.type_error("Invalid format specifier");
        return {};
    }
    if (v.is_number() && spec.type != 's') {
        const bool is_bare_float = v.is(Kind::Float) && spec.type == '\0';
        if (is_bare_float && spec.precision < 0) {
            std::string body;
            append_float(body, std::fabs(v.number));
            return aligned(body, sign_of(std::signbit(v.number), spec), spec, '>');
        }
        if (v.is(Kind::Bool) && spec.type == '\0') {
            return aligned(v.boolean ? "True" : "False", "", spec, '<');
        }
        spec.type = spec.type != '\0' ? spec.type : is_bare_float ? 'g' : 'd';
        if (auto out = number(v, spec)) {
            return *out;
        }
    } else if (spec.type == '\0' || spec.type == 's') {
        if (v.is_string() || text.empty()) {
            return aligned(cut(in.str(v), spec.precision), "", spec, '<');
        }
    }
    in.type_error("Unknown format code for object of type '" + std::string(type_name(v)) + "'");
    return {};
}

// "name.attribute[key]" of a replacement field.
Value field(Interp& in, std::string_view name, const Args& args, std::size_t& automatic) {
    const std::size_t end = std::min(name.find_first_of(".["), name.size());
    const std::string_view first = name.substr(0, end);
    std::size_t index = 0;
    std::size_t digits = 0;
    Value v;
    if (first.empty()) {
        index = automatic++;
    } else {
        index = read_number(first, digits);
    }
    if (digits == first.size()) {
        if (index >= args.positional.size()) {
            return in.type_error("Replacement index " + std::to_string(index) +
                                 " out of range for positional args tuple");
        }
        v = args.positional[index];
    } else {
        const auto named = std::ranges::find(args.named, first, &KeywordArg::name);
        if (named == args.named.end()) {
            return in.type_error("'" + std::string(first) + "'");
        }
        v = named->value;
    }
    for (std::string_view rest = name.substr(end); !rest.empty() && !in.failed();) {
        const bool is_item = rest[0] == '[';
        const std::size_t stop = is_item ? rest.find(']') : rest.find_first_of(".[", 1);
        if (is_item && stop == std::string_view::npos) {
            return in.type_error("Missing ']' in format string");
        }
        const std::string_view part = rest.substr(1, std::min(stop, rest.size()) - 1);
        std::size_t n = 0;
        const auto number = static_cast<std::int64_t>(read_number(part, n));
        v = is_item ? in.item(v, n == part.size() && n > 0 ? Value::of(number) : Value::of(part))
                    : in.attribute(v, part, method_named(part));
        rest = rest.substr(std::min(
            stop == std::string_view::npos ? rest.size() : stop + (is_item ? 1 : 0), rest.size()));
    }
    return v;
}

}  // namespace

Value str_format(Interp& in, std::string_view format, const Args& args) {
    std::string out;
    std::size_t automatic = 0;
    for (std::size_t at = 0; at < format.size() && !in.failed();) {
        const char c = format[at];
        if (c != '{' && c != '}') {
            out.push_back(c);
            ++at;
            continue;
        }
        if (at + 1 < format.size() && format[at + 1] == c) {
            out.push_back(c);
            at += 2;
            continue;
        }
        const std::size_t close = format.find('}', at);
        if (c == '}' || close == std::string_view::npos) {
            return in.type_error("Single '" + std::string(1, c) + "' encountered in format string");
        }
        std::string_view name = format.substr(at + 1, close - at - 1);
        at = close + 1;
        if (name.find('{') != std::string_view::npos) {
            return in.fail(Code::Unsupported, "nested replacement fields in format()");
        }
        const std::size_t colon = name.find(':');
        const std::string_view spec = colon == std::string_view::npos ? "" : name.substr(colon + 1);
        name = name.substr(0, colon);
        const std::size_t mark = name.find('!');
        const std::string_view conversion =
            mark == std::string_view::npos ? "" : name.substr(mark + 1);
        Value v = field(in, name.substr(0, mark), args, automatic);
        if (conversion == "r") {
            v = in.text(in.repr(v));
        } else if (conversion == "s") {
            v = Value::of(in.str(v));
        } else if (!conversion.empty()) {
            return in.type_error("Unknown conversion specifier");
        }
        out += in.failed() ? "" : format_value(in, v, spec);
        if (out.size() > in.max_text()) {
            return in.fail(Code::Limit, "a formatted text is too large");
        }
    }
    return in.text(out);
}

Value printf_format(Interp& in, std::string_view format, const Value& values) {
    const bool is_tuple = values.is(Kind::Tuple);
    const std::span<const Value> items = is_tuple ? values.list->view() : std::span(&values, 1);
    std::size_t used = 0;
    bool uses_names = false;
    std::string out;
    for (std::size_t at = 0; at < format.size() && !in.failed();) {
        const std::size_t percent = std::min(format.find('%', at), format.size());
        out += format.substr(at, percent - at);
        at = percent + 1;
        if (percent == format.size()) {
            break;
        }
        Spec spec;
        std::optional<Value> named;
        if (at < format.size() && format[at] == '(') {
            const std::size_t close = format.find(')', at);
            if (close == std::string_view::npos || !values.is_dict()) {
                return in.type_error("format requires a mapping");
            }
            named = in.item(values, Value::of(format.substr(at + 1, close - at - 1)));
            uses_names = true;
            at = close + 1;
        }
        bool is_left = false;
        for (; at < format.size() &&
               std::string_view("-+ 0#").find(format[at]) != std::string_view::npos;
             ++at) {
            is_left = is_left || format[at] == '-';
            spec.is_zero = spec.is_zero || format[at] == '0';
            spec.is_alternate = spec.is_alternate || format[at] == '#';
            spec.sign = format[at] == '+'                       ? '+'
                        : format[at] == ' ' && spec.sign != '+' ? ' '
                                                                : spec.sign;
        }
        spec.width = read_number(format, at);
        if (at < format.size() && format[at] == '.') {
            ++at;
            spec.precision = static_cast<int>(read_number(format, at));
        }
        if (at >= format.size()) {
            return in.type_error("incomplete format");
        }
        spec.type = format[at++];
        if (spec.width > kMaxWidth || spec.precision > static_cast<int>(kMaxWidth)) {
            return in.fail(Code::Limit, "a format asks for too much");
        }
        if (spec.type == '%') {
            out.push_back('%');
            continue;
        }
        if (!named && used >= items.size()) {
            return in.type_error("not enough arguments for format string");
        }
        Value v = named ? *named : items[used++];
        if (spec.type == 's' || spec.type == 'r' || spec.type == 'c') {
            std::string text = spec.type == 'r' ? in.repr(v) : std::string(in.str(v));
            if (spec.type == 'c' && v.is_int()) {
                text.clear();
                if (v.as_int() < 0 || v.as_int() > 0x10FFFF ||
                    !append_utf8(text, static_cast<std::uint32_t>(v.as_int()))) {
                    return in.type_error("%c arg not in range(0x110000)");
                }
            }
            spec.align = is_left ? '<' : '>';
            out += aligned(cut(text, spec.type == 'c' ? -1 : spec.precision), "", spec, '>');
        } else {
            spec.align = is_left ? '<' : spec.is_zero ? '=' : '>';
            spec.fill = spec.align == '=' ? "0" : " ";
            if (v.is(Kind::Float) && std::isfinite(v.number) && std::fabs(v.number) < 9e18 &&
                (spec.type == 'd' || spec.type == 'i')) {
                v = Value::of(static_cast<std::int64_t>(v.number));
            }
            spec.type = spec.type == 'i' || spec.type == 'u' ? 'd' : spec.type;
            const auto text = number(v, spec);
            if (!text) {
                return in.type_error("%" + std::string(1, spec.type) +
                                     " format: a real number is required, not " +
                                     std::string(type_name(v)));
            }
            out += *text;
        }
        if (out.size() > in.max_text()) {
            return in.fail(Code::Limit, "a formatted text is too large");
        }
    }
    if (used < items.size() && is_tuple && !uses_names) {
        return in.type_error("not all arguments converted during string formatting");
    }
    if (!is_tuple && used == 0 && !uses_names && !values.is_dict() && !values.has_list()) {
        return in.type_error("not all arguments converted during string formatting");
    }
    return in.text(out);
}

Value format_time(Interp& in, std::string_view format) {
    std::string plain;  // what strftime adds for a local time Python's now() does not know
    for (std::size_t i = 0; i < format.size(); ++i) {
        if (format[i] == '%' && i + 1 < format.size()) {
            const char c = format[++i];
            if (c == 'f') {
                plain += "000000";
            } else if (c != 'Z' && c != 'z') {
                plain += {'%', c};
            }
        } else {
            plain.push_back(format[i]);
        }
    }
    if (plain.empty()) {
        return Value::of("");
    }
    if (plain.size() > kMaxWidth || plain.find('\0') != std::string::npos) {
        return in.fail(Code::Limit, "a time format is too long");
    }
    plain.push_back('.');  // so that an empty result is told from one that does not fit
    const std::tm now = in.now();
    std::string out(plain.size() * 16 + 256, '\0');
    const std::size_t n = std::strftime(out.data(), out.size(), plain.c_str(), &now);
    if (n == 0) {
        return in.fail(Code::Limit, "a time format is too long");
    }
    return in.text(std::string_view(out).substr(0, n - 1));
}

}  // namespace sluice::tokens::jinja
