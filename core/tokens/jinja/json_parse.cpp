#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <memory>

#include "core/tokens/jinja/json.hpp"
#include "core/tokens/jinja/unicode.hpp"

namespace sluice::tokens::jinja {
namespace {

namespace sj = simdjson::ondemand;

// A parser's buffers are several times the largest document it saw; above this it is let go.
constexpr std::size_t kKeepParserBytes = std::size_t{1} << 20U;

// The length of a JSON number at the start of `text`, 0 if there is none.
std::size_t number_length(std::string_view text, bool& is_integer) {
    const auto digits = [text](std::size_t at) {
        std::size_t end = at;
        while (end < text.size() && text[end] >= '0' && text[end] <= '9') {
            ++end;
        }
        return end - at;
    };
    std::size_t at = !text.empty() && text[0] == '-' ? 1 : 0;
    const std::size_t whole = digits(at);
    if (whole == 0 || (whole > 1 && text[at] == '0')) {
        return 0;
    }
    at += whole;
    is_integer = true;
    if (at < text.size() && text[at] == '.') {
        const std::size_t n = digits(at + 1);
        if (n == 0) {
            return 0;
        }
        at += 1 + n;
        is_integer = false;
    }
    if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
        const std::size_t sign =
            at + 1 < text.size() && (text[at + 1] == '+' || text[at + 1] == '-') ? 1 : 0;
        const std::size_t n = digits(at + 1 + sign);
        if (n == 0) {
            return 0;
        }
        at += 1 + sign + n;
        is_integer = false;
    }
    return at;
}

// std::from_chars leaves the value alone when it is out of range; Python gives inf or 0.
double to_double(std::string_view text) {
    double v = 0;
    const auto r = std::from_chars(text.data(), text.data() + text.size(), v);
    if (r.ec == std::errc::result_out_of_range) {
        const bool is_small = text.find("e-") != std::string_view::npos ||
                              text.find("E-") != std::string_view::npos || text[0] == '0' ||
                              text.substr(0, 2) == "-0";
        v = is_small ? 0.0 : std::numeric_limits<double>::infinity();
        if (text[0] == '-') {
            v = -v;
        }
    }
    return v;
}

class Reader {
public:
    // `end` is where the document ends in its padded copy.
    Reader(Arena& arena, const char* end) : arena_(arena), end_(end) {}

    Value value(sj::value v, int depth) {
        if (depth > kMaxJsonDepth) {
            fail(Code::Limit, "JSON is nested too deeply");
            return {};
        }
        sj::json_type type{};
        if (check(v.type().get(type))) {
            return {};
        }
        switch (type) {
            case sj::json_type::object: {
                sj::object o;
                return check(v.get_object().get(o)) ? Value() : object(o, depth, {});
            }
            case sj::json_type::array: {
                sj::array a;
                return check(v.get_array().get(a)) ? Value() : array(a, depth);
            }
            case sj::json_type::string: {
                sj::raw_json_string raw;
                return check(v.get_raw_json_string().get(raw)) ? Value() : text(raw);
            }
            case sj::json_type::number:
                return number(v);
            case sj::json_type::boolean: {
                bool b = false;
                return check(v.get_bool().get(b)) ? Value() : Value::of(b);
            }
            case sj::json_type::null: {
                bool is_null = false;
                if (!check(v.is_null().get(is_null)) && !is_null) {
                    check(simdjson::N_ATOM_ERROR);
                }
                return Value::none();
            }
        }
        return {};
    }

    Value object(sj::object o, int depth, std::span<const std::string_view> keep) {
        DictData* dict = make_dict(arena_, 0);
        for (auto member : o) {
            sj::field field;
            if (check(std::move(member).get(field))) {
                break;
            }
            const Value key = text(field.key());
            if (!keep.empty() && std::ranges::find(keep, key.str()) == keep.end()) {
                continue;
            }
            const Value v = value(field.value(), depth + 1);
            room(put(arena_, *dict, key, v));
            if (error_) {
                break;
            }
        }
        return Value::of(dict);
    }

    bool check(simdjson::error_code code) {
        if (code != simdjson::SUCCESS) {
            fail(Code::Invalid, "not valid JSON");
        }
        return error_.has_value();
    }
    std::optional<Error>& error() { return error_; }

private:
    Value array(sj::array a, int depth) {
        ListData* list = make_list(arena_, 0);
        for (auto item : a) {
            sj::value v;
            if (check(std::move(item).get(v))) {
                break;
            }
            room(append(arena_, *list, value(v, depth + 1)));
            if (error_) {
                break;
            }
        }
        return Value::of(list);
    }

    // Text without escapes is a view of the padded copy, which is in the arena.
    Value text(sj::raw_json_string raw) {
        const char* from = raw.raw();
        const auto* quote =
            static_cast<const char*>(std::memchr(from, '"', static_cast<std::size_t>(end_ - from)));
        if (quote == nullptr) {
            fail(Code::Invalid, "not valid JSON: a string is not closed");
            return Value::of(std::string_view(""));
        }
        const auto size = static_cast<std::size_t>(quote - from);
        if (std::memchr(from, '\\', size) == nullptr) {
            return Value::of(std::string_view(from, size));
        }
        return escaped(from);
    }

