// Identities over restarts, with the store that is used in earnest.
#include <doctest/doctest.h>

#include "tests/unit/rules/bodies.hpp"
#include "tests/unit/rules/fakes.hpp"
#include "tests/unit/state/folder.hpp"

TEST_SUITE_BEGIN("rules/restart");

using namespace sluice;
using namespace sluice::rules;
using test::body;

namespace {

// One life of the gateway over one file.
struct Life {
    explicit Life(const std::string& path) {
        auto opened = state::open_sqlite({path});
        REQUIRE(opened.ok());
        store = std::move(opened->store);
        book = std::make_unique<RuleBook>(*store, hooks);
        REQUIRE(book->load().ok());
    }
    RulePtr put(const std::string& text) {
        Outcome outcome = book->put(text, {});
        REQUIRE_MESSAGE(!outcome.refusal.has_value(), outcome.refusal->message);
        return outcome.rule;
    }

    test::RecordingHooks hooks;
    std::unique_ptr<state::Store> store;
    std::unique_ptr<RuleBook> book;
};

test::Members at(const char* ip) {
    return {{"endpointIP", std::string("\"") + ip + "\""}};
}

}  // namespace

TEST_CASE("no number, id or index is given twice, whatever is deleted and restarted in between") {
    const test::Folder folder;
    const std::string path = folder.file("rules.db");
    RuleKey key;
    {
        Life life(path);
        CHECK(life.put(body())->number == 1);
        const RulePtr rule = life.put(body({{"port", "81"}}, at("10.0.0.1")));
        CHECK(rule->number == 2);
        CHECK(rule->endpoints[0].id == 2);
        key = rule->key;
    }
    {
        // The newest rule goes: nothing that is still there has its number.
        Life life(path);
        CHECK_FALSE(life.book->remove(key, {}).refusal.has_value());
    }
    {
        Life life(path);
        const RulePtr rule = life.put(body({{"port", "82"}}, at("10.0.0.1")));
        CHECK(rule->number == 3);
        CHECK(rule->endpoints[0].id == 3);
        CHECK(rule->endpoints[0].ep_idx == 0);
        const RulePtr moved = life.put(body({{"port", "82"}}, at("10.0.0.2")));
        CHECK(moved->endpoints[0].id == 4);
        CHECK(moved->endpoints[0].ep_idx == 1);
    }
    {
        Life life(path);
        const RulePtr back = life.put(body({{"port", "82"}}, at("10.0.0.1")));
        CHECK(back->endpoints[0].id == 5);
        CHECK(back->endpoints[0].ep_idx == 2);
        CHECK(back->generation == 3);
        CHECK_FALSE(life.book->remove_all({}).refusal.has_value());
    }
    Life life(path);
    CHECK(life.put(body())->number == 4);
}

TEST_CASE("an edited rule is the same rule after a restart") {
    const test::Folder folder;
    const std::string path = folder.file("rules.db");
    std::string json;
    std::string effective;
    {
        Life life(path);
        const RulePtr rule = life.put(body());
        Outcome outcome = life.book->patch(
            rule->key, R"({"serviceArguments":{"adminStateUp":false,"connectionLimit":4}})", {});
        REQUIRE_FALSE(outcome.refusal.has_value());
        json = outcome.rule->json;
        effective = outcome.rule->effective;
    }
    Life life(path);
    const RulePtr rule = life.book->table()->rules().at(0);
    CHECK(rule->json == json);
    CHECK(rule->effective == effective);
    CHECK(rule->generation == 2);
    CHECK_FALSE(rule->is_admin_up);
    CHECK(rule->connection_limit == 4);
}

TEST_SUITE_END();
