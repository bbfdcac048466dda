// The filters, tests, methods and globals a template can name.
//
// Threads: any; tables are constant.
// Source:  Jinja2 3.1.6 and CPython 3.11; README.md says what is left out.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/tokens/value.hpp"

namespace sluice::tokens::jinja {

class Interp;
struct Args;

enum class Method : std::uint16_t {
    None,
    // dict
    Items,
    Keys,
    Values,
    Get,
    Copy,
    // str
    Split,
    RSplit,
    Strip,
    LStrip,
    RStrip,
    StartsWith,
    EndsWith,
    Replace,
    Upper,
    Lower,
    Title,
    Capitalize,
    SwapCase,
    Find,
    RFind,
    Index,
    RIndex,
    Count,
    Join,
    Format,
    IsDigit,
    IsDecimal,
    IsNumeric,
    IsAlnum,
    IsAlpha,
    IsSpace,
    IsUpper,
    IsLower,
    IsTitle,
    IsAscii,
    Partition,
    RPartition,
    RemovePrefix,
    RemoveSuffix,
    SplitLines,
    ZFill,
    LJust,
    RJust,
    Center,
    Encode,
    // loop
    Cycle,
    Changed,
    // What changes a list or a dict: the sandbox refuses it.
    Append,
    Extend,
    Insert,
    Pop,
    PopItem,
    Remove,
    Reverse,
    Sort,
    Clear,
    Update,
    SetDefault,
};

// Method::None if no object has one of that name.
Method method_named(std::string_view name);
std::string_view method_name(Method method);
// Whether values of this kind have it (refused ones count).
bool has_method(Kind kind, Method method);
inline bool is_refused(Method method) {
    return method >= Method::Append;
}

enum class Function : std::int64_t { Range, Namespace, Dict, RaiseException, StrftimeNow };
// A global of the environment, or Undefined.
Value global_named(std::string_view name);

// Arguments matched to parameter names; absent ones are null.
struct Bound {
    static constexpr std::size_t kMax = 6;
    std::array<const Value*, kMax> values{};
    const Args* all = nullptr;

    const Value* operator[](std::size_t i) const { return values[i]; }
    bool has(std::size_t i) const { return values[i] != nullptr; }
    // Absent gives the fallback.
    bool flag(std::size_t i, bool fallback = false) const {
        return values[i] == nullptr ? fallback : truthy(*values[i]);
    }
};
// `params` are names in order; a leading "*" takes any arguments as they come (Bound::all). False
// and a failure if the arguments do not fit.
bool match_args(Interp& in, std::string_view callee, std::span<const std::string_view> params,
                std::size_t required, const Args& args, Bound& out);

using FilterBody = Value (*)(Interp& in, const Value& input, const Bound& args);
struct Filter {
    std::string_view name;
    FilterBody body;
    std::array<std::string_view, Bound::kMax> params;
    std::size_t required = 0;
};
using TestBody = bool (*)(Interp& in, const Value& subject, const Bound& args);
struct Test {
    std::string_view name;
    TestBody body;
    std::size_t arguments = 0;
};

// -1 if unknown.
int filter_named(std::string_view name);
int test_named(std::string_view name);
const Filter& filter_at(int function);
const Test& test_at(int function);

std::span<const Filter> text_filters();
std::span<const Filter> list_filters();

// format.cpp. printf_format: '%s=%d' % values. str_format: '{} {x}'.format(...).
Value printf_format(Interp& in, std::string_view format, const Value& values);
Value str_format(Interp& in, std::string_view format, const Args& args);
Value format_time(Interp& in, std::string_view format);

}  // namespace sluice::tokens::jinja
