#include "core/rules/rule_book.hpp"

#include <doctest/doctest.h>

#include "core/base/log.hpp"
#include "tests/unit/rules/bodies.hpp"
#include "tests/unit/rules/fakes.hpp"

TEST_SUITE_BEGIN("rules/rule_book");

using namespace sluice;
using namespace sluice::rules;
using test::body;

namespace {

struct Quiet {
    Quiet() {
        log::set_sink([](log::Level, const std::string&) {});
    }
    ~Quiet() { log::set_sink({}); }
};

struct Fixture {
    test::MemoryStore store;
    test::RecordingHooks hooks;
    RuleBook book{store, hooks};
    Actor actor{"ann", "127.0.0.9"};

    RulePtr put(const std::string& text) {
        Outcome outcome = book.put(text, actor);
        REQUIRE_MESSAGE(!outcome.refusal.has_value(), outcome.refusal->message);
        return outcome.rule;
    }
    Refusal refused(const std::string& text) {
        Outcome outcome = book.put(text, actor);
        REQUIRE(outcome.refusal.has_value());
        return *outcome.refusal;
    }
};

std::string endpoints(std::initializer_list<const char*> ips) {
    std::string out = "[";
    for (const char* ip : ips) {
        out += std::string(out.size() == 1 ? "" : ",") + R"({"endpointIP":")" + ip +
               R"(","targetPort":8000,"weight":1})";
    }
    return out + "]";
}

std::string identities(const Rule& rule) {
    std::string out;
    for (const EndpointSpec& e : rule.endpoints) {
        out += e.ip + "#" + std::to_string(e.id) + "/" + std::to_string(e.ep_idx) + " ";
    }
    return out;
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a rule is prepared, stored, swapped in, and then told of") {
    const RulePtr rule = put(body({{"name", R"("one")"}}));
    CHECK(hooks.log == std::vector<std::string>{"prepare one", "applied 1"});
    CHECK(rule->number == 1);
    CHECK(rule->generation == 1);
    CHECK(rule->id.size() == 36);
    REQUIRE(book.table()->rules().size() == 1);
    CHECK(book.table()->rules()[0] == rule);
    REQUIRE(store.trail.size() == 1);
    CHECK(store.trail[0].who == "ann");
    CHECK(store.trail[0].from == "127.0.0.9");
    CHECK(store.trail[0].action == "rule.create");
    CHECK(store.trail[0].subject == rule->id);
    CHECK(store.trail[0].before.empty());
    CHECK(store.trail[0].after == rule->json);
}

TEST_CASE_FIXTURE(Fixture, "the very same rule is refused, in whatever order it is written") {
    put(body({{"name", R"("one")"}}));
    const Refusal refusal = refused(
        R"({"endpoints":[{"weight":1,"targetPort":8000,"endpointIP":"127.0.0.2"}],"serviceArguments":
        {"name":"one","mode":4,"protocol":"tcp","port":8080,"externalIP":"127.0.0.1"}})");
    CHECK(refusal.status == 409);
    CHECK(refusal.code == "lbrule_exists");
    CHECK(store.commits == 1);
}

TEST_CASE_FIXTURE(Fixture, "a change keeps number and id and raises the generation") {
    const RulePtr first = put(body());
    const RulePtr second = put(body({{"name", R"("two")"}, {"sel", "4"}}));
    CHECK(second->number == first->number);
    CHECK(second->id == first->id);
    CHECK(second->generation == 2);
    CHECK(book.table()->rules().size() == 1);
    CHECK(store.trail[1].action == "rule.replace");
    CHECK(store.trail[1].before == first->json);
    CHECK(first->sel == 0);  // whoever still holds it sees what it was
}

TEST_CASE_FIXTURE(Fixture, "an endpoint keeps its identity over edits, and none is given twice") {
    CHECK(identities(*put(body({}, {}, {{"endpoints", endpoints({"10.0.0.9", "10.0.0.10"})}}))) ==
          "10.0.0.9#1/0 10.0.0.10#2/1 ");
    CHECK(identities(*put(
              body({}, {}, {{"endpoints", endpoints({"10.0.0.1", "10.0.0.9", "10.0.0.10"})}}))) ==
          "10.0.0.9#1/0 10.0.0.10#2/1 10.0.0.1#3/2 ");
    CHECK(identities(*put(body({}, {}, {{"endpoints", endpoints({"10.0.0.10"})}}))) ==
          "10.0.0.10#2/1 ");
    // One that comes back is a new one: what was known of it is gone.
    CHECK(identities(*put(body({}, {}, {{"endpoints", endpoints({"10.0.0.9", "10.0.0.10"})}}))) ==
          "10.0.0.10#2/1 10.0.0.9#4/3 ");
    CHECK(identities(*put(body({{"port", "8081"}}))) == "127.0.0.2#5/0 ");
}

