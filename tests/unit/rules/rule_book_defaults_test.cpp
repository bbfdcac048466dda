#include <doctest/doctest.h>

#include "core/base/log.hpp"
#include "core/rules/rule_book.hpp"
#include "tests/unit/rules/bodies.hpp"
#include "tests/unit/rules/fakes.hpp"

TEST_SUITE_BEGIN("rules/rule_book_defaults");

using namespace sluice;
using namespace sluice::rules;
using test::body;

namespace {

Defaults defaults_of(const std::map<std::string, std::string>& config) {
    auto out = Defaults::from(
        [](std::string_view) -> std::optional<std::string> { return std::nullopt; }, config);
    REQUIRE_MESSAGE(out.ok(), out.error().what);
    return std::move(*out);
}

struct Fixture {
    Fixture() {
        for (const auto& [port, more] : {std::pair("8001", ""), std::pair("8002", "9")}) {
            test::Members fields{{"port", port}};
            if (*more != '\0') {
                fields.emplace_back("kvMinMatchTokens", more);
            }
            REQUIRE_FALSE(book.put(body(fields), actor).refusal.has_value());
        }
        hooks.log.clear();
    }
    test::MemoryStore store;
    test::RecordingHooks hooks;
    RuleBook book{store, hooks};
    Actor actor{"ann", "127.0.0.9"};
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "another default reaches the rules that do not say the value") {
    const auto before = book.table()->rules();
    const std::string stored = store.text();
    CHECK_FALSE(book.set_defaults(defaults_of({{"kvMinMatchTokens", "77"}})).has_value());
    const auto after = book.table()->rules();
    REQUIRE(after.size() == 2);
    CHECK(after[0]->kv.min_match_tokens == 77);
    CHECK(after[0]->id == before[0]->id);
    CHECK(after[0]->number == before[0]->number);
    CHECK(after[0]->generation == before[0]->generation);
    CHECK(after[0]->endpoints.front().id == before[0]->endpoints.front().id);
    CHECK(after[1] == before[1]);  // it says the value: not touched
    CHECK(store.text() == stored);
    CHECK(hooks.log.back() == "applied 2");

    // A rule to come gets it, too.
    CHECK(book.put(body({{"port", "8003"}}), actor).rule->kv.min_match_tokens == 77);
}

TEST_CASE_FIXTURE(Fixture, "the same defaults again touch nothing") {
    CHECK_FALSE(book.set_defaults(Defaults()).has_value());
    CHECK(hooks.log.empty());
}

TEST_CASE_FIXTURE(Fixture, "defaults that a rule does not stand change none of them") {
    const auto before = book.table()->rules();
    hooks.refuse = Refusal{400, "no", "kvMinMatchTokens", "not with this plugin", ""};
    const auto refusal = book.set_defaults(defaults_of({{"kvMinMatchTokens", "77"}}));
    REQUIRE(refusal.has_value());
    CHECK(refusal->message.find(before[0]->id) != std::string::npos);
    CHECK(book.table()->rules() == before);
    hooks.refuse.reset();
    CHECK(book.put(body({{"port", "8003"}}), actor).rule->kv.min_match_tokens == 16);
}

TEST_SUITE_END();
