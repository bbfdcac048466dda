#include "core/tokens/nfc.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace sluice::tokens;

namespace {

std::string nfc(std::string_view text) {
    std::string out;
    append_nfc(text, out);
    return out;
}

}  // namespace

TEST_SUITE("tokens/nfc") {
    TEST_CASE("characters are composed, ordered and left alone as Unicode says") {
        struct Row {
            const char* name;
            const char* text;
            const char* want;
        };
        for (const Row& row : {
                 Row{"ASCII", "plain text", "plain text"},
                 Row{"composed already", "\u00E9\u4E2D", "\u00E9\u4E2D"},
                 Row{"mark joins", "e\u0301", "\u00E9"},
                 Row{"in the middle", "xe\u0301y", "x\u00E9y"},
                 Row{"two marks", "a\u0323\u0302", "\u1EAD"},
                 Row{"marks out of order", "a\u0302\u0323", "\u1EAD"},
                 Row{"blocked by its like", "a\u0301\u0300", "\u00E1\u0300"},
                 Row{"recomposed", "\u1E9B\u0323", "\u1E9B\u0323"},
                 Row{"singleton", "\u2126", "\u03A9"},
                 Row{"exclusion", "\u0958", "\u0915\u093C"},
                 Row{"Hangul", "\u1112\u1161\u11AB", "\uD55C"},
                 Row{"Hangul syllable and tail", "\uD558\u11AB", "\uD55C"},
                 Row{"Hangul tail alone", "\u11AB", "\u11AB"},
                 Row{"mark at the start", "\u0301a", "\u0301a"},
                 Row{"starter between", "e\u200D\u0301", "e\u200D\u0301"},
                 Row{"non-starter that decomposes", "\u0344", "\u0308\u0301"},
                 // Marks of Unicode 10 and later are starters here: not ordered, and they block.
                 Row{"newer mark", "a\u0DF3\u0301", "a\u0DF3\u0301"},
                 Row{"newer mark blocks", "e\u1DF6\u0301", "e\u1DF6\u0301"},
                 // A composition of Unicode 14 that does not happen.
                 Row{"newer composition", "\U00011935\U00011930", "\U00011935\U00011930"},
             }) {
            CAPTURE(row.name);
            CHECK(nfc(row.text) == row.want);
            CHECK((!is_nfc_quick(row.text) || std::string(row.text) == row.want));
            CHECK(nfc(row.want) == row.want);
        }
    }

    TEST_CASE("the quick answer is yes for what is common") {
        CHECK(is_nfc_quick(""));
        CHECK(is_nfc_quick(std::string(100, 'x')));
        CHECK(is_nfc_quick("na\u00EFve \u4E2D\u6587\uFF0C\u3053\u3093 \uD55C\uAD6D \U0001F600"));
        CHECK(!is_nfc_quick(std::string(70, 'x') + "e\u0301"));
        CHECK(!is_nfc_quick("a\u0302\u0323"));
    }

    TEST_CASE("a megabyte of marks on one letter is ordered in time") {
        std::string text = "a";
        std::string want = "\u1EAD";
        for (int i = 0; i < 150'000; ++i) {
            text += "\u0302\u0323";
        }
        for (int i = 1; i < 150'000; ++i) {
            want += "\u0323";
        }
        for (int i = 1; i < 150'000; ++i) {
            want += "\u0302";
        }
        CHECK(nfc(text) == want);
    }
}
