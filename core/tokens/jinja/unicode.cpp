#include "core/tokens/jinja/unicode.hpp"

#include <algorithm>

#include "core/tokens/jinja/unicode_tables.hpp"

namespace sluice::tokens::jinja {
namespace {

bool in(std::span<const CodeRange> ranges, std::uint32_t code) {
    const auto at = std::ranges::upper_bound(ranges, code, {}, &CodeRange::first);
    return at != ranges.begin() && code <= std::prev(at)->last;
}

bool is_cased(std::uint32_t code) {
    return is(Class::Upper, code) || is(Class::Lower, code) || is(Class::Title, code);
}

// Greek sigma at the end of a word has a form of its own.
bool is_final_sigma(std::string_view text, std::size_t at, std::size_t after) {
    bool is_after_letter = false;
    for (std::size_t p = at; p > 0;) {
        p = previous_code_point(text, p);
        std::size_t q = p;
        const std::uint32_t code = next_code_point(text, q);
        if (!in(kCaseIgnorableRanges, code)) {
            is_after_letter = is_cased(code);
            break;
        }
    }
    if (!is_after_letter) {
        return false;
    }
    while (after < text.size()) {
        const std::uint32_t code = next_code_point(text, after);
        if (!in(kCaseIgnorableRanges, code)) {
            return !is_cased(code);
        }
    }
    return true;
}

void append_lower(std::string& out, std::string_view text, std::size_t at, std::size_t after,
                  std::uint32_t code) {
    if (code == 0x3A3 && is_final_sigma(text, at, after)) {
        append_utf8(out, 0x3C2);
    } else {
        append_case(out, code, Case::Lower);
    }
}

}  // namespace

std::uint32_t next_code_point(std::string_view text, std::size_t& at) {
    const auto byte = [&](std::size_t i) -> std::uint32_t {
        return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
    };
    const std::uint32_t a = byte(at);
    std::size_t n = 1;
    std::uint32_t code = a;
    if (a >= 0xF0) {
        n = 4;
        code = (a & 7U) << 18U | (byte(at + 1) & 63U) << 12U | (byte(at + 2) & 63U) << 6U |
               (byte(at + 3) & 63U);
    } else if (a >= 0xE0) {
        n = 3;
        code = (a & 15U) << 12U | (byte(at + 1) & 63U) << 6U | (byte(at + 2) & 63U);
    } else if (a >= 0xC0) {
        n = 2;
        code = (a & 31U) << 6U | (byte(at + 1) & 63U);
    }
    at = std::min(at + n, text.size());
    return code;
}

std::size_t previous_code_point(std::string_view text, std::size_t end) {
    std::size_t at = end - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80) {
        --at;
    }
    return at;
}

bool append_utf8(std::string& out, std::uint32_t code) {
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
        return false;
    }
    const auto put = [&out](std::uint32_t byte) {
        out.push_back(static_cast<char>(byte));
    };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xC0U | code >> 6U);
        put(0x80U | (code & 63U));
    } else if (code < 0x10000) {
        put(0xE0U | code >> 12U);
        put(0x80U | (code >> 6U & 63U));
        put(0x80U | (code & 63U));
    } else {
        put(0xF0U | code >> 18U);
        put(0x80U | (code >> 12U & 63U));
        put(0x80U | (code >> 6U & 63U));
        put(0x80U | (code & 63U));
    }
    return true;
}

std::size_t count_code_points(std::string_view text) {
    std::size_t n = 0;
    for (const char c : text) {
        n += (static_cast<unsigned char>(c) & 0xC0U) != 0x80 ? 1 : 0;
    }
    return n;
}

