#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/tokens/jinja/interp.hpp"
#include "core/tokens/jinja/print.hpp"
#include "core/tokens/jinja/text.hpp"

namespace sluice::tokens::jinja {
namespace {

std::string_view symbol(Op op) {
    switch (op) {
        case Op::Add:
            return "+";
        case Op::Sub:
            return "-";
        case Op::Mul:
            return "*";
        case Op::Div:
            return "/";
        case Op::FloorDiv:
            return "//";
        case Op::Mod:
            return "%";
        case Op::Pow:
            return "** or pow()";
        case Op::Lt:
            return "<";
        case Op::Le:
            return "<=";
        case Op::Gt:
            return ">";
        case Op::Ge:
            return ">=";
        default:
            return "?";
    }
}

std::string quoted(const Value& v) {
    return "'" + std::string(type_name(v)) + "'";
}

std::string undefined_text(const Value& v) {
    const auto owner = static_cast<Kind>(v.flag);
    if (owner == Kind::Undefined) {
        return "'" + std::string(v.str()) + "' is undefined";
    }
    return "'" + std::string(type_name(Value::of(owner))) + " object' has no attribute '" +
           std::string(v.str()) + "'";
}

void escape_html(std::string& out, std::string_view text) {
    for (const char c : text) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '\'':
                out += "&#39;";
                break;
            case '"':
                out += "&#34;";
                break;
            default:
                out.push_back(c);
        }
    }
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
    const std::int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

double floor_mod(double a, double b) {
    const double m = std::fmod(a, b);
    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

// False on overflow.
bool integer_power(std::int64_t base, std::int64_t exponent, std::int64_t& out) {
    out = 1;
    while (exponent > 0) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(out, base, &out)) {
            return false;
        }
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
            return false;
        }
    }
    return true;
}

}  // namespace

std::string describe_undefined(const Value& v) {
    return undefined_text(v);
}

Value escape(Interp& in, const Value& v) {
    if (v.is_markup()) {
        return v;
    }
    std::string out;
    escape_html(out, in.str(v));
    Value r = in.text(out);
    r.flag = 1;
    return r;
}

Value Interp::concat_text(std::string_view a, std::string_view b, bool is_markup) {
    if (a.size() + b.size() >
        std::min<std::size_t>(bounds_.output_bytes, std::numeric_limits<std::uint32_t>::max())) {
        return fail(Code::Limit, "a text of the template is too large");
    }
    charge((a.size() + b.size()) / 256);
    const char* from = a.data();
    if (arena_.extend(a.data() + a.size(), b.size())) {
        std::memcpy(const_cast<char*>(a.data()) + a.size(), b.data(), b.size());
    } else {
        char* to = arena_.text(a.size() + b.size());
        if (to == nullptr) {
            return fail(Code::Limit, "the template uses too much memory");
        }
        std::memcpy(to, a.data(), a.size());
        std::memcpy(to + a.size(), b.data(), b.size());
        from = to;
    }
    Value v = Value::of(std::string_view(from, a.size() + b.size()));
    v.flag = is_markup ? 1 : 0;
    return v;
}

Value Interp::binary(Op op, const Value& a, const Value& b) {
    if (a.is_undefined() || b.is_undefined()) {
        if (op == Op::Mod && a.is_string()) {
            return printf_format(*this, a.str(), b);
        }
        return fail(Code::Invalid, undefined_text(a.is_undefined() ? a : b));
    }
    if (op == Op::Add) {
        return add(a, b);
    }
    if (op == Op::Mod && a.is_string()) {
        return printf_format(*this, a.str(), b);
    }
    if (op == Op::Mul) {
        const auto repeats = [](const Value& v) {
            return v.is_string() || v.is(Kind::List) || v.is(Kind::Tuple);
        };
        if (repeats(a) && b.is_int()) {
            return repeat(a, b.as_int());
        }
        if (repeats(b) && a.is_int()) {
            return repeat(b, a.as_int());
        }
    }
    return arithmetic(op, a, b);
}

Value Interp::add(const Value& a, const Value& b) {
    if (a.is_string() && b.is_string()) {
        if (a.is_markup() != b.is_markup()) {
            return concat_text(escape(*this, a).str(), escape(*this, b).str(), true);
        }
        return concat_text(a.str(), b.str(), a.is_markup());
    }
    if (a.kind == b.kind && (a.is(Kind::List) || a.is(Kind::Tuple))) {
        const std::size_t n = std::size_t{a.list->size} + b.list->size;
        charge(n);
        ListData* out = list(n);
        for (const Value& v : a.list->view()) {
            push(*out, v);
        }
        for (const Value& v : b.list->view()) {
            push(*out, v);
        }
        return Value::of(out, a.kind);
    }
    if (a.is_string()) {
        return type_error("can only concatenate str (not \"" + std::string(type_name(b)) +
                          "\") to str");
    }
    return arithmetic(Op::Add, a, b);
}

