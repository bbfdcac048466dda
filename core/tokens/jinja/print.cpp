#include "core/tokens/jinja/print.hpp"

#include <charconv>
#include <cmath>

#include "core/tokens/jinja/interp.hpp"
#include "core/tokens/jinja/unicode.hpp"

namespace sluice::tokens::jinja {
namespace {

constexpr int kMaxDepth = 300;
constexpr char kHex[] = "0123456789abcdef";

void append_hex(std::string& out, std::uint32_t code, int digits) {
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
        out.push_back(kHex[code >> static_cast<unsigned>(shift) & 15U]);
    }
}

// What repr() writes for the characters with a short escape, and for the quote.
bool append_escape(std::string& out, std::uint32_t code, char quote) {
    switch (code) {
        case '\n':
            out += "\\n";
            return true;
        case '\r':
            out += "\\r";
            return true;
        case '\t':
            out += "\\t";
            return true;
        case '\\':
            out += "\\\\";
            return true;
        default:
            break;
    }
    if (code == static_cast<unsigned char>(quote)) {
        out.push_back('\\');
        out.push_back(quote);
        return true;
    }
    return false;
}

char quote_for(std::string_view text) {
    return text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos
               ? '"'
               : '\'';
}

void append_text_repr(std::string& out, std::string_view text) {
    const char quote = quote_for(text);
    out.push_back(quote);
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t start = at;
        const std::uint32_t code = next_code_point(text, at);
        if (append_escape(out, code, quote)) {
            continue;
        }
        if (code >= 0x20 && (code < 0x7F || is(Class::Printable, code))) {
            out.append(text.substr(start, at - start));
        } else if (code < 0x100) {
            out += "\\x";
            append_hex(out, code, 2);
        } else if (code < 0x10000) {
            out += "\\u";
            append_hex(out, code, 4);
        } else {
            out += "\\U";
            append_hex(out, code, 8);
        }
    }
    out.push_back(quote);
}

void append_bytes_repr(std::string& out, std::string_view bytes) {
    const char quote = quote_for(bytes);
    out.push_back('b');
    out.push_back(quote);
    for (const char c : bytes) {
        const auto code = static_cast<std::uint32_t>(static_cast<unsigned char>(c));
        if (append_escape(out, code, quote)) {
            continue;
        }
        if (code >= 0x20 && code < 0x7F) {
            out.push_back(c);
        } else {
            out += "\\x";
            append_hex(out, code, 2);
        }
    }
    out.push_back(quote);
}

class Printer {
public:
    Printer(std::string& out, std::size_t max_bytes, int depth)
        : out_(out), max_(max_bytes), depth_(depth) {}

    bool list(const ListData& list, char open, char close, bool is_tuple) {
        out_.push_back(open);
        for (std::uint32_t i = 0; i < list.size; ++i) {
            if (i > 0) {
                out_ += ", ";
            }
            if (!append_repr(out_, list.items[i], max_, depth_)) {
                return false;
            }
        }
        if (is_tuple && list.size == 1) {
            out_.push_back(',');
        }
        out_.push_back(close);
        return true;
    }

    bool dict(const DictData& dict) {
        out_.push_back('{');
        for (std::uint32_t i = 0; i < dict.size; ++i) {
            if (i > 0) {
                out_ += ", ";
            }
            if (!append_repr(out_, dict.entries[i].key, max_, depth_)) {
                return false;
            }
            out_ += ": ";
            if (!append_repr(out_, dict.entries[i].value, max_, depth_)) {
                return false;
            }
        }
        out_.push_back('}');
        return true;
    }

    // dict_keys([...]) and its kin.
    bool view(const Value& v) {
        out_.append(type_name(v));
        out_ += "([";
        for (std::uint32_t i = 0; i < v.dict->size; ++i) {
            const DictEntry& e = v.dict->entries[i];
            if (i > 0) {
                out_ += ", ";
            }
            const bool is_pair = v.is(Kind::DictItems);
            out_ += is_pair ? "(" : "";
            if (!v.is(Kind::DictValues) && !append_repr(out_, e.key, max_, depth_)) {
                return false;
            }
            out_ += is_pair ? ", " : "";
            if (!v.is(Kind::DictKeys) && !append_repr(out_, e.value, max_, depth_)) {
                return false;
            }
            out_ += is_pair ? ")" : "";
        }
        out_ += "])";
        return true;
    }

