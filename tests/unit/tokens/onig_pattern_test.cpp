#include "core/tokens/onig_pattern.hpp"

#include <doctest/doctest.h>

#include <string>

#include "core/tokens/scanner.hpp"

using namespace sluice;
using namespace sluice::tokens;

namespace {

// The splits of a text, joined by |.
std::string split(const Scanner& scanner, std::string_view text) {
    std::string out;
    std::uint32_t at = 0;
    const auto end = static_cast<std::uint32_t>(text.size());
    while (at != end) {
        Span spans[3];
        const std::size_t count = scanner.scan(text.data(), at, end, spans, 3);
        REQUIRE(count != kScanFailed);
        for (std::size_t i = 0; i < count; ++i) {
            out.append(out.empty() ? "" : "|");
            out.append(text.substr(spans[i].begin, spans[i].end - spans[i].begin));
        }
    }
    return out;
}

std::string split(std::string_view pattern, std::string_view text) {
    const auto scanner = make_regex_scanner(pattern, Behavior::Isolated);
    REQUIRE_MESSAGE(scanner.ok(), (scanner ? std::string() : scanner.error().what));
    return split(**scanner, text);
}

}  // namespace

TEST_SUITE("tokens/onig_pattern") {
    TEST_CASE("classes mean what they mean to the reference's engine") {
        struct Row {
            const char* pattern;
            const char* text;
            const char* want;
        };
        for (const Row& row : {
                 // U+180E, U+200B and U+FEFF are no white space; U+0085 and U+3000 are.
                 Row{R"(\s+)", "a\u180Eb\u200Bc\uFEFFd", "a\u180Eb\u200Bc\uFEFFd"},
                 Row{R"(\s+)", "a\u0085\u3000b", "a|\u0085\u3000|b"},
                 Row{R"([^\s]+)", "ab c", "ab| |c"},
                 Row{R"(\S+)", "ab c", "ab| |c"},
                 Row{R"([\S]+)", "ab c", "ab| |c"},
                 // A letter of Unicode 16.0.
                 Row{R"(\p{L}+)", "1\U00010D4A2", "1|\U00010D4A|2"},
                 Row{R"(\P{L}+)", "ab12", "ab|12"},
                 Row{R"(\p{^L}+)", "ab12", "ab|12"},
                 Row{R"([^\p{L}\p{N}]+)", "a--1", "a|--|1"},
                 Row{R"(\p{Han}+)", "a\u4E2Db", "a|\u4E2D|b"},
                 Row{R"(\w+)", "a_1-\u0301", "a_1|-|\u0301"},
                 Row{R"(\d+)", "a\u0661b", "a|\u0661|b"},
                 Row{R"(\v)", "a\vb\nc", "a|\v|b\nc"},
                 Row{".", "a\n", "a|\n"},
                 Row{R"((?i:'s))", "x'\u017F", "x|'\u017F"},
                 Row{R"('[sS])", "x'S", "x|'S"},
                 Row{R"(\s+(?!\S)|\s+)", "a  b ", "a| | |b| "},
                 Row{R"(a{2})", "aaa", "aa|a"},
                 Row{R"(a{1,2}b*?c)", "aabc", "aabc"},
                 Row{R"([a-c\-\]]+)", "xb-]y", "x|b-]|y"},
                 Row{R"(\x{4E2D}|\u0041)", "bA\u4E2D", "b|A|\u4E2D"},
                 Row{R"((ab|a)(c|bcd))", "abcd", "abc|d"},
             }) {
            CAPTURE(row.pattern);
            CHECK(split(row.pattern, row.text) == row.want);
        }
    }

    TEST_CASE("the general engine splits as the hand-written scanners do") {
        constexpr std::string_view kQwen =
            R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
            R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
        constexpr std::string_view kGptOss =
            R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
            R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
            R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)"
            R"([\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
        constexpr std::string_view kDeepSeekCjk = "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+";
        constexpr std::string_view kDeepSeek =
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
            "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
        // Pieces that the rules tell apart, in random order.
        const std::string pieces[] = {
            "a",      "B",      "\u00E9", "\u00C9",     "\u4E2D", "\u02B0", "\u0301", "1",
            "\u0661", " ",      "  ",     "\t",         "\n",     "\r\n",   "\u00A0", "\u2028",
            "'",      "'s",     "'LL",    "'\u017F",    "!",      "/",      ".",      "\u200B",
            "\u01C5", "\u3000", "the",    "\U0001F600", "_",      "\u20AC", "\x01",   "\u2019"};
        for (const std::string_view pattern :
             {kQwen, kGptOss, kDeepSeek, kDeepSeekCjk, std::string_view(R"(\p{N}{1,3})")}) {
            const auto known = make_known_scanner(pattern, Behavior::Isolated);
            const auto general = make_regex_scanner(pattern, Behavior::Isolated);
            REQUIRE(known != nullptr);
            REQUIRE(general.ok());
            std::uint32_t seed = 1;
            for (int round = 0; round < 3000; ++round) {
                std::string text;
                // From one piece to several blocks of the scanners.
                for (int i = 0; i <= round % 100; ++i) {
                    seed = seed * 1664525U + 1013904223U;
                    text += pieces[(seed >> 16U) % std::size(pieces)];
                }
                CAPTURE(text);
                CHECK(split(*known, text) == split(**general, text));
            }
        }
    }

    TEST_CASE("what would mean something else is refused") {
        for (const char* pattern :
             {"^a",      "a$",           R"(\ba)",      R"(\h)",        R"(\R)",
              R"(\1)",   "(?<=a)b",      "(?<!a)b",     "(?<n>a)",      "(?i)a",
              "[a[b]]",  "[[:alpha:]]",  "[a-z&&[^b]]", "[]a]",         "[a",
              "a{,2}",   "a{1,2}+",      "a{",          R"(\p{Greek})", R"(\p)",
              R"(\p{L)", "(?i:\\p{Lu})", "a)",          R"(\xE9)",      R"(\x{D800})",
              "(*UTF)a", "[z-a]",        "\\"}) {
            CAPTURE(pattern);
            const auto rewritten = to_pcre2(pattern);
            REQUIRE(!rewritten.ok());
            CHECK(rewritten.error().code == Code::Unsupported);
        }
        CHECK(!make_regex_scanner("(a", Behavior::Isolated).ok());
        CHECK(!make_regex_scanner("a*", Behavior::Isolated).ok());
        CHECK(to_pcre2(std::string(kMaxPatternBytes + 1, 'a')).error().code == Code::Limit);
    }

    TEST_CASE("a pattern that backtracks without end fails instead of hanging") {
        const auto scanner = make_regex_scanner("(?:a|aa)+[bc]", Behavior::Isolated);
        REQUIRE(scanner.ok());
        const std::string text(60, 'a');
        Span spans[2];
        std::uint32_t at = 0;
        CHECK((*scanner)->scan(text.data(), at, 60, spans, 2) == kScanFailed);
    }
}