Value Interp::repeat(const Value& v, std::int64_t times) {
    const auto n = static_cast<std::uint64_t>(std::max<std::int64_t>(times, 0));
    const std::uint64_t size = v.is_string() ? v.size : v.list->size;
    if (size != 0 && n > bounds_.output_bytes / size) {
        return fail(Code::Limit, "a repeated value is too large");
    }
    if (v.is_string()) {
        charge(n * size / 64);
        std::string out;
        out.reserve(n * size);
        for (std::uint64_t i = 0; i < n && size > 0; ++i) {
            out.append(v.str());
        }
        return text_like(v, out, true);
    }
    charge(n * size);
    ListData* out = list();
    for (std::uint64_t i = 0; i < n && size > 0 && !failed(); ++i) {
        for (const Value& item : v.list->view()) {
            push(*out, item);
        }
    }
    return Value::of(out, v.kind);
}

Value Interp::arithmetic(Op op, const Value& a, const Value& b) {
    if (!a.is_number() || !b.is_number()) {
        if (a.is(Kind::BigInt) || b.is(Kind::BigInt)) {
            return fail(Code::Unsupported, "arithmetic on integers beyond 64 bits");
        }
        return type_error("unsupported operand type(s) for " + std::string(symbol(op)) + ": " +
                          quoted(a) + " and " + quoted(b));
    }
    const bool is_division = op == Op::Div || op == Op::FloorDiv || op == Op::Mod;
    if (is_division && b.as_double() == 0) {
        return type_error("division by zero");
    }
    if (a.is_int() && b.is_int() && op != Op::Div && !(op == Op::Pow && b.as_int() < 0)) {
        const std::int64_t x = a.as_int();
        const std::int64_t y = b.as_int();
        std::int64_t r = 0;
        bool is_over = false;
        switch (op) {
            case Op::Add:
                is_over = __builtin_add_overflow(x, y, &r);
                break;
            case Op::Sub:
                is_over = __builtin_sub_overflow(x, y, &r);
                break;
            case Op::Mul:
                is_over = __builtin_mul_overflow(x, y, &r);
                break;
            case Op::Pow:
                is_over = !integer_power(x, y, r);
                break;
            default:
                is_over = y == -1 && x == std::numeric_limits<std::int64_t>::min();
                if (!is_over) {
                    const std::int64_t q = floor_div(x, y);
                    r = op == Op::FloorDiv ? q : x - q * y;
                }
        }
        return is_over ? fail(Code::Unsupported, "arithmetic on integers beyond 64 bits")
                       : Value::of(r);
    }
    const double x = a.as_double();
    const double y = b.as_double();
    switch (op) {
        case Op::Add:
            return Value::of(x + y);
        case Op::Sub:
            return Value::of(x - y);
        case Op::Mul:
            return Value::of(x * y);
        case Op::Div:
            return Value::of(x / y);
        case Op::FloorDiv:
            return Value::of(std::floor(x / y));
        case Op::Mod:
            return Value::of(floor_mod(x, y));
        default:
            return Value::of(std::pow(x, y));
    }
}

bool Interp::less(const Value& a, const Value& b) {
    if (a.is_number() && b.is_number()) {
        return a.is_int() && b.is_int() ? a.as_int() < b.as_int() : a.as_double() < b.as_double();
    }
    if (a.is_string() && b.is_string()) {
        return a.str() < b.str();  // UTF-8 sorts as code points do
    }
    if (a.kind == b.kind && (a.is(Kind::List) || a.is(Kind::Tuple))) {
        const auto x = a.list->view();
        const auto y = b.list->view();
        for (std::size_t i = 0; i < x.size() && i < y.size() && step(); ++i) {
            if (!equal(x[i], y[i])) {
                return less(x[i], y[i]);
            }
        }
        return x.size() < y.size();
    }
    if (a.is_undefined() || b.is_undefined()) {
        fail(Code::Invalid, undefined_text(a.is_undefined() ? a : b));
    } else {
        type_error("'<' not supported between instances of " + quoted(a) + " and " + quoted(b));
    }
    return false;
}

bool Interp::compare(Op op, const Value& a, const Value& b) {
    switch (op) {
        case Op::Eq:
            return equal(a, b);
        case Op::Ne:
            return !equal(a, b);
        case Op::Lt:
            return less(a, b);
        case Op::Gt:
            return less(b, a);
        case Op::Le:
            return less(a, b) || (!failed() && equal(a, b));
        case Op::Ge:
            return less(b, a) || (!failed() && equal(a, b));
        case Op::In:
            return contains(b, a);
        case Op::NotIn:
            return !contains(b, a);
        default:
            return false;
    }
}

bool Interp::contains(const Value& container, const Value& item) {
    switch (container.kind) {
        case Kind::String:
            if (!item.is_string()) {
                type_error("'in <string>' requires string as left operand, not " +
                           std::string(type_name(item)));
                return false;
            }
            charge(container.size / 256);
            return container.str().find(item.str()) != std::string_view::npos;
        case Kind::Dict:
        case Kind::DictKeys:
            if (!hashable(item)) {
                type_error("unhashable type: " + quoted(item));
                return false;
            }
            return find(*container.dict, item) != nullptr;
        default:
            break;
    }
    if (!is_iterable(container)) {
        type_error("argument of type " + quoted(container) + " is not iterable");
        return false;
    }
    const auto items = items_of(container);
    charge(items.size() / 4);
    return std::ranges::any_of(items, [&](const Value& v) { return equal(v, item); });
}

}  // namespace sluice::tokens::jinja