    void range(const RangeData& r) {
        out_ += "range(";
        append_int(out_, r.start);
        out_ += ", ";
        append_int(out_, r.start + r.count * r.step);
        if (r.step != 1) {
            out_ += ", ";
            append_int(out_, r.step);
        }
        out_.push_back(')');
    }

private:
    std::string& out_;
    std::size_t max_;
    int depth_;
};

}  // namespace

void append_int(std::string& out, std::int64_t v) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, v).ptr;
    out.append(digits, end);
}

void append_float(std::string& out, double v) {
    if (std::isnan(v)) {
        out += "nan";
        return;
    }
    if (std::isinf(v)) {
        out += v < 0 ? "-inf" : "inf";
        return;
    }
    // Digits and exponent of the shortest form: "-d.ddde+XX".
    char text[40];
    const auto end = std::to_chars(text, text + sizeof text, v, std::chars_format::scientific).ptr;
    std::string_view all(text, static_cast<std::size_t>(end - text));
    if (all.front() == '-') {
        out.push_back('-');
        all.remove_prefix(1);
    }
    const std::size_t e = all.find('e');
    int exponent = 0;
    const char* from = all.data() + e + (all[e + 1] == '+' ? 2 : 1);
    std::from_chars(from, all.data() + all.size(), exponent);
    std::string digits(1, all[0]);
    if (e > 2) {
        digits.append(all.substr(2, e - 2));
    }
    if (exponent < -4 || exponent >= 16) {
        out.push_back(digits[0]);
        if (digits.size() > 1) {
            out.push_back('.');
            out.append(digits, 1);
        }
        out.append(all.substr(e));
        return;
    }
    if (exponent < 0) {
        out += "0.";
        out.append(static_cast<std::size_t>(-exponent - 1), '0');
        out += digits;
        return;
    }
    const auto whole = static_cast<std::size_t>(exponent) + 1;
    if (digits.size() <= whole) {
        out += digits;
        out.append(whole - digits.size(), '0');
        out += ".0";
    } else {
        out.append(digits, 0, whole);
        out.push_back('.');
        out.append(digits, whole);
    }
}

bool append_str(std::string& out, const Value& v, std::size_t max_bytes) {
    if (v.is_string()) {
        out.append(v.str());
        return out.size() <= max_bytes;
    }
    if (v.is_undefined()) {
        return true;
    }
    return append_repr(out, v, max_bytes);
}

bool append_repr(std::string& out, const Value& v, std::size_t max_bytes, int depth) {
    if (depth > kMaxDepth || out.size() > max_bytes) {
        return false;
    }
    Printer printer(out, max_bytes, depth + 1);
    switch (v.kind) {
        case Kind::Undefined:
            out += "Undefined";
            break;
        case Kind::None:
            out += "None";
            break;
        case Kind::Bool:
            out += v.boolean ? "True" : "False";
            break;
        case Kind::Int:
            append_int(out, v.integer);
            break;
        case Kind::BigInt:
            out.append(v.str());
            break;
        case Kind::Float:
            append_float(out, v.number);
            break;
        case Kind::String:
            if (v.is_markup()) {
                out += "Markup(";
            }
            append_text_repr(out, v.str());
            if (v.is_markup()) {
                out.push_back(')');
            }
            break;
        case Kind::Bytes:
            append_bytes_repr(out, v.str());
            break;
        case Kind::List:
            return printer.list(*v.list, '[', ']', false);
        case Kind::Tuple:
            return printer.list(*v.list, '(', ')', true);
        case Kind::Dict:
            return printer.dict(*v.dict);
        case Kind::DictKeys:
        case Kind::DictValues:
        case Kind::DictItems:
            return printer.view(v);
        case Kind::Range:
            printer.range(*v.range);
            break;
        case Kind::Namespace:
            out += "<Namespace ";
            if (!printer.dict(*v.dict)) {
                return false;
            }
            out.push_back('>');
            break;
        case Kind::Macro:
            out += "<Macro '";
            out.append(v.macro->body->name);
            out += "'>";
            break;
        case Kind::Loop:
            out += "<LoopContext ";
            append_int(out, static_cast<std::int64_t>(v.loop->index) + 1);
            out.push_back('/');
            append_int(out, static_cast<std::int64_t>(v.loop->items.size()));
            out.push_back('>');
            break;
        case Kind::Generator:
        case Kind::Method:
        case Kind::Function:
            return false;  // Python prints an address here
    }
    return out.size() <= max_bytes;
}

}  // namespace sluice::tokens::jinja