    Value escaped(const char* from) {
        const char* quote = from;
        while (quote < end_ && *quote != '"') {
            quote += *quote == '\\' ? 2 : 1;
        }
        char* const out = arena_.text(static_cast<std::size_t>(quote - from));
        if (quote >= end_ || out == nullptr) {
            fail(Code::Invalid, "not valid JSON: a string is not closed");
            return Value::of(std::string_view(""));
        }
        char* to = out;
        for (const char* p = from; p < quote;) {
            const auto* slash =
                static_cast<const char*>(std::memchr(p, '\\', static_cast<std::size_t>(quote - p)));
            const char* run_end = slash == nullptr ? quote : slash;
            std::memcpy(to, p, static_cast<std::size_t>(run_end - p));
            to += run_end - p;
            p = run_end;
            if (slash != nullptr && !unescape(p, quote, to)) {
                fail(Code::Invalid, "not valid JSON: a string has a wrong escape");
                break;
            }
        }
        return Value::of(std::string_view(out, static_cast<std::size_t>(to - out)));
    }

    // The escape at `p`, which is moved past it. What it gives is never longer than it.
    static bool unescape(const char*& p, const char* end, char*& to) {
        static constexpr std::string_view kFrom = "\"\\/bfnrt";
        static constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
        const char c = p[1];
        if (const auto k = kFrom.find(c); k != std::string_view::npos) {
            *to++ = kTo[k];
            p += 2;
            return true;
        }
        std::uint32_t code = 0;
        if (c != 'u' || !hex4(p + 2, end, code)) {
            return false;
        }
        p += 6;
        if (code >= 0xD800 && code < 0xDC00) {
            std::uint32_t low = 0;
            if (end - p < 6 || p[0] != '\\' || p[1] != 'u' || !hex4(p + 2, end, low) ||
                low < 0xDC00 || low > 0xDFFF) {
                return false;
            }
            p += 6;
            code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
        }
        std::string utf8;
        if (!append_utf8(utf8, code)) {
            return false;
        }
        std::memcpy(to, utf8.data(), utf8.size());
        to += utf8.size();
        return true;
    }

    static bool hex4(const char* p, const char* end, std::uint32_t& code) {
        return end - p >= 4 && std::from_chars(p, p + 4, code, 16).ptr == p + 4;
    }

    Value number(sj::value v) {
        const std::string_view token = v.raw_json_token();
        bool is_integer = false;
        const std::size_t n = number_length(token, is_integer);
        if (n == 0 || token.find_first_not_of(" \t\r\n", n) != std::string_view::npos) {
            fail(Code::Invalid, "not valid JSON: a number is malformed");
            return {};
        }
        const std::string_view digits = token.substr(0, n);
        if (!is_integer) {
            return Value::of(to_double(digits));
        }
        std::int64_t i = 0;
        if (std::from_chars(digits.data(), digits.data() + n, i).ec == std::errc()) {
            return Value::of(i);
        }
        return Value::of(digits, Kind::BigInt);
    }

    void room(bool ok) {
        if (!ok || arena_.exceeded()) {
            fail(Code::Limit, "JSON is too large");
        }
    }
    void fail(Code code, const char* what) {
        if (!error_) {
            error_ = Error{code, what};
        }
    }

    Arena& arena_;
    const char* end_;
    std::optional<Error> error_;
};

Result<Value> parse(Arena& arena, std::string_view json, std::span<const std::string_view> keep) {
    thread_local std::unique_ptr<sj::parser> parser;
    if (parser == nullptr) {
        parser = std::make_unique<sj::parser>();
    }
    if (json.size() > std::numeric_limits<std::uint32_t>::max() / 4) {
        return Error{Code::Limit, "JSON is too large"};
    }
    char* padded = arena.text(json.size() + simdjson::SIMDJSON_PADDING);
    if (padded == nullptr) {
        return Error{Code::Limit, "JSON is too large"};
    }
    std::memcpy(padded, json.data(), json.size());
    std::memset(padded + json.size(), 0, simdjson::SIMDJSON_PADDING);
    Reader reader(arena, padded + json.size());
    Value out;
    {
        sj::document doc;
        sj::object object;
        if (!reader.check(
                parser->iterate(padded, json.size(), json.size() + simdjson::SIMDJSON_PADDING)
                    .get(doc))) {
            sj::json_type type{};
            if (!reader.check(doc.type().get(type))) {
                if (type != sj::json_type::object) {
                    return Error{Code::Invalid, "a JSON object is expected"};
                }
                if (!reader.check(doc.get_object().get(object))) {
                    out = reader.object(object, 0, keep);
                    if (!reader.error() &&
                        doc.current_location().error() != simdjson::OUT_OF_BOUNDS) {
                        reader.check(simdjson::TRAILING_CONTENT);
                    }
                }
            }
        }
    }
    if (json.size() > kKeepParserBytes) {
        parser.reset();
    }
    if (reader.error()) {
        return std::move(*reader.error());
    }
    return out;
}

}  // namespace

Result<Value> parse_json(Arena& arena, std::string_view text) {
    return parse(arena, text, {});
}

Result<Value> parse_json_members(Arena& arena, std::string_view text,
                                 std::span<const std::string_view> keep) {
    return parse(arena, text, keep);
}

}  // namespace sluice::tokens::jinja
