#include <array>
#include <charconv>
#include <cmath>

#include "tests/sim/support/json.hpp"
#include "tests/sim/support/utf8.hpp"

namespace sluice::sim::json {
namespace {

void unicode_escape(std::string& out, unsigned unit) {
    static constexpr std::string_view kHex = "0123456789abcdef";
    out += "\\u";
    for (const unsigned shift : {12U, 8U, 4U, 0U}) {
        out.push_back(kHex[unit >> shift & 15U]);
    }
}

void quote_non_ascii(std::string& out, std::string_view s, std::size_t& i) {
    const unsigned c = utf8::take(s, i);
    if (c >= 0x10000) {
        unicode_escape(out, 0xD800 + ((c - 0x10000) >> 10U));
        unicode_escape(out, 0xDC00 + ((c - 0x10000) & 0x3FFU));
    } else {
        unicode_escape(out, c);
    }
}

void quote(std::string& out, std::string_view s, Style style) {
    out.push_back('"');
    for (std::size_t i = 0; i < s.size();) {
        const auto c = static_cast<unsigned char>(s[i]);
        if (c >= 0x80 && style == Style::Spaced) {
            quote_non_ascii(out, s, i);
            continue;
        }
        ++i;
        switch (c) {
            case '"':
                out += "\\\"";
                break;
            case '\\':
                out += "\\\\";
                break;
            case '\n':
                out += "\\n";
                break;
            case '\r':
                out += "\\r";
                break;
            case '\t':
                out += "\\t";
                break;
            case '\b':
                out += "\\b";
                break;
            case '\f':
                out += "\\f";
                break;
            default:
                if (c < 0x20) {
                    unicode_escape(out, c);
                } else {
                    out.push_back(static_cast<char>(c));
                }
        }
    }
    out.push_back('"');
}

}  // namespace

std::string float_text(double d) {
    if (std::isnan(d)) {
        return "nan";
    }
    if (std::isinf(d)) {
        return d > 0 ? "inf" : "-inf";
    }
    std::array<char, 64> buf{};
    // Python leaves plain notation from 1e16 upwards and below 1e-4.
    const double size = std::fabs(d);
    const bool is_plain = size == 0 || (size >= 1e-4 && size < 1e16);
    const auto r =
        std::to_chars(buf.data(), buf.data() + buf.size(), d,
                      is_plain ? std::chars_format::fixed : std::chars_format::scientific);
    std::string s(buf.data(), r.ptr);
    if (s.find_first_of(".e") == std::string::npos) {
        s += ".0";
    }
    return s;
}

void Writer::separate() {
    if (need_comma_) {
        out_ += style_ == Style::Compact ? "," : ", ";
    }
    need_comma_ = true;
}

Writer& Writer::open_object() {
    separate();
    out_.push_back('{');
    need_comma_ = false;
    return *this;
}

Writer& Writer::close_object() {
    out_.push_back('}');
    need_comma_ = true;
    return *this;
}

Writer& Writer::open_array() {
    separate();
    out_.push_back('[');
    need_comma_ = false;
    return *this;
}

Writer& Writer::close_array() {
    out_.push_back(']');
    need_comma_ = true;
    return *this;
}

Writer& Writer::key(std::string_view name) {
    separate();
    quote(out_, name, style_);
    out_ += style_ == Style::Compact ? ":" : ": ";
    need_comma_ = false;
    return *this;
}

Writer& Writer::null() {
    return raw("null");
}
Writer& Writer::value(bool b) {
    return raw(b ? "true" : "false");
}
Writer& Writer::value(std::int64_t n) {
    return raw(std::to_string(n));
}
Writer& Writer::value(std::uint64_t n) {
    return raw(std::to_string(n));
}
Writer& Writer::value(double d) {
    return raw(float_text(d));
}

Writer& Writer::value(std::string_view s) {
    separate();
    quote(out_, s, style_);
    return *this;
}

Writer& Writer::raw(std::string_view json) {
    separate();
    out_ += json;
    return *this;
}

Writer& Writer::value(const Value& v) {
    if (const Object* o = v.object()) {
        open_object();
        for (const Member& m : *o) {
            key(m.key).value(m.value);
        }
        return close_object();
    }
    if (const Array* a = v.array()) {
        open_array();
        for (const Value& item : *a) {
            value(item);
        }
        return close_array();
    }
    if (const std::string* s = v.text()) {
        return value(std::string_view(*s));
    }
    if (const bool* b = v.boolean()) {
        return value(*b);
    }
    if (const std::int64_t* n = v.integer()) {
        return value(*n);
    }
    if (const double* d = v.real()) {
        return value(*d);
    }
    return null();
}

}  // namespace sluice::sim::json