TEST_CASE_FIXTURE(Fixture, "identities survive a restart, also that of the last rule deleted") {
    put(body({}, {}, {{"endpoints", endpoints({"10.0.0.1", "10.0.0.2"})}}));
    put(body({}, {}, {{"endpoints", endpoints({"10.0.0.2"})}}));
    put(body({{"port", "8081"}}));
    CHECK_FALSE(book.remove({"127.0.0.1", 8081, "tcp", 0, "", "", "", ""}, actor).refusal);

    RuleBook again(store, hooks);
    REQUIRE(again.load().ok());
    REQUIRE(again.table()->rules().size() == 1);
    CHECK(identities(*again.table()->rules()[0]) == "10.0.0.2#2/1 ");
    CHECK(again.table()->rules()[0]->generation == 2);
    const RulePtr next = again.put(body({{"port", "8082"}}), actor).rule;
    REQUIRE(next != nullptr);
    CHECK(next->number == 3);
    CHECK(identities(*next) == "127.0.0.2#4/0 ");
    const RulePtr grown =
        again.put(body({}, {}, {{"endpoints", endpoints({"10.0.0.1", "10.0.0.2"})}}), actor).rule;
    REQUIRE(grown != nullptr);
    CHECK(identities(*grown) == "10.0.0.2#2/1 10.0.0.1#5/2 ");
}

TEST_CASE_FIXTURE(Fixture, "every part of the key makes another rule") {
    put(body());
    put(body({{"port", "8081"}}));
    put(body({{"host", R"("h")"}}));
    put(body({{"model_name", R"("m")"}}));
    put(body({{"block", "1"}}));
    put(body({{"path_prefix", R"("/v1")"}, {"path_match_mode", R"("prefix")"}}));
    put(body({{"path_prefix", R"("/v1")"}, {"path_match_mode", R"("exact")"}}));
    put(body({{"externalIP", R"("::1")"}}));
    CHECK(book.table()->rules().size() == 8);
    // The same key in another spelling.
    put(body({{"host", R"("H:80")"}, {"name", R"("again")"}}));
    put(body({{"externalIP", R"("0:0::1")"}, {"name", R"("again")"}}));
    put(body({{"path_match_mode", R"("disabled")"}}));
    CHECK(book.table()->rules().size() == 8);
}

TEST_CASE_FIXTURE(Fixture, "what a live rule may not change is 409") {
    hooks.engine_names = {"vllm", "acme"};
    put(body({{"id", R"("r-1")"}}));
    Refusal refusal = refused(body({{"id", R"("r-2")"}, {"sel", "4"}}));
    CHECK(refusal.status == 409);
    CHECK(refusal.code == "immutable");
    CHECK(refusal.field == "id");
    refusal = refused(body({{"engine", R"("acme")"}}));
    CHECK(refusal.status == 409);
    CHECK(refusal.code == "immutable");
    CHECK(refusal.field == "kvEngineType");
    refusal = refused(body({{"id", R"("r-1")"}, {"port", "9"}}));
    CHECK(refusal.status == 409);
    CHECK(refusal.code == "id_exists");
    CHECK(put(body({{"id", R"("r-1")"}, {"sel", "4"}}))->generation == 2);
    CHECK(put(body({{"kvEngineType", R"("vllm")"}}))->generation == 3);
}

TEST_CASE_FIXTURE(Fixture, "rules of different engines on one address are told so") {
    hooks.engine_names = {"vllm", "acme"};
    put(body());
    const Outcome outcome =
        book.put(body({{"engine", R"("acme")"}, {"model_name", R"("m")"}}), actor);
    REQUIRE_FALSE(outcome.refusal.has_value());
    REQUIRE(outcome.warnings.size() == 1);
    CHECK(outcome.warnings[0].code == "mixed_engines");
}

