#include <algorithm>

#include "core/tokens/jinja/interp.hpp"
#include "core/tokens/jinja/unicode.hpp"

namespace sluice::tokens::jinja {
namespace {

template <Kind kind>
bool is_kind(Interp&, const Value& v, const Bound&) {
    return v.is(kind);
}
template <bool wanted>
bool is_bool(Interp&, const Value& v, const Bound&) {
    return v.is(Kind::Bool) && v.boolean == wanted;
}
template <Op op>
bool is_compared(Interp& in, const Value& v, const Bound& args) {
    return in.compare(op, v, *args[0]);
}

bool is_defined(Interp&, const Value& v, const Bound&) {
    return !v.is_undefined();
}
bool is_integer(Interp&, const Value& v, const Bound&) {
    return v.is(Kind::Int) || v.is(Kind::BigInt);
}
bool is_number(Interp&, const Value& v, const Bound&) {
    return v.is_number() || v.is(Kind::BigInt);
}
bool is_iterable(Interp&, const Value& v, const Bound&) {
    return Interp::is_iterable(v) || v.is(Kind::Loop) || v.is(Kind::Bytes);
}
bool is_sequence(Interp&, const Value& v, const Bound&) {
    switch (v.kind) {
        case Kind::Undefined:
        case Kind::String:
        case Kind::Bytes:
        case Kind::List:
        case Kind::Tuple:
        case Kind::Dict:
        case Kind::Range:
            return true;
        default:
            return false;
    }
}
bool is_callable(Interp&, const Value& v, const Bound&) {
    return v.is(Kind::Macro) || v.is(Kind::Method) || v.is(Kind::Function) || v.is(Kind::Loop) ||
           v.is_undefined();
}
bool is_same(Interp&, const Value& v, const Bound& args) {
    const Value& other = *args[0];
    if (v.kind != other.kind) {
        return false;
    }
    switch (v.kind) {
        case Kind::None:
        case Kind::Bool:
        case Kind::Int:
        case Kind::Float:
        case Kind::String:
            return equal(v, other);
        default:
            return v.text == other.text;
    }
}

template <std::int64_t rest>
bool has_rest(Interp& in, const Value& v, const Bound&) {
    const Value r = in.binary(Op::Mod, v, Value::of(std::int64_t{2}));
    return equal(r, Value::of(rest));
}
bool is_divisible(Interp& in, const Value& v, const Bound& args) {
    return equal(in.binary(Op::Mod, v, *args[0]), Value::of(std::int64_t{0}));
}

template <Class wanted, Class other>
bool is_case(Interp& in, const Value& v, const Bound&) {
    const std::string_view s = in.str(v);
    bool has_any = false;
    for (std::size_t at = 0; at < s.size();) {
        const std::uint32_t code = next_code_point(s, at);
        if (is(other, code) || is(Class::Title, code)) {
            return false;
        }
        has_any = has_any || is(wanted, code);
    }
    return has_any;
}

bool is_escaped(Interp&, const Value& v, const Bound&) {
    return v.is_markup();
}
bool is_filter(Interp&, const Value& v, const Bound&) {
    return v.is_string() && filter_named(v.str()) >= 0;
}
bool is_test(Interp&, const Value& v, const Bound&) {
    return v.is_string() && test_named(v.str()) >= 0;
}

constexpr Test kTests[] = {
    {"defined", is_defined, 0},
    {"undefined", is_kind<Kind::Undefined>, 0},
    {"none", is_kind<Kind::None>, 0},
    {"string", is_kind<Kind::String>, 0},
    {"mapping", is_kind<Kind::Dict>, 0},
    {"iterable", is_iterable, 0},
    {"sequence", is_sequence, 0},
    {"boolean", is_kind<Kind::Bool>, 0},
    {"true", is_bool<true>, 0},
    {"false", is_bool<false>, 0},
    {"number", is_number, 0},
    {"integer", is_integer, 0},
    {"float", is_kind<Kind::Float>, 0},
    {"callable", is_callable, 0},
    {"eq", is_compared<Op::Eq>, 1},
    {"equalto", is_compared<Op::Eq>, 1},
    {"==", is_compared<Op::Eq>, 1},
    {"ne", is_compared<Op::Ne>, 1},
    {"!=", is_compared<Op::Ne>, 1},
    {"lt", is_compared<Op::Lt>, 1},
    {"lessthan", is_compared<Op::Lt>, 1},
    {"<", is_compared<Op::Lt>, 1},
    {"le", is_compared<Op::Le>, 1},
    {"<=", is_compared<Op::Le>, 1},
    {"gt", is_compared<Op::Gt>, 1},
    {"greaterthan", is_compared<Op::Gt>, 1},
    {">", is_compared<Op::Gt>, 1},
    {"ge", is_compared<Op::Ge>, 1},
    {">=", is_compared<Op::Ge>, 1},
    {"in", is_compared<Op::In>, 1},
    {"sameas", is_same, 1},
    {"odd", has_rest<1>, 0},
    {"even", has_rest<0>, 0},
    {"divisibleby", is_divisible, 1},
    {"lower", is_case<Class::Lower, Class::Upper>, 0},
    {"upper", is_case<Class::Upper, Class::Lower>, 0},
    {"escaped", is_escaped, 0},
    {"filter", is_filter, 0},
    {"test", is_test, 0},
};

}  // namespace

int test_named(std::string_view name) {
    const auto at = std::ranges::find(kTests, name, &Test::name);
    return at == std::end(kTests) ? -1 : static_cast<int>(at - std::begin(kTests));
}

const Test& test_at(int function) {
    return kTests[function];
}

}  // namespace sluice::tokens::jinja
