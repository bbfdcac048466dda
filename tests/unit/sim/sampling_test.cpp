#include "tests/sim/engine/sampling.hpp"

#include <doctest/doctest.h>

using namespace sluice::sim;

namespace {

const TextModel& model() {
    static const auto m = TextModel::bytes();
    return *m;
}

std::vector<TokenId> ids(std::string_view text) {
    return *model().encode(text, false);
}

std::vector<Step> run(Sampling s, std::string_view prompt = "hello") {
    Generator g(model(), std::move(s), ids(prompt), 0, 0);
    std::vector<Step> out;
    do {
        out.push_back(g.next());
    } while (!out.back().finish);
    return out;
}

Sampling says(std::string_view text) {
    Sampling s;
    s.script = ids(text);
    s.max_tokens = 100;
    return s;
}

std::vector<std::string> texts(const std::vector<Step>& steps) {
    std::vector<std::string> out;
    for (const Step& s : steps) {
        out.push_back(s.text);
    }
    return out;
}

}  // namespace

TEST_SUITE("sim/sampling") {
    TEST_CASE("equal prompts give equal text, others do not") {
        Sampling s;
        s.max_tokens = 20;
        CHECK(texts(run(s)) == texts(run(s)));
        CHECK(texts(run(s)) != texts(run(s, "hullo")));
    }

    TEST_CASE("a prompt that ends inside a generation is continued in the same way") {
        Sampling s;
        s.max_tokens = 6;
        const auto whole = run(s);
        Sampling rest;
        rest.max_tokens = 3;
        const auto tail = run(rest, "hello" + whole[0].text + whole[1].text + whole[2].text);
        CHECK(tail[0].token == whole[3].token);
        CHECK(tail[2].token == whole[5].token);
    }

    TEST_CASE("text that may begin a stop text is held back, and the stop text is cut off") {
        Sampling s = says("abcdefSTOPxyz");
        s.stop = {"STOP"};
        const auto steps = run(s);
        CHECK(texts(steps) ==
              std::vector<std::string>{"", "", "", "a", "b", "c", "d", "e", "f", ""});
        CHECK(std::get<std::string>(steps.back().finish->stop) == "STOP");
        CHECK(steps.back().finish->reason == FinishReason::Stop);
    }

    TEST_CASE("a stop text is kept when asked for") {
        Sampling s = says("abSTOPxyz");
        s.stop = {"STOP"};
        s.includes_stop = true;
        std::string all;
        for (const Step& step : run(s)) {
            all += step.text;
        }
        CHECK(all == "abSTOP");
    }

    TEST_CASE("a stop token ends the answer without its text") {
        Sampling s = says("abc");
        s.stop_ids = {'b'};
        const auto steps = run(s);
        CHECK(texts(steps) == std::vector<std::string>{"a", ""});
        CHECK(std::get<TokenId>(steps.back().finish->stop) == 'b');
    }

    TEST_CASE("the end token waits for min_tokens, and never comes when ignored") {
        Sampling s;
        s.forced = model().eos();
        s.min_tokens = 2;
        s.max_tokens = 9;
        auto steps = run(s);
        CHECK(steps.size() == 3);
        CHECK(steps.back().finish->reason == FinishReason::Stop);
        s.ignores_eos = true;
        steps = run(s);
        CHECK(steps.size() == 9);
        CHECK(steps.back().finish->reason == FinishReason::Length);
    }

    TEST_CASE("an unbounded answer ends by itself") {
        Sampling s;
        s.max_tokens = 100'000;
        const auto steps = run(s);
        CHECK(steps.size() > 20);
        CHECK(steps.size() < 300);
        CHECK(steps.back().token == model().eos());
    }

    TEST_CASE("characters of several tokens appear whole") {
        const auto steps = run(says("\xE2\x82\xAC!"));
        CHECK(texts(steps) == std::vector<std::string>{"", "", "\xE2\x82\xAC", "!", ""});
    }
}