TEST_CASE_FIXTURE(Fixture, "a refusal of those concerned stops the change before the store") {
    put(body());
    const std::string stored = store.text();
    const auto table = book.table();
    hooks.log.clear();
    hooks.refuse = Refusal{409, "listener_unavailable", "externalIP", "in use", ""};
    const Refusal refusal = refused(body({{"port", "81"}, {"name", R"("new")"}}));
    CHECK(refusal.code == "listener_unavailable");
    CHECK(store.text() == stored);
    CHECK(book.table() == table);
    CHECK(hooks.log == std::vector<std::string>{"prepare new"});
    hooks.refuse.reset();
    CHECK(put(body({{"port", "81"}}))->number == 2);  // no number was spent
}

TEST_CASE_FIXTURE(Fixture, "a change that cannot be stored is given up by everyone") {
    const Quiet quiet;
    put(body());
    const auto table = book.table();
    struct Row {
        Code code;
        int status;
        std::string name;
    };
    for (const Row& row :
         {Row{Code::Limit, 507, "storage_full"}, Row{Code::Io, 500, "storage_failed"},
          Row{Code::Unavailable, 503, "storage_busy"}, Row{Code::Exists, 409, "id_exists"}}) {
        CAPTURE(row.name);
        hooks.log.clear();
        store.fail_with = Error{row.code, "no"};
        const Refusal refusal = refused(body({{"port", "81"}, {"name", R"("new")"}}));
        CHECK(refusal.status == row.status);
        CHECK(refusal.code == row.name);
        CHECK(book.table() == table);
        CHECK(hooks.log == std::vector<std::string>{"prepare new", "abandoned new"});
        CHECK(book.remove(table->rules()[0]->key, actor).refusal->status == row.status);
        CHECK(book.table() == table);
        CHECK(book.set("k", "v", actor)->status == row.status);
        CHECK_FALSE(book.setting("k").has_value());
    }
    store.fail_with.reset();
    CHECK(put(body({{"port", "81"}}))->number == 2);
}

TEST_CASE_FIXTURE(Fixture, "rules are deleted by key, by name and all at once") {
    put(body({{"name", R"("a")"}}));
    put(body({{"port", "81"}, {"name", R"("a")"}}));
    const RulePtr b = put(body({{"port", "82"}, {"name", R"("b")"}, {"model_name", R"("m")"}}));
    RuleKey key = b->key;
    key.model.clear();
    CHECK(book.remove(key, actor).refusal->status == 404);
    CHECK(book.remove(key, actor).refusal->code == "no_rule");
    CHECK(book.remove_named("c", actor).refusal->status == 404);
    CHECK(book.table()->rules().size() == 3);
    CHECK_FALSE(book.remove(b->key, actor).refusal.has_value());
    CHECK(book.table()->rules().size() == 2);
    CHECK(store.trail.back().action == "rule.delete");
    CHECK(store.trail.back().before == b->json);
    CHECK_FALSE(book.remove_named("a", actor).refusal.has_value());
    CHECK(book.table()->rules().empty());
    CHECK(store.rules.empty());
    CHECK_FALSE(book.remove_all(actor).refusal.has_value());
    put(body());
    CHECK_FALSE(book.remove_all(actor).refusal.has_value());
    CHECK(store.rules.empty());
    CHECK(put(body())->number == 5);
}

TEST_CASE_FIXTURE(Fixture, "there are at most 2048 rules") {
    for (std::size_t i = 0; i < RuleBook::kMaxRules; ++i) {
        Outcome outcome =
            book.put(body({{"model_name", ("\"m" + std::to_string(i) + "\"")}}), actor);
        REQUIRE_FALSE(outcome.refusal.has_value());
    }
    const Refusal refusal = refused(body({{"model_name", R"("one more")"}}));
    CHECK(refusal.status == 403);
    CHECK(refusal.code == "rule_hwm");
    CHECK(put(body({{"model_name", R"("m7")"}, {"sel", "4"}}))->generation == 2);
}

TEST_CASE_FIXTURE(Fixture, "warnings of a rule are kept with it") {
    hooks.warn = Warning{"odd", "kvBlockSize", "look at it"};
    const RulePtr rule = put(body({{"bgp", "true"}}));
    const auto warnings = book.warnings(rule->number);
    REQUIRE(warnings.size() == 2);
    CHECK(warnings[0].code == "no_effect");
    CHECK(warnings[1].code == "odd");
    CHECK(book.warnings(99).empty());
    CHECK_FALSE(book.remove_all(actor).refusal.has_value());
    CHECK(book.warnings(rule->number).empty());
}

