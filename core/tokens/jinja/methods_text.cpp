#include <algorithm>
#include <array>
#include <limits>

#include "core/tokens/jinja/interp.hpp"
#include "core/tokens/jinja/methods.hpp"
#include "core/tokens/jinja/text.hpp"
#include "core/tokens/jinja/unicode.hpp"

namespace sluice::tokens::jinja {
namespace {

using Params = std::array<std::string_view, 3>;

Value push_text(Interp& in, ListData& out, const Value& self, std::string_view part) {
    in.push(out, in.text_like(self, part, false));
    return {};
}

// The first space of `text`, or its last; npos without one. `after` is where it ends.
std::size_t find_space(std::string_view text, bool from_right, std::size_t& after) {
    for (std::size_t at = from_right ? text.size() : 0; from_right ? at > 0 : at < text.size();) {
        std::size_t start = from_right ? previous_code_point(text, at) : at;
        const std::size_t space = start;
        const std::uint32_t code = next_code_point(text, start);
        if (is_space(code)) {
            after = start;
            return space;
        }
        at = from_right ? space : start;
    }
    return std::string_view::npos;
}

Value split_spaces(Interp& in, const Value& self, std::int64_t most, bool from_right) {
    // With a limit the end that is not split off keeps its space.
    std::string_view rest = most < 0     ? strip(self.str())
                            : from_right ? strip_right(self.str())
                                         : strip_left(self.str());
    ListData* out = in.list();
    for (std::int64_t n = 0; !rest.empty() && !in.failed(); ++n) {
        std::size_t after = 0;
        const std::size_t space =
            most >= 0 && n == most ? std::string_view::npos : find_space(rest, from_right, after);
        if (space == std::string_view::npos) {
            push_text(in, *out, self, rest);
            break;
        }
        push_text(in, *out, self, from_right ? rest.substr(after) : rest.substr(0, space));
        rest = from_right ? strip_right(rest.substr(0, space)) : strip_left(rest.substr(after));
    }
    if (from_right) {
        std::reverse(out->items, out->items + out->size);
    }
    return Value::of(out);
}

Value split(Interp& in, const Value& self, const Bound& args, bool from_right) {
    std::int64_t most = -1;
    if (args.has(1)) {
        if (!args[1]->is_int()) {
            return in.type_error("'" + std::string(type_name(*args[1])) +
                                 "' object cannot be interpreted as an integer");
        }
        most = args[1]->as_int();
    }
    in.charge(self.size / 64);
    if (!args.has(0) || args[0]->is_none()) {
        return split_spaces(in, self, most, from_right);
    }
    if (!args[0]->is_string()) {
        return in.type_error("must be str or None, not " + std::string(type_name(*args[0])));
    }
    const std::string_view by = args[0]->str();
    if (by.empty()) {
        return in.type_error("empty separator");
    }
    ListData* out = in.list();
    std::string_view rest = self.str();
    for (std::int64_t n = 0; (most < 0 || n < most) && !in.failed(); ++n) {
        const std::size_t hit = from_right ? rest.rfind(by) : rest.find(by);
        if (hit == std::string_view::npos) {
            break;
        }
        push_text(in, *out, self, from_right ? rest.substr(hit + by.size()) : rest.substr(0, hit));
        rest = from_right ? rest.substr(0, hit) : rest.substr(hit + by.size());
    }
    push_text(in, *out, self, rest);
    if (from_right) {
        std::reverse(out->items, out->items + out->size);
    }
    return Value::of(out);
}

Value strip_method(Interp& in, const Value& self, Method method, const Bound& args) {
    std::string_view s = self.str();
    const bool left = method != Method::RStrip;
    const bool right = method != Method::LStrip;
    if (!args.has(0) || args[0]->is_none()) {
        s = left ? strip_left(s) : s;
        s = right ? strip_right(s) : s;
    } else if (args[0]->is_string()) {
        s = left ? strip_left(s, args[0]->str()) : s;
        s = right ? strip_right(s, args[0]->str()) : s;
    } else {
        return in.type_error(std::string(method_name(method)) + " arg must be None or str");
    }
    return in.text_like(self, s, false);
}

Value join(Interp& in, const Value& self, const Bound& args) {
    std::string out;
    const auto items = in.items_of(*args[0]);
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (!items[i].is_string()) {
            return in.type_error("sequence item " + std::to_string(i) +
                                 ": expected str instance, " + std::string(type_name(items[i])) +
                                 " found");
        }
        if (i > 0) {
            out += self.str();
        }
        out += items[i].str();
        if (out.size() > in.max_text()) {
            return in.fail(Code::Limit, "a joined text is too large");
        }
    }
    in.charge(out.size() / 64);
    return in.text_like(self, out, true);
}

Value swap_case(Interp& in, const Value& self) {
    std::string out;
    const std::string_view s = self.str();
    for (std::size_t at = 0; at < s.size();) {
        const std::uint32_t code = next_code_point(s, at);
        append_case(out, code, is(Class::Upper, code) ? Case::Lower : Case::Upper);
    }
    return in.text_like(self, out, true);
}

Value split_lines_method(Interp& in, const Value& self, const Bound& args) {
    ListData* out = in.list();
    in.charge(self.size / 64);
    for (const std::string_view line : split_lines(self.str(), args.flag(0))) {
        push_text(in, *out, self, line);
    }
    return Value::of(out);
}

Value pad_method(Interp& in, const Value& self, Method method, const Bound& args) {
    const std::string_view fill = args.has(1) && args[1]->is_string() ? args[1]->str() : " ";
    if (!args[0]->is_int() || count_code_points(fill) != 1) {
        return in.type_error("The fill character must be exactly one character long");
    }
    const std::int64_t width = args[0]->as_int();
    if (method != Method::ZFill) {
        return pad_text(in, self, width, fill,
                        method == Method::LJust   ? Pad::Right
                        : method == Method::RJust ? Pad::Left
                                                  : Pad::Both);
    }
    const std::string_view s = self.str();
    const bool has_sign = s.starts_with('-') || s.starts_with('+');
    const Value body = in.text_like(self, s.substr(has_sign ? 1 : 0), false);
    const Value padded = pad_text(in, body, width - (has_sign ? 1 : 0), "0", Pad::Left);
    return has_sign ? in.binary(Op::Add, in.text_like(self, s.substr(0, 1), true), padded) : padded;
}

Value affix_method(Interp& in, const Value& self, Method method, const Bound& args) {
    if (!args[0]->is_string()) {
        return in.type_error(std::string(method_name(method)) + "() argument must be str");
    }
    std::string_view s = self.str();
    const std::string_view affix = args[0]->str();
    if (method == Method::RemovePrefix && s.starts_with(affix)) {
        s.remove_prefix(affix.size());
    } else if (method == Method::RemoveSuffix && s.ends_with(affix)) {
        s.remove_suffix(affix.size());
    }
    return in.text_like(self, s, false);
}

// Parameter names and how many are required.
std::pair<Params, std::size_t> signature(Method method) {
    switch (method) {
        case Method::Split:
        case Method::RSplit:
            return {{"sep", "maxsplit"}, 0};
        case Method::Strip:
        case Method::LStrip:
        case Method::RStrip:
            return {{"chars"}, 0};
        case Method::Replace:
            return {{"old", "new", "count"}, 2};
        case Method::StartsWith:
        case Method::EndsWith:
        case Method::Find:
        case Method::RFind:
        case Method::Index:
        case Method::RIndex:
        case Method::Count:
            return {{"sub", "start", "end"}, 1};
        case Method::Join:
        case Method::Partition:
        case Method::RPartition:
        case Method::RemovePrefix:
        case Method::RemoveSuffix:
            return {{"value"}, 1};
        case Method::SplitLines:
            return {{"keepends"}, 0};
        case Method::ZFill:
            return {{"width"}, 1};
        case Method::LJust:
        case Method::RJust:
        case Method::Center:
            return {{"width", "fillchar"}, 1};
        case Method::Encode:
            return {{"encoding", "errors"}, 0};
        default:
            return {{}, 0};
    }
}

}  // namespace

