#include <algorithm>
#include <cmath>

#include "core/tokens/jinja/json.hpp"
#include "core/tokens/jinja/merge_sort.hpp"
#include "core/tokens/jinja/print.hpp"
#include "core/tokens/jinja/unicode.hpp"

namespace sluice::tokens::jinja {
namespace {

constexpr char kHex[] = "0123456789abcdef";

void append_u(std::string& out, std::uint32_t unit) {
    out += "\\u";
    for (unsigned shift = 16; shift > 0;) {
        shift -= 4;
        out.push_back(kHex[unit >> shift & 15U]);
    }
}

void append_float_json(std::string& out, double v) {
    if (std::isnan(v)) {
        out += "NaN";
    } else if (std::isinf(v)) {
        out += v < 0 ? "-Infinity" : "Infinity";
    } else {
        append_float(out, v);
    }
}

class Dumper {
public:
    Dumper(std::string& out, const JsonStyle& style, std::size_t max_bytes, Value& culprit)
        : out_(out), style_(style), max_(max_bytes), culprit_(culprit) {}

    DumpResult value(const Value& v, int depth) {
        if (depth > 2 * kMaxJsonDepth || out_.size() > max_) {
            return DumpResult::TooLarge;
        }
        switch (v.kind) {
            case Kind::None:
                out_ += "null";
                break;
            case Kind::Bool:
                out_ += v.boolean ? "true" : "false";
                break;
            case Kind::Int:
                append_int(out_, v.integer);
                break;
            case Kind::BigInt:
                out_.append(v.str());
                break;
            case Kind::Float:
                append_float_json(out_, v.number);
                break;
            case Kind::String:
                append_json_string(out_, v.str(), style_.ensure_ascii);
                break;
            case Kind::List:
            case Kind::Tuple:
                return list(*v.list, depth);
            case Kind::Dict:
                return dict(*v.dict, depth);
            default:
                culprit_ = v;
                return DumpResult::NotSerializable;
        }
        return DumpResult::Ok;
    }

private:
    void line(int depth) {
        if (style_.indent) {
            out_.push_back('\n');
            for (int i = 0; i < depth; ++i) {
                out_ += *style_.indent;
            }
        }
    }
    // With an indent the items are on lines of their own.
    void between(bool is_first, int depth) {
        if (!is_first) {
            out_ += style_.item_separator;
        }
        line(depth);
    }

    DumpResult list(const ListData& list, int depth) {
        out_.push_back('[');
        for (std::uint32_t i = 0; i < list.size; ++i) {
            between(i == 0, depth + 1);
            if (const auto r = value(list.items[i], depth + 1); r != DumpResult::Ok) {
                return r;
            }
        }
        if (list.size > 0) {
            line(depth);
        }
        out_.push_back(']');
        return DumpResult::Ok;
    }

    DumpResult key(const Value& k) {
        std::string text;
        switch (k.kind) {
            case Kind::String:
                append_json_string(out_, k.str(), style_.ensure_ascii);
                return DumpResult::Ok;
            case Kind::None:
                text = "null";
                break;
            case Kind::Bool:
                text = k.boolean ? "true" : "false";
                break;
            case Kind::Int:
                append_int(text, k.integer);
                break;
            case Kind::BigInt:
                text = k.str();
                break;
            case Kind::Float:
                append_float_json(text, k.number);
                break;
            default:
                culprit_ = k;
                return DumpResult::NotSerializable;
        }
        out_ += '"' + text + '"';
        return DumpResult::Ok;
    }

    DumpResult entry(const DictEntry& e, bool is_first, int depth) {
        between(is_first, depth);
        if (const auto r = key(e.key); r != DumpResult::Ok) {
            return r;
        }
        out_ += style_.key_separator;
        return value(e.value, depth);
    }

    DumpResult dict(const DictData& dict, int depth) {
        out_.push_back('{');
        if (style_.sort_keys) {
            std::vector<const DictEntry*> sorted;
            for (const DictEntry& e : dict.view()) {
                sorted.push_back(&e);
            }
            // UTF-8 sorts as code points do. Keys of several types cannot be sorted in Python.
            merge_sort(sorted, [](const DictEntry* a, const DictEntry* b) {
                return a->key.is_string() && b->key.is_string() && a->key.str() < b->key.str();
            });
            for (const DictEntry* e : sorted) {
                if (const auto r = entry(*e, e == sorted.front(), depth + 1); r != DumpResult::Ok) {
                    return r;
                }
            }
        } else {
            for (const DictEntry& e : dict.view()) {
                if (const auto r = entry(e, &e == dict.entries, depth + 1); r != DumpResult::Ok) {
                    return r;
                }
            }
        }
        if (dict.size > 0) {
            line(depth);
        }
        out_.push_back('}');
        return DumpResult::Ok;
    }

    std::string& out_;
    const JsonStyle& style_;
    std::size_t max_;
    Value& culprit_;
};

bool is_plain(char c, bool ensure_ascii) {
    const auto u = static_cast<unsigned char>(c);
    return u >= 0x20 && u != '"' && u != '\\' && (!ensure_ascii || u < 0x80);
}

}  // namespace

void append_json_string(std::string& out, std::string_view text, bool ensure_ascii) {
    out.push_back('"');
    for (std::size_t at = 0; at < text.size();) {
        std::size_t end = at;
        while (end < text.size() && is_plain(text[end], ensure_ascii)) {
            ++end;
        }
        out.append(text.substr(at, end - at));
        at = end;
        if (at == text.size()) {
            break;
        }
        const std::uint32_t code = next_code_point(text, at);
        switch (code) {
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
                if (code >= 0x10000) {
                    append_u(out, 0xD800U + ((code - 0x10000U) >> 10U));
                    append_u(out, 0xDC00U + ((code - 0x10000U) & 0x3FFU));
                } else {
                    append_u(out, code);
                }
        }
    }
    out.push_back('"');
}

DumpResult dump_json(std::string& out, const Value& v, const JsonStyle& style,
                     std::size_t max_bytes, Value& culprit) {
    return Dumper(out, style, max_bytes, culprit).value(v, 0);
}

}  // namespace sluice::tokens::jinja