TEST_CASE_FIXTURE(Fixture, "at a start an address that cannot be bound leaves the rule in force") {
    put(body({{"name", R"("one")"}}));
    hooks.refuse = Refusal{409, "listener_unavailable", "externalIP", "in use", ""};
    RuleBook again(store, hooks);
    REQUIRE(again.load().ok());
    CHECK(again.table()->rules().size() == 1);
    CHECK(again.dormant().empty());
    REQUIRE(again.warnings(1).size() == 1);
    CHECK(again.warnings(1)[0].code == "listener_unavailable");
}

TEST_CASE_FIXTURE(Fixture,
                  "a stored rule whose engine is gone sleeps, and can be replaced or deleted") {
    const Quiet quiet;
    hooks.engine_names = {"vllm", "acme"};
    put(body({{"engine", R"("acme")"}, {"name", R"("sleeper")"}}));
    put(body({{"port", "81"}}));
    hooks.engine_names = {"vllm"};
    for (const char* how : {"replaced", "deleted by key", "deleted by name"}) {
        CAPTURE(std::string(how));
        test::MemoryStore copy = store;
        RuleBook again(copy, hooks);
        REQUIRE(again.load().ok());
        CHECK(again.table()->rules().size() == 1);
        const auto sleepers = again.dormant();
        REQUIRE(sleepers.size() == 1);
        CHECK(sleepers[0].name == "sleeper");
        CHECK(sleepers[0].why.code == "engine_unknown");
        CHECK(copy.rules.size() == 2);  // stored all the same
        Outcome outcome;
        if (std::string(how) == "replaced") {
            outcome = again.put(body(), actor);
            CHECK(outcome.rule->number == 3);
            CHECK(copy.rules.size() == 2);
        } else {
            outcome = std::string(how) == "deleted by key"
                          ? again.remove({"127.0.0.1", 8080, "tcp", 0, "", "", "", ""}, actor)
                          : again.remove_named("sleeper", actor);
            CHECK(copy.rules.size() == 1);
        }
        CHECK_FALSE(outcome.refusal.has_value());
        CHECK(again.dormant().empty());
        CHECK(copy.rules.find(1) == copy.rules.end());
    }
}

TEST_CASE_FIXTURE(Fixture, "a setting is stored and audited") {
    CHECK_FALSE(book.setting("prometheus").has_value());
    CHECK_FALSE(book.set("prometheus", "off", actor).has_value());
    CHECK(book.setting("prometheus") == "off");
    CHECK(store.trail.back().action == "setting.set");
    RuleBook again(store, hooks);
    REQUIRE(again.load().ok());
    CHECK(again.setting("prometheus") == "off");
}

TEST_CASE_FIXTURE(Fixture, "hooks hear of settings: of stored ones before the first rules") {
    CHECK_FALSE(book.set("colour", "red", actor).has_value());
    REQUIRE(hooks.settings.size() == 1);
    CHECK(hooks.settings.back() == std::pair<std::string, std::string>("colour", "red"));
    test::RecordingHooks later;
    RuleBook again(store, later);
    REQUIRE(again.load().ok());
    CHECK(later.settings == hooks.settings);
}

TEST_CASE_FIXTURE(Fixture, "a setting is edited from what it was, or not at all") {
    const auto append = [](RuleBook::SettingEdit& edit) -> std::optional<Refusal> {
        edit.action = "list.add";
        edit.subject = "x";
        edit.value += "x";
        return std::nullopt;
    };
    CHECK_FALSE(book.edit_setting("list", append, actor).has_value());
    CHECK_FALSE(book.edit_setting("list", append, actor).has_value());
    CHECK(book.setting("list") == "xx");
    CHECK(store.trail.back().action == "list.add");
    CHECK(store.trail.back().after.empty());
    const int commits = store.commits;
    const auto refuse = [](RuleBook::SettingEdit& edit) -> std::optional<Refusal> {
        edit.value = "lost";
        return Refusal{400, "no", "", "", ""};
    };
    CHECK(book.edit_setting("list", refuse, actor)->code == "no");
    CHECK(store.commits == commits);
    store.fail_with = Error{Code::Limit, "disk full"};
    CHECK(book.edit_setting("list", append, actor)->status == 507);
    CHECK(book.setting("list") == "xx");
    CHECK(hooks.settings.back().second == "xx");
}

TEST_SUITE_END();
