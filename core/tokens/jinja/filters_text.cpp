#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/tokens/jinja/interp.hpp"
#include "core/tokens/jinja/json.hpp"
#include "core/tokens/jinja/text.hpp"
#include "core/tokens/jinja/unicode.hpp"

namespace sluice::tokens::jinja {
namespace {

template <Case to>
Value to_case_filter(Interp& in, const Value& v, const Bound&) {
    const std::string_view s = in.str(v);
    in.charge(s.size() / 16);
    return in.text_like(v, to_case(s, to), true);
}

// Jinja's own: a word begins after white space, '-', '(', '{', '[' or '<' only.
Value title(Interp& in, const Value& v, const Bound&) {
    const std::string_view s = in.str(v);
    in.charge(s.size() / 16);
    std::string out;
    for (std::size_t at = 0; at < s.size();) {
        const auto is_break = [&](std::size_t from) {
            std::size_t next = from;
            const std::uint32_t code = next_code_point(s, next);
            return is_space(code) || (code < 0x80 && code != 0 &&
                                      std::string_view("-({[<").find(static_cast<char>(code)) !=
                                          std::string_view::npos);
        };
        const bool is_gap = is_break(at);
        std::size_t end = at;
        while (end < s.size() && is_break(end) == is_gap) {
            next_code_point(s, end);
        }
        std::size_t first = at;
        next_code_point(s, first);
        out += to_case(s.substr(at, first - at), Case::Upper);
        out += to_case(s.substr(first, end - first), Case::Lower);
        at = end;
    }
    return in.text_like(v, out, true);
}

Value capitalize(Interp& in, const Value& v, const Bound&) {
    return in.text_like(v, capitalise(in.str(v)), true);
}

Value trim(Interp& in, const Value& v, const Bound& args) {
    const std::string_view s = in.str(v);
    if (!args.has(0) || args[0]->is_none()) {
        return in.text_like(v, strip(s), false);
    }
    if (!args[0]->is_string()) {
        return in.type_error("strip arg must be None or str");
    }
    return in.text_like(v, strip_left(strip_right(s, args[0]->str()), args[0]->str()), false);
}

Value string(Interp& in, const Value& v, const Bound&) {
    return v.is_string() ? v : Value::of(in.str(v));
}

Value safe(Interp& in, const Value& v, const Bound&) {
    Value out = Value::of(in.str(v));
    out.flag = 1;
    return out;
}
Value escape_filter(Interp& in, const Value& v, const Bound&) {
    return escape(in, v);
}
Value force_escape(Interp& in, const Value& v, const Bound&) {
    return escape(in, Value::of(in.str(v)));
}

Value replace(Interp& in, const Value& v, const Bound& args) {
    std::int64_t count = -1;
    if (args.has(2) && args[2]->is_int()) {
        count = args[2]->as_int();
    }
    return replace_text(in, Value::of(in.str(v)), in.str(*args[0]), in.str(*args[1]), count);
}

Value indent(Interp& in, const Value& v, const Bound& args) {
    if (!v.is_string()) {
        return in.binary(Op::Add, v, Value::of("\n"));  // fails as Python does
    }
    std::string width = "    ";
    if (args.has(0) && args[0]->is_string()) {
        width = args[0]->str();
    } else if (args.has(0) && args[0]->is_int()) {
        width.assign(static_cast<std::size_t>(std::clamp<std::int64_t>(args[0]->as_int(), 0, 4096)),
                     ' ');
    }
    const bool indents_blank = args.flag(2);
    std::string out = args.flag(1) ? width : "";
    const std::string whole = std::string(v.str()) + "\n";
    bool is_first = true;
    for (const std::string_view line : split_lines(whole, false)) {
        if (!is_first) {
            out.push_back('\n');
            if (indents_blank || !line.empty()) {
                out += width;
            }
        }
        is_first = false;
        out += line;
        if (out.size() > in.max_text()) {
            return in.fail(Code::Limit, "an indented text is too large");
        }
    }
    in.charge(out.size() / 64);
    return in.text_like(v, out, true);
}

Value to_integer(Interp& in, const Value& v, const Bound& args) {
    const Value fallback = args.has(0) ? *args[0] : Value::of(std::int64_t{0});
    if (v.is_undefined()) {
        return in.binary(Op::Add, v, v);  // fails as Python does
    }
    if (v.is_int()) {
        return Value::of(v.as_int());
    }
    if (v.is(Kind::BigInt)) {
        return v;
    }
    double d = v.is(Kind::Float) ? v.number : std::nan("");
    if (v.is_string()) {
        const std::int64_t base = args.has(1) && args[1]->is_int() ? args[1]->as_int() : 10;
        std::int64_t i = 0;
        if (parse_integer(v.str(), base, i)) {
            return Value::of(i);
        }
        if (!parse_double(v.str(), d)) {
            return fallback;
        }
    }
    constexpr double kEdge = 9223372036854775808.0;
    if (!(d >= -kEdge && d < kEdge)) {
        return fallback;  // none of int's: inf and nan; beyond 64 bits is not supported
    }
    return Value::of(static_cast<std::int64_t>(d));
}

Value to_float(Interp& in, const Value& v, const Bound& args) {
    if (v.is_undefined()) {
        return in.binary(Op::Add, v, v);
    }
    if (v.is_number()) {
        return Value::of(v.as_double());
    }
    double d = 0;
    if (v.is_string() && parse_double(v.str(), d)) {
        return Value::of(d);
    }
    return args.has(0) ? *args[0] : Value::of(0.0);
}

Value absolute(Interp& in, const Value& v, const Bound&) {
    if (v.is_int() && v.as_int() >= 0) {
        return Value::of(v.as_int());
    }
    if (v.is(Kind::Float)) {
        return Value::of(std::fabs(v.number));
    }
    return in.binary(Op::Sub, Value::of(std::int64_t{0}), v);
}

Value round_filter(Interp& in, const Value& v, const Bound& args) {
    const std::int64_t precision = args.has(0) && args[0]->is_int() ? args[0]->as_int() : 0;
    const std::string_view how = args.has(1) ? in.str(*args[1]) : "common";
    if (!v.is_number() || precision < -300 || precision > 300) {
        return in.type_error("round expects a number");
    }
    if (how == "common" && v.is_int() && precision >= 0) {
        return Value::of(v.as_int());
    }
    const double scale = std::pow(10.0, static_cast<double>(precision));
    const double d = v.as_double();
    double out = 0;
    if (how == "ceil") {
        out = std::ceil(d * scale) / scale;
    } else if (how == "floor") {
        out = std::floor(d * scale) / scale;
    } else if (how != "common") {
        return in.type_error("method must be common, ceil or floor");
    } else if (precision < 0) {
        out = std::nearbyint(d * scale) / scale;
    } else {
        char digits[700];
        const int n = std::snprintf(digits, sizeof digits, "%.*f", static_cast<int>(precision), d);
        std::from_chars(digits, digits + n, out);
    }
    return v.is_int() && how == "common" ? Value::of(static_cast<std::int64_t>(out))
                                         : Value::of(out);
}

Value format(Interp& in, const Value& v, const Bound& args) {
    if (!args.all->named.empty()) {
        DictData* dict = make_dict(in.arena(), args.all->named.size());
        for (const KeywordArg& named : args.all->named) {
            put(in.arena(), *dict, named.name, named.value);
        }
        return printf_format(in, in.str(v), Value::of(dict));
    }
    ListData* values = in.list(args.all->positional.size());
    for (const Value& value : args.all->positional) {
        in.push(*values, value);
    }
    return printf_format(in, in.str(v), Value::of(values, Kind::Tuple));
}

Value word_count(Interp& in, const Value& v, const Bound&) {
    const std::string_view s = in.str(v);
    std::int64_t words = 0;
    bool is_in_word = false;
    for (std::size_t at = 0; at < s.size();) {
        const std::uint32_t code = next_code_point(s, at);
        const bool is_word = code == '_' || is(Class::Alpha, code) || is(Class::Numeric, code);
        words += is_word && !is_in_word ? 1 : 0;
        is_in_word = is_word;
    }
    return Value::of(words);
}

Value center(Interp& in, const Value& v, const Bound& args) {
    const std::int64_t width = args.has(0) && args[0]->is_int() ? args[0]->as_int() : 80;
    return pad_text(in, Value::of(in.str(v)), width, " ", Pad::Both);
}

// As transformers defines it: json.dumps without ASCII escapes, nothing of Jinja's own.
Value to_json(Interp& in, const Value& v, const Bound& args) {
    JsonStyle style;
    style.ensure_ascii = args.flag(0);
    style.sort_keys = args.flag(3);
    if (args.has(1) && !args[1]->is_none()) {
        if (args[1]->is_string()) {
            style.indent = std::string(args[1]->str());
        } else if (args[1]->is_int()) {
            style.indent = std::string(
                static_cast<std::size_t>(std::clamp<std::int64_t>(args[1]->as_int(), 0, 256)), ' ');
        } else {
            return in.type_error("indent must be an integer or a string");
        }
        style.item_separator = ",";
    }
    if (args.has(2) && !args[2]->is_none()) {
        const auto pair = in.items_of(*args[2]);
        if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
            return in.type_error("separators must be two strings");
        }
        style.item_separator = pair[0].str();
        style.key_separator = pair[1].str();
    }
    std::string out;
    Value culprit;
    switch (dump_json(out, v, style, in.max_text(), culprit)) {
        case DumpResult::Ok:
            in.charge(out.size() / 64);
            return in.text(out);
        case DumpResult::NotSerializable:
            return in.type_error("Object of type " + std::string(type_name(culprit)) +
                                 " is not JSON serializable");
        case DumpResult::TooLarge:
            break;
    }
    return in.fail(Code::Limit, "a value is too large to write as JSON");
}

constexpr Filter kFilters[] = {
    {"tojson", to_json, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0},
    {"trim", trim, {"chars"}, 0},
    {"string", string, {}, 0},
    {"upper", to_case_filter<Case::Upper>, {}, 0},
    {"lower", to_case_filter<Case::Lower>, {}, 0},
    {"title", title, {}, 0},
    {"capitalize", capitalize, {}, 0},
    {"safe", safe, {}, 0},
    {"e", escape_filter, {}, 0},
    {"escape", escape_filter, {}, 0},
    {"forceescape", force_escape, {}, 0},
    {"replace", replace, {"old", "new", "count"}, 2},
    {"indent", indent, {"width", "first", "blank"}, 0},
    {"format", format, {"*"}, 0},
    {"int", to_integer, {"default", "base"}, 0},
    {"float", to_float, {"default"}, 0},
    {"abs", absolute, {}, 0},
    {"round", round_filter, {"precision", "method"}, 0},
    {"wordcount", word_count, {}, 0},
    {"center", center, {"width"}, 0},
};

}  // namespace

std::span<const Filter> text_filters() {
    return kFilters;
}

}  // namespace sluice::tokens::jinja