std::size_t code_point_offset(std::string_view text, std::size_t index) {
    std::size_t at = 0;
    while (at < text.size()) {
        if ((static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80) {
            if (index == 0) {
                return at;
            }
            --index;
        }
        ++at;
    }
    return text.size();
}

bool is_space(std::uint32_t code) {
    if (code < 0x80) {
        return code == ' ' || (code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x1F);
    }
    return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
           code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

std::string_view strip_left(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
        std::size_t next = at;
        if (!is_space(next_code_point(text, next))) {
            break;
        }
        at = next;
    }
    return text.substr(at);
}

std::string_view strip_right(std::string_view text) {
    while (!text.empty()) {
        const std::size_t at = previous_code_point(text, text.size());
        std::size_t next = at;
        if (!is_space(next_code_point(text, next))) {
            break;
        }
        text = text.substr(0, at);
    }
    return text;
}

std::string_view strip_left(std::string_view text, std::string_view chars) {
    std::size_t at = 0;
    while (at < text.size()) {
        std::size_t next = at;
        next_code_point(text, next);
        if (chars.find(text.substr(at, next - at)) == std::string_view::npos) {
            break;
        }
        at = next;
    }
    return text.substr(at);
}

std::string_view strip_right(std::string_view text, std::string_view chars) {
    while (!text.empty()) {
        const std::size_t at = previous_code_point(text, text.size());
        if (chars.find(text.substr(at)) == std::string_view::npos) {
            break;
        }
        text = text.substr(0, at);
    }
    return text;
}

bool is(Class c, std::uint32_t code) {
    switch (c) {
        case Class::Printable:
            return in(kPrintableRanges, code);
        case Class::Alpha:
            return in(kAlphaRanges, code);
        case Class::Decimal:
            return in(kDecimalRanges, code);
        case Class::Digit:
            return in(kDigitRanges, code);
        case Class::Numeric:
            return in(kNumericRanges, code);
        case Class::Upper:
            return in(kUpperRanges, code);
        case Class::Lower:
            return in(kLowerRanges, code);
        case Class::Title:
            return in(kTitleRanges, code);
    }
    return false;
}

void append_case(std::string& out, std::uint32_t code, Case to) {
    if (code < 0x80) {
        const bool is_letter =
            to == Case::Lower ? code >= 'A' && code <= 'Z' : code >= 'a' && code <= 'z';
        out.push_back(static_cast<char>(is_letter ? code ^ 0x20U : code));
        return;
    }
    const CaseTable& table = to == Case::Upper   ? kUpperCase
                             : to == Case::Lower ? kLowerCase
                                                 : kTitleCase;
    const auto special = std::ranges::lower_bound(table.special, code, {}, &CaseSpecial::code);
    if (special != table.special.end() && special->code == code) {
        for (const std::uint32_t part : special->to) {
            if (part != 0) {
                append_utf8(out, part);
            }
        }
        return;
    }
    const auto run = std::ranges::upper_bound(table.runs, code, {}, &CaseRun::first);
    if (run != table.runs.begin()) {
        const CaseRun& r = *std::prev(run);
        if (code <= r.last && (code - r.first) % r.step == 0) {
            append_utf8(out, static_cast<std::uint32_t>(static_cast<std::int32_t>(code) + r.delta));
            return;
        }
    }
    append_utf8(out, code);
}

std::string to_case(std::string_view text, Case to) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t start = at;
        const std::uint32_t code = next_code_point(text, at);
        if (to == Case::Lower) {
            append_lower(out, text, start, at, code);
        } else {
            append_case(out, code, to);
        }
    }
    return out;
}

std::string to_title(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    bool is_after_cased = false;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t start = at;
        const std::uint32_t code = next_code_point(text, at);
        if (is_after_cased) {
            append_lower(out, text, start, at, code);
        } else {
            append_case(out, code, Case::Title);
        }
        is_after_cased = is_cased(code);
    }
    return out;
}

std::string capitalise(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t start = at;
        const std::uint32_t code = next_code_point(text, at);
        if (start == 0) {
            append_case(out, code, Case::Title);
        } else {
            append_lower(out, text, start, at, code);
        }
    }
    return out;
}

}  // namespace sluice::tokens::jinja
