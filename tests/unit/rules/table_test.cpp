#include "core/rules/table.hpp"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("rules/table");

using namespace sluice::rules;

namespace {

struct Spec {
    std::string name, host, path, mode, model;
    std::string ip = "10.0.0.1";
    std::uint16_t port = 80;
    std::uint32_t block = 0;
};

Table table_of(const std::vector<Spec>& specs) {
    std::vector<RulePtr> rules;
    std::uint32_t number = 1;
    for (const Spec& s : specs) {
        Rule rule;
        rule.name = s.name;
        rule.id = "id-" + s.name;
        rule.number = number++;
        rule.key = {s.ip, s.port, "tcp", s.block, s.host, s.path, s.mode, s.model};
        rules.push_back(std::make_shared<const Rule>(rule));
    }
    return Table(std::move(rules));
}

std::string found(const Table& table, const ListenAddress& at, const std::string& host,
                  const std::string& path, const std::string& model) {
    const Lookup lookup = table.find(at, host, path, model);
    if (lookup.rule) {
        return table.rules()[*lookup.rule]->name;
    }
    switch (lookup.miss) {
        case Miss::NoRules:
            return "!no_rules";
        case Miss::NoRoute:
            return "!no_route";
        case Miss::ModelUnavailable:
            return "!model_unavailable";
        case Miss::None:
            break;
    }
    return "!none";
}

const ListenAddress kAt{"10.0.0.1", 80};

}  // namespace

TEST_CASE("keys are tried longest path first, the model before the wildcard, the host before any") {
    const Table table = table_of({{"host", "h.example", "", "", ""},
                                  {"host-m", "h.example", "", "", "m"},
                                  {"v1", "h.example", "/v1", "prefix", ""},
                                  {"v1-m", "h.example", "/v1", "prefix", "m"},
                                  {"chat", "h.example", "/v1/chat", "prefix", ""},
                                  {"exact", "h.example", "/v1/chat", "exact", ""},
                                  {"only-n", "h.example", "/n", "prefix", "n"},
                                  {"any-m", "", "", "", "m"},
                                  {"any-o", "", "", "", "o"},
                                  {"any-v1", "", "/v1", "prefix", ""}});
    struct Row {
        std::string host, path, model, want;
    };
    for (const Row& row : {
             Row{"h.example", "/", "", "host"},
             Row{"h.example", "/", "m", "host-m"},
             Row{"h.example", "/", "x", "host"},
             Row{"h.example", "/v1", "", "v1"},
             Row{"h.example", "/v1/models", "m", "v1-m"},
             Row{"h.example", "/v1/models", "x", "v1"},
             Row{"h.example", "/v1/chat", "m", "exact"},
             Row{"h.example", "/v1/chat/completions", "m", "chat"},
             Row{"h.example", "/v10", "", "host"},
             Row{"h.example", "/v1x/chat", "m", "host-m"},
             Row{"h.example", "/n/1", "n", "only-n"},
             Row{"h.example", "/n/1", "m", "host-m"},
             Row{"H.EXAMPLE:8080", "/v1", "", "v1"},
             Row{"h.example.", "/v1", "", "v1"},
             Row{"other", "/", "m", "any-m"},
             Row{"other", "/v1/x", "m", "any-v1"},
             Row{"", "/x", "o", "any-o"},
             Row{"other", "/", "", "!no_route"},
             Row{"other", "/", "x", "!model_unavailable"},
             Row{std::string(300, 'h'), "/", "m", "any-m"},
         }) {
        CAPTURE(row.host);
        CAPTURE(row.path);
        CAPTURE(row.model);
        CHECK(found(table, kAt, row.host, row.path, row.model) == row.want);
    }
}

TEST_CASE("model names are compared exactly, with their case and slashes") {
    const Table table = table_of({{"a", "", "", "", "org/Model"}, {"b", "", "", "", "org/model"}});
    CHECK(found(table, kAt, "", "/", "org/Model") == "a");
    CHECK(found(table, kAt, "", "/", "org/model") == "b");
    CHECK(found(table, kAt, "", "/", "org/MODEL") == "!model_unavailable");
    CHECK(found(table, kAt, "", "/", "") == "!no_route");
}

TEST_CASE("the root prefix takes every path") {
    const Table table = table_of({{"root", "", "/", "prefix", ""}});
    CHECK(found(table, kAt, "x", "/", "") == "root");
    CHECK(found(table, kAt, "x", "/deep/er", "") == "root");
    CHECK(found(table, kAt, "x", "", "") == "!no_route");
}

TEST_CASE("an exact path takes that path only") {
    const Table table = table_of({{"e", "", "/v1", "exact", ""}});
    CHECK(found(table, kAt, "x", "/v1", "") == "e");
    CHECK(found(table, kAt, "x", "/v1/", "") == "!no_route");
    CHECK(found(table, kAt, "x", "/v1/x", "") == "!no_route");
}

TEST_CASE("an IPv6 literal is found by its bracketed form") {
    const Table table = table_of({{"v6", "[fd00::7]", "", "", ""}});
    CHECK(found(table, kAt, "[FD00::7]:8080", "/", "") == "v6");
    CHECK(found(table, kAt, "[fd00::7]", "/", "") == "v6");
}

TEST_CASE("listeners are apart, and one without rules says so") {
    const Table table = table_of({{"a", "", "", "", ""},
                                  {"b", "", "", "", "", "10.0.0.2", 80},
                                  {"c", "", "", "", "m", "10.0.0.2", 80},
                                  {"d", "", "", "", "", "10.0.0.1", 81}});
    CHECK(found(table, {"10.0.0.2", 80}, "", "/", "") == "b");
    CHECK(found(table, {"10.0.0.1", 81}, "", "/", "") == "d");
    CHECK(found(table, {"10.0.0.3", 80}, "", "/", "") == "!no_rules");
    const auto listeners = table.listeners();
    REQUIRE(listeners.size() == 3);
    CHECK(listeners[0] == ListenAddress{"10.0.0.1", 80});
    CHECK(listeners[2] == ListenAddress{"10.0.0.2", 80});
    CHECK(found(Table(), kAt, "", "/", "") == "!no_rules");
}

TEST_CASE("of rules that a request cannot tell apart the oldest takes it") {
    Spec marked{"marked", "", "", "", ""};
    marked.block = 7;
    CHECK(found(table_of({{"plain", "", "", "", ""}, marked}), kAt, "", "/", "") == "plain");
    CHECK(found(table_of({marked, {"plain", "", "", "", ""}}), kAt, "", "/", "") == "marked");
}

TEST_CASE("rules are found by key, id and number") {
    const Table table = table_of({{"a", "h", "", "", ""}, {"b", "h", "/x", "exact", "m"}});
    CHECK(table.by_key(table.rules()[1]->key) == 1);
    CHECK(table.by_id("id-a") == 0);
    CHECK(table.by_number(2) == 1);
    RuleKey key = table.rules()[1]->key;
    key.model = "n";
    CHECK_FALSE(table.by_key(key).has_value());
    CHECK_FALSE(table.by_id("a").has_value());
    CHECK_FALSE(table.by_number(3).has_value());
}

TEST_SUITE_END();
