#include "core/tokens/jinja/builtins.hpp"

#include <algorithm>
#include <string>

#include "core/tokens/jinja/interp.hpp"

namespace sluice::tokens::jinja {
namespace {

struct NamedMethod {
    std::string_view name;
    Method method;
};

// Sorted by name.
constexpr NamedMethod kMethods[] = {
    {"append", Method::Append},
    {"capitalize", Method::Capitalize},
    {"center", Method::Center},
    {"changed", Method::Changed},
    {"clear", Method::Clear},
    {"copy", Method::Copy},
    {"count", Method::Count},
    {"cycle", Method::Cycle},
    {"encode", Method::Encode},
    {"endswith", Method::EndsWith},
    {"extend", Method::Extend},
    {"find", Method::Find},
    {"format", Method::Format},
    {"get", Method::Get},
    {"index", Method::Index},
    {"insert", Method::Insert},
    {"isalnum", Method::IsAlnum},
    {"isalpha", Method::IsAlpha},
    {"isascii", Method::IsAscii},
    {"isdecimal", Method::IsDecimal},
    {"isdigit", Method::IsDigit},
    {"islower", Method::IsLower},
    {"isnumeric", Method::IsNumeric},
    {"isspace", Method::IsSpace},
    {"istitle", Method::IsTitle},
    {"isupper", Method::IsUpper},
    {"items", Method::Items},
    {"join", Method::Join},
    {"keys", Method::Keys},
    {"ljust", Method::LJust},
    {"lower", Method::Lower},
    {"lstrip", Method::LStrip},
    {"partition", Method::Partition},
    {"pop", Method::Pop},
    {"popitem", Method::PopItem},
    {"remove", Method::Remove},
    {"removeprefix", Method::RemovePrefix},
    {"removesuffix", Method::RemoveSuffix},
    {"replace", Method::Replace},
    {"reverse", Method::Reverse},
    {"rfind", Method::RFind},
    {"rindex", Method::RIndex},
    {"rjust", Method::RJust},
    {"rpartition", Method::RPartition},
    {"rsplit", Method::RSplit},
    {"rstrip", Method::RStrip},
    {"setdefault", Method::SetDefault},
    {"sort", Method::Sort},
    {"split", Method::Split},
    {"splitlines", Method::SplitLines},
    {"startswith", Method::StartsWith},
    {"strip", Method::Strip},
    {"swapcase", Method::SwapCase},
    {"title", Method::Title},
    {"update", Method::Update},
    {"upper", Method::Upper},
    {"values", Method::Values},
    {"zfill", Method::ZFill},
};
static_assert(std::ranges::is_sorted(kMethods, {}, &NamedMethod::name));

}  // namespace

Method method_named(std::string_view name) {
    const auto at = std::ranges::lower_bound(kMethods, name, {}, &NamedMethod::name);
    return at != std::end(kMethods) && at->name == name ? at->method : Method::None;
}

std::string_view method_name(Method method) {
    const auto at = std::ranges::find(kMethods, method, &NamedMethod::method);
    return at != std::end(kMethods) ? at->name : std::string_view();
}

bool has_method(Kind kind, Method method) {
    if (method == Method::None) {
        return false;
    }
    switch (kind) {
        case Kind::String:
            return method >= Method::Split && method <= Method::Encode;
        case Kind::Dict:
            return method <= Method::Copy || method == Method::Pop || method == Method::PopItem ||
                   method == Method::Clear || method == Method::Update ||
                   method == Method::SetDefault;
        case Kind::List:
            return method == Method::Index || method == Method::Count || method == Method::Copy ||
                   (method >= Method::Append && method <= Method::Clear &&
                    method != Method::PopItem);
        case Kind::Tuple:
        case Kind::Range:
            return method == Method::Index || method == Method::Count;
        case Kind::Loop:
            return method == Method::Cycle || method == Method::Changed;
        default:
            return false;
    }
}

Value global_named(std::string_view name) {
    static constexpr struct {
        std::string_view name;
        Function function;
    } kGlobals[] = {
        {"range", Function::Range},
        {"namespace", Function::Namespace},
        {"dict", Function::Dict},
        {"raise_exception", Function::RaiseException},
        {"strftime_now", Function::StrftimeNow},
    };
    for (const auto& global : kGlobals) {
        if (global.name == name) {
            Value v = Value::of(Kind::Function);
            v.integer = static_cast<std::int64_t>(global.function);
            return v;
        }
    }
    return Value::undefined(name);
}

bool match_args(Interp& in, std::string_view callee, std::span<const std::string_view> params,
                std::size_t required, const Args& args, Bound& out) {
    out.all = &args;
    if (!params.empty() && params[0] == "*") {
        return true;
    }
    std::size_t count = 0;
    while (count < params.size() && !params[count].empty()) {
        ++count;
    }
    const std::string name(callee);
    if (args.positional.size() > count) {
        in.type_error(name + "() takes at most " + std::to_string(count) + " arguments (" +
                      std::to_string(args.positional.size()) + " given)");
        return false;
    }
    for (std::size_t i = 0; i < args.positional.size(); ++i) {
        out.values[i] = &args.positional[i];
    }
    for (const KeywordArg& named : args.named) {
        std::size_t i = 0;
        while (i < count && params[i] != named.name) {
            ++i;
        }
        if (i == count || out.values[i] != nullptr) {
            in.type_error(name + "() got an unexpected keyword argument '" +
                          std::string(named.name) + "'");
            return false;
        }
        out.values[i] = &named.value;
    }
    for (std::size_t i = 0; i < required; ++i) {
        if (out.values[i] == nullptr) {
            in.type_error(name + "() misses the argument '" + std::string(params[i]) + "'");
            return false;
        }
    }
    return true;
}

int filter_named(std::string_view name) {
    int at = 0;
    for (const auto table : {text_filters(), list_filters()}) {
        for (const Filter& f : table) {
            if (f.name == name) {
                return at;
            }
            ++at;
        }
    }
    return -1;
}

const Filter& filter_at(int function) {
    const auto at = static_cast<std::size_t>(function);
    const auto text = text_filters();
    return at < text.size() ? text[at] : list_filters()[at - text.size()];
}

Value Interp::filter(int function, std::string_view name, const Value& input, const Args& args) {
    if (function < 0) {
        return fail(Code::Invalid, "No filter named '" + std::string(name) + "' found.");
    }
    const Filter& f = filter_at(function);
    Bound bound;
    if (!match_args(*this, f.name, f.params, f.required, args, bound)) {
        return {};
    }
    return f.body(*this, input, bound);
}

bool Interp::test(int function, std::string_view name, const Value& subject, const Args& args) {
    if (function < 0) {
        fail(Code::Invalid, "No test named '" + std::string(name) + "' found.");
        return false;
    }
    const Test& t = test_at(function);
    static constexpr std::string_view kParams[] = {"other"};
    Bound bound;
    if (!match_args(*this, t.name, std::span(kParams).first(t.arguments), t.arguments, args,
                    bound)) {
        return false;
    }
    return t.body(*this, subject, bound);
}

}  // namespace sluice::tokens::jinja