Value text_method(Interp& in, const Value& self, Method method, const Args& args) {
    if (method == Method::Format) {
        return str_format(in, self.str(), args);
    }
    const auto [params, required] = signature(method);
    Bound bound;
    if (!match_args(in, method_name(method), params, required, args, bound)) {
        return {};
    }
    switch (method) {
        case Method::Split:
            return split(in, self, bound, false);
        case Method::RSplit:
            return split(in, self, bound, true);
        case Method::Strip:
        case Method::LStrip:
        case Method::RStrip:
            return strip_method(in, self, method, bound);
        case Method::StartsWith:
        case Method::EndsWith:
            return has_affix(in, self, method, bound);
        case Method::Replace:
            if (!bound[0]->is_string() || !bound[1]->is_string() ||
                (bound.has(2) && !bound[2]->is_int())) {
                return in.type_error("replace() expects two strings and a count");
            }
            return replace_text(in, self, bound[0]->str(), bound[1]->str(),
                                bound.has(2) ? bound[2]->as_int() : -1);
        case Method::Upper:
            return in.text_like(self, to_case(self.str(), Case::Upper), true);
        case Method::Lower:
            return in.text_like(self, to_case(self.str(), Case::Lower), true);
        case Method::Title:
            return in.text_like(self, to_title(self.str()), true);
        case Method::Capitalize:
            return in.text_like(self, capitalise(self.str()), true);
        case Method::SwapCase:
            return swap_case(in, self);
        case Method::Find:
        case Method::RFind:
        case Method::Index:
        case Method::RIndex:
        case Method::Count:
            return find_method(in, self, method, bound);
        case Method::Join:
            return join(in, self, bound);
        case Method::Partition:
        case Method::RPartition:
            return partition(in, self, method, bound);
        case Method::RemovePrefix:
        case Method::RemoveSuffix:
            return affix_method(in, self, method, bound);
        case Method::SplitLines:
            return split_lines_method(in, self, bound);
        case Method::ZFill:
        case Method::LJust:
        case Method::RJust:
        case Method::Center:
            return pad_method(in, self, method, bound);
        case Method::Encode: {
            if (bound.has(0) && in.str(*bound[0]) != "utf-8" && in.str(*bound[0]) != "utf8") {
                return in.fail(Code::Unsupported, "encode() knows UTF-8 only");
            }
            Value bytes = self;
            bytes.kind = Kind::Bytes;
            return bytes;
        }
        case Method::IsUpper:
        case Method::IsLower:
        case Method::IsTitle:
            return is_cased_as(self, method);
        default:
            return is_all(self, method);
    }
}

}  // namespace sluice::tokens::jinja
