#include "core/tokens/added_tokens.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace sluice::tokens;

namespace {

AddedToken plain(std::string content, TokenId id) {
    AddedToken token;
    token.content = std::move(content);
    token.id = id;
    return token;
}

// "text|<id>|text": segments as they are, matches as ids in angle brackets.
std::string cut(const AddedTokens& tokens, std::string_view text) {
    std::string out;
    const auto put = [&out](std::string_view part) {
        out.append(out.empty() ? "" : "|").append(part);
    };
    AddedTokens::Cursor cursor(tokens, text);
    AddedTokens::Match match{};
    std::size_t at = 0;
    while (cursor.next(match)) {
        if (at < match.begin) {
            put(text.substr(at, match.begin - at));
        }
        put("<" + std::to_string(match.id) + ">");
        at = match.end;
    }
    if (at != text.size()) {
        put(text.substr(at));
    }
    return out;
}

}  // namespace

TEST_SUITE("tokens/added_tokens") {
    TEST_CASE("the leftmost match wins, of those the longest, and matches do not overlap") {
        const AddedTokens tokens({plain("<a>", 1), plain("<a><b>", 2), plain("<b>", 3),
                                  plain("b><a", 4), plain("\n", 5), plain("\n\n\n", 6)});
        struct Row {
            const char* text;
            const char* want;
        };
        for (const Row& row :
             {Row{"", ""}, Row{"x", "x"}, Row{"<a>", "<1>"}, Row{"x<a>y", "x|<1>|y"},
              Row{"<a><b>", "<2>"}, Row{"<a><a><b>", "<1>|<2>"}, Row{"<b><a>", "<3>|<1>"},
              Row{"xb><a>", "x|<4>|>"}, Row{"<a", "<a"}, Row{"<a><", "<1>|<"},
              Row{"\n\n", "<5>|<5>"}, Row{"\n\n\n\n", "<6>|<5>"}, Row{"a\nb", "a|<5>|b"}}) {
            CAPTURE(row.text);
            CHECK(cut(tokens, row.text) == row.want);
        }
    }

    TEST_CASE("lstrip and rstrip swallow the white space beside a match") {
        AddedToken left = plain("<l>", 1);
        left.strips_left = true;
        AddedToken right = plain("<r>", 2);
        right.strips_right = true;
        const AddedTokens tokens({left, right, plain("<n>", 3)});
        CHECK(cut(tokens, "a \n\t<l> b") == "a|<1>| b");
        CHECK(cut(tokens, "a <r> \n b") == "a |<2>|b");
        CHECK(cut(tokens, "a\u3000\u00A0<l>\u2003b") == "a|<1>|\u2003b");
        // U+200B is no white space.
        CHECK(cut(tokens, "a \u200B<l>") == "a \u200B|<1>");
        CHECK(cut(tokens, "  <l>") == "<1>");
        CHECK(cut(tokens, "<r>  ") == "<2>");
        CHECK(cut(tokens, " <n> ") == " |<3>| ");
    }

    TEST_CASE("lstrip takes no white space that the match before has taken") {
        AddedToken both = plain("<x>", 1);
        both.strips_left = true;
        both.strips_right = true;
        const AddedTokens tokens({both, plain("<n>", 2)});
        CHECK(cut(tokens, "<x> <x> a") == "<1>|<1>|a");
        CHECK(cut(tokens, "<n> <x>") == "<2>|<1>");
    }

    TEST_CASE("single_word drops a match beside a word character") {
        AddedToken word = plain("cat", 1);
        word.is_single_word = true;
        const AddedTokens tokens({word});
        struct Row {
            const char* text;
            const char* want;
        };
        for (const Row& row :
             {Row{"cat", "<1>"}, Row{"a cat.", "a |<1>|."}, Row{"cats", "cats"},
              Row{"tomcat", "tomcat"}, Row{"cat_", "cat_"}, Row{"cat1", "cat1"},
              Row{"\u00E9cat", "\u00E9cat"}, Row{"cat\u0301", "cat\u0301"},
              Row{"\u4E2Dcat", "\u4E2Dcat"}, Row{"(cat)", "(|<1>|)"}, Row{"cat-cat", "<1>|-|<1>"},
              Row{"\u2014cat\u2014", "\u2014|<1>|\u2014"}}) {
            CAPTURE(row.text);
            CHECK(cut(tokens, row.text) == row.want);
        }
    }

    TEST_CASE("a dropped match has consumed its place") {
        AddedToken word = plain("aba", 1);
        word.is_single_word = true;
        const AddedTokens tokens({word, plain("ba!", 2)});
        // "aba" is found at 0 and dropped for the "!"-less neighbour; "ba!" inside it is gone.
        CHECK(cut(tokens, "xaba!") == "xaba!");
        CHECK(cut(tokens, "xba!") == "x|<2>");
    }

    TEST_CASE("the last of two tokens with the same text counts, an empty one never matches") {
        const AddedTokens tokens({plain("<a>", 1), plain("", 2), plain("<a>", 3)});
        CHECK(cut(tokens, "<a>b") == "<3>|b");
        CHECK(AddedTokens({plain("", 1)}).empty());
    }
}
