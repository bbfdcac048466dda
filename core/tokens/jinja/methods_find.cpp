#include <algorithm>

#include "core/tokens/jinja/methods.hpp"
#include "core/tokens/jinja/text.hpp"
#include "core/tokens/jinja/unicode.hpp"

namespace sluice::tokens::jinja {
namespace {

// The part of the text between the code points that arguments 1 and 2 give; false if there is none.
bool window(Interp& in, const Value& self, const Bound& args, std::string_view& out,
            std::size_t& skipped) {
    const std::string_view s = self.str();
    out = s;
    skipped = 0;
    if (!args.has(1) && !args.has(2)) {
        return true;
    }
    const auto length = static_cast<std::int64_t>(count_code_points(s));
    std::int64_t ends[2] = {0, length};
    for (std::size_t i = 0; i < 2; ++i) {
        const Value* v = args[i + 1];
        if (v == nullptr || v->is_none()) {
            continue;
        }
        if (!v->is_int()) {
            in.type_error("slice indices must be integers or None or have an __index__ method");
            return false;
        }
        const std::int64_t at = v->as_int();
        ends[i] = at < 0 ? std::max<std::int64_t>(at < -length ? 0 : at + length, 0)
                         : std::min(at, i == 0 ? length + 1 : length);
    }
    if (ends[0] > ends[1]) {
        return false;
    }
    skipped = static_cast<std::size_t>(ends[0]);
    const std::size_t from = code_point_offset(s, skipped);
    out = s.substr(from, code_point_offset(s, static_cast<std::size_t>(ends[1])) - from);
    return true;
}

}  // namespace

Value has_affix(Interp& in, const Value& self, Method method, const Bound& args) {
    std::string_view s;
    std::size_t skipped = 0;
    const bool is_inside = window(in, self, args, s, skipped);
    const std::span<const Value> candidates =
        args[0]->is(Kind::Tuple) ? args[0]->list->view() : std::span(args[0], 1);
    bool is = false;
    for (const Value& v : candidates) {
        if (!v.is_string()) {
            return in.type_error(std::string(method_name(method)) +
                                 " first arg must be str or a tuple of str, not " +
                                 std::string(type_name(v)));
        }
        is = is || (is_inside &&
                    (method == Method::StartsWith ? s.starts_with(v.str()) : s.ends_with(v.str())));
    }
    return Value::of(is);
}

Value find_method(Interp& in, const Value& self, Method method, const Bound& args) {
    if (!args[0]->is_string()) {
        return in.type_error("must be str, not " + std::string(type_name(*args[0])));
    }
    const std::string_view wanted = args[0]->str();
    std::string_view s;
    std::size_t skipped = 0;
    const bool is_inside = window(in, self, args, s, skipped);
    in.charge(s.size() / 64);
    if (method == Method::Count) {
        std::int64_t n = 0;
        if (is_inside && wanted.empty()) {
            n = static_cast<std::int64_t>(count_code_points(s)) + 1;
        } else if (is_inside) {
            for (std::size_t at = s.find(wanted); at != std::string_view::npos;
                 at = s.find(wanted, at + wanted.size())) {
                ++n;
            }
        }
        return Value::of(n);
    }
    const bool from_right = method == Method::RFind || method == Method::RIndex;
    const std::size_t hit = !is_inside   ? std::string_view::npos
                            : from_right ? s.rfind(wanted)
                                         : s.find(wanted);
    if (hit != std::string_view::npos) {
        return Value::of(skipped + count_code_points(s.substr(0, hit)));
    }
    return method == Method::Index || method == Method::RIndex
               ? in.type_error("substring not found")
               : Value::of(std::int64_t{-1});
}

Value partition(Interp& in, const Value& self, Method method, const Bound& args) {
    if (!args[0]->is_string() || args[0]->size == 0) {
        return in.type_error("partition expects a separator that is not empty");
    }
    const std::string_view s = self.str();
    const std::string_view by = args[0]->str();
    const std::size_t hit = method == Method::Partition ? s.find(by) : s.rfind(by);
    const Value empty = Value::of("");
    if (hit == std::string_view::npos) {
        return method == Method::Partition ? in.tuple({self, empty, empty})
                                           : in.tuple({empty, empty, self});
    }
    return in.tuple({in.text_like(self, s.substr(0, hit), false), *args[0],
                     in.text_like(self, s.substr(hit + by.size()), false)});
}

// isdigit and its kin: all characters are of the class, and there is one.
Value is_all(const Value& self, Method method) {
    const std::string_view s = self.str();
    bool is = true;
    for (std::size_t at = 0; at < s.size();) {
        const std::uint32_t code = next_code_point(s, at);
        switch (method) {
            case Method::IsDigit:
                is = is && jinja::is(Class::Digit, code);
                break;
            case Method::IsDecimal:
                is = is && jinja::is(Class::Decimal, code);
                break;
            case Method::IsNumeric:
                is = is && jinja::is(Class::Numeric, code);
                break;
            case Method::IsAlpha:
                is = is && jinja::is(Class::Alpha, code);
                break;
            case Method::IsSpace:
                is = is && is_space(code);
                break;
            case Method::IsAscii:
                is = is && code < 0x80;
                break;
            default:
                is = is && (jinja::is(Class::Alpha, code) || jinja::is(Class::Numeric, code));
        }
    }
    return Value::of(is && (!s.empty() || method == Method::IsAscii));
}

// isupper, islower, istitle.
Value is_cased_as(const Value& self, Method method) {
    const std::string_view s = self.str();
    bool has_cased = false;
    bool is_after_cased = false;
    for (std::size_t at = 0; at < s.size();) {
        const std::uint32_t code = next_code_point(s, at);
        const bool upper = is(Class::Upper, code);
        const bool lower = is(Class::Lower, code);
        const bool title = is(Class::Title, code);
        const bool is_wrong = method == Method::IsUpper   ? lower || title
                              : method == Method::IsLower ? upper || title
                              : upper || title            ? is_after_cased
                                                          : lower && !is_after_cased;
        if (is_wrong) {
            return Value::of(false);
        }
        is_after_cased = upper || lower || title;
        has_cased = has_cased || (method == Method::IsUpper   ? upper
                                  : method == Method::IsLower ? lower
                                                              : is_after_cased);
    }
    return Value::of(has_cased);
}

}  // namespace sluice::tokens::jinja
