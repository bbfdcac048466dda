#include <charconv>

#include "core/tokens/jinja/lexer.hpp"
#include "core/tokens/jinja/unicode.hpp"

namespace sluice::tokens::jinja {

std::string normalise_source(std::string_view source) {
    std::string out;
    out.reserve(source.size());
    for (std::size_t i = 0; i < source.size(); ++i) {
        if (source[i] != '\r') {
            out.push_back(source[i]);
            continue;
        }
        out.push_back('\n');
        if (i + 1 < source.size() && source[i + 1] == '\n') {
            ++i;
        }
    }
    if (!out.empty() && out.back() == '\n') {
        out.pop_back();
    }
    return out;
}

// Python's "unicode-escape": an unknown escape stays as it is written.
std::optional<std::string> unescape(std::string_view body) {
    std::string out;
    out.reserve(body.size());
    for (std::size_t i = 0; i < body.size(); ++i) {
        if (body[i] != '\\') {
            out.push_back(body[i]);
            continue;
        }
        const char c = body[++i];  // see the precondition
        static constexpr std::string_view kFrom = "ntrabfv\\'\"";
        static constexpr std::string_view kTo = "\n\t\r\a\b\f\v\\'\"";
        if (const auto k = kFrom.find(c); k != std::string_view::npos) {
            out.push_back(kTo[k]);
        } else if (c == 'x' || c == 'u' || c == 'U') {
            const std::size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
            std::uint32_t code = 0;
            const char* first = body.data() + i + 1;
            if (body.size() - i - 1 < n ||
                std::from_chars(first, first + n, code, 16).ptr != first + n ||
                !append_utf8(out, code)) {
                return std::nullopt;
            }
            i += n;
        } else if (c >= '0' && c <= '7') {
            std::uint32_t code = 0;
            std::size_t n = 0;
            for (; n < 3 && i < body.size() && body[i] >= '0' && body[i] <= '7'; ++n, ++i) {
                code = code * 8 + static_cast<std::uint32_t>(body[i] - '0');
            }
            --i;
            append_utf8(out, code);
        } else if (c == 'N') {
            return std::nullopt;  // a character by its Unicode name
        } else if (c != '\n') {
            out.push_back('\\');
            out.push_back(c);
        }
    }
    return out;
}

}  // namespace sluice::tokens::jinja
