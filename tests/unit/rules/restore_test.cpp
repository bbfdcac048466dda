// Many rules at once: a snapshot brought back, an export brought in.
#include <doctest/doctest.h>

#include "core/base/log.hpp"
#include "core/rules/rule_book.hpp"
#include "core/rules/secrets.hpp"
#include "core/rules/snapshot.hpp"
#include "tests/unit/rules/bodies.hpp"
#include "tests/unit/rules/fakes.hpp"

TEST_SUITE_BEGIN("rules/restore");

using namespace sluice;
using namespace sluice::rules;
using test::body;

namespace {

const Actor kAnn{"ann", "127.0.0.9"};

struct Gateway {
    explicit Gateway(const std::string& id = "this-store") {
        store.now.store_id = id;
        log::set_sink([](log::Level, const std::string&) {});
    }
    ~Gateway() { log::set_sink({}); }

    test::MemoryStore store;
    test::RecordingHooks hooks;
    RuleBook book{store, hooks};

    RulePtr put(const std::string& text) {
        Outcome outcome = book.put(text, kAnn);
        REQUIRE_MESSAGE(!outcome.refusal.has_value(), outcome.refusal->message);
        return outcome.rule;
    }
    // As it leaves over the interface and comes back.
    state::Contents snapshot() {
        state::Contents out;
        const auto refusal = read_snapshot(snapshot_of(*store.load(), 1), out);
        REQUIRE_FALSE(refusal.has_value());
        return out;
    }
    Bulk restore(const state::Contents& wanted, bool commit = true) {
        return book.restore(wanted, commit, kAnn);
    }
    // Numbers, ids and endpoints of what is in force.
    std::string rules() const {
        std::string out;
        const auto table = book.table();
        for (const RulePtr& rule : table->rules()) {
            out += std::to_string(rule->number) + ":" + rule->name + "[";
            for (const EndpointSpec& e : rule->endpoints) {
                out += e.ip + "#" + std::to_string(e.id) + "/" + std::to_string(e.ep_idx) + " ";
            }
            out += "] ";
        }
        return out;
    }
};

std::string named(const char* name, int port,
                  std::initializer_list<const char*> ips = {"10.0.0.1"}) {
    std::string endpoints = "[";
    for (const char* ip : ips) {
        endpoints += std::string(endpoints.size() == 1 ? "" : ",") + R"({"endpointIP":")" + ip +
                     R"(","targetPort":8000,"weight":1})";
    }
    return body({{"name", "\"" + std::string(name) + "\""}, {"port", std::to_string(port)}}, {},
                {{"endpoints", endpoints + "]"}});
}

std::string counts(const Bulk& bulk) {
    std::size_t n[3] = {};
    for (const BulkChange& change : bulk.changes) {
        ++n[static_cast<std::size_t>(change.kind)];
    }
    return std::to_string(n[0]) + " created " + std::to_string(n[1]) + " replaced " +
           std::to_string(n[2]) + " deleted " + std::to_string(bulk.unchanged) + " unchanged";
}

}  // namespace

TEST_CASE_FIXTURE(Gateway, "a restore brings back what was, with its numbers, and only that") {
    put(named("kept", 1));
    put(named("edited", 2, {"10.0.0.1", "10.0.0.2"}));
    put(named("deleted", 3));
    REQUIRE_FALSE(book.set("prometheus", "off", kAnn).has_value());
    const std::string before = rules();
    const RulePtr kept = book.table()->rules()[0];
    const auto taken = snapshot();

    put(named("edited", 2, {"10.0.0.2", "10.0.0.3"}));
    REQUIRE_FALSE(book.remove_named("deleted", kAnn).refusal.has_value());
    put(named("new", 4));
    REQUIRE_FALSE(book.set("prometheus", "on", kAnn).has_value());
    REQUIRE_FALSE(book.set("other", "x", kAnn).has_value());
    const auto counters = store.counters;
    hooks.log.clear();

    const Bulk done = restore(taken);
    REQUIRE_FALSE(done.refusal.has_value());
    CHECK(done.is_committed);
    CHECK(counts(done) == "1 created 1 replaced 1 deleted 1 unchanged");
    CHECK(rules() == before);
    CHECK(book.table()->rules()[0] == kept);  // not even touched
    CHECK(book.table()->rules()[1]->generation == 3);
    CHECK(book.setting("prometheus") == "off");
    CHECK_FALSE(book.setting("other").has_value());
    CHECK(hooks.log ==
          std::vector<std::string>{"prepare edited over edited", "prepare deleted", "applied 3"});
    CHECK(store.counters.next_rule_number == counters.next_rule_number);
    CHECK(store.counters.next_endpoint_id == counters.next_endpoint_id);
    CHECK(store.trail.back().action == "config.restore");
    CHECK(store.trail.back().who == "ann");
    CHECK(book.last_restore().at_us > 0);

    // After a start it is the same.
    RuleBook again(store, hooks);
    REQUIRE(again.load().ok());
    CHECK(again.table()->rules().size() == 3);
    CHECK(again.setting("prometheus") == "off");
}

TEST_CASE_FIXTURE(Gateway, "numbers, ids and indexes given since a snapshot are not given again") {
    put(named("a", 1));  // endpoint 1, index 0
    put(named("b", 2));
    const auto taken = snapshot();
    put(named("a", 1, {"10.0.0.1", "10.0.0.2"}));  // endpoint 3, index 1
    put(named("c", 3));                            // number 3, endpoint 4
    REQUIRE_FALSE(book.remove_all(kAnn).refusal.has_value());
    REQUIRE_FALSE(restore(taken).refusal.has_value());
    CHECK(rules() == "1:a[10.0.0.1#1/0 ] 2:b[10.0.0.1#2/0 ] ");
    // Index 1 of "a" was 10.0.0.2's, and nobody remembers: the next one is beyond all it can be.
    const RulePtr grown = put(named("a", 1, {"10.0.0.1", "10.0.0.9"}));
    CHECK(grown->endpoints[1].id == 5);
    CHECK(grown->endpoints[1].ep_idx > 1);
    CHECK(grown->generation > 3);
    CHECK(put(named("d", 4))->number == 4);

    // The index of a rule that is still there is remembered exactly: 10.0.0.2 had 3.
    const auto second = snapshot();
    put(named("b", 2, {"10.0.0.1", "10.0.0.2"}));
    REQUIRE_FALSE(restore(second).refusal.has_value());
    CHECK(put(named("b", 2, {"10.0.0.1", "10.0.0.3"}))->endpoints[1].ep_idx == 4);
}

TEST_CASE_FIXTURE(Gateway, "a dry run says what would be and changes nothing") {
    put(named("a", 1));
    const auto taken = snapshot();
    put(named("a", 1, {"10.0.0.2"}));
    put(named("b", 2));
    const std::string stored = store.text();
    const auto table = book.table();
    hooks.log.clear();
    const Bulk done = restore(taken, false);
    CHECK_FALSE(done.refusal.has_value());
    CHECK_FALSE(done.is_committed);
    CHECK(counts(done) == "0 created 1 replaced 1 deleted 0 unchanged");
    CHECK(store.text() == stored);
    CHECK(book.table() == table);
    CHECK(hooks.log == std::vector<std::string>{"prepare a over a", "abandoned a"});
    CHECK(put(named("c", 3))->number == 3);
}

TEST_CASE_FIXTURE(Gateway, "one refusal, or a store that fails, and nothing of it is done") {
    put(named("a", 1));
    put(named("b", 2));
    const auto taken = snapshot();
    REQUIRE_FALSE(book.remove_all(kAnn).refusal.has_value());
    const auto table = book.table();
    const std::string stored = store.text();

    auto broken = taken;
    broken.rules[1].body = "{}";
    broken.rules[0].endpoints.clear();
    Bulk done = restore(broken);
    REQUIRE(done.refusal.has_value());
    CHECK(done.refusal->status == 400);
    REQUIRE(done.refused.size() == 2);
    CHECK(done.refused[0].index == 0);
    CHECK(done.refused[0].why.code == "identity_lost");
    CHECK(done.refused[1].why.field == "serviceArguments");
    CHECK(done.changes.empty());

    hooks.log.clear();
    store.fail_with = Error{Code::Limit, "full"};
    done = restore(taken);
    REQUIRE(done.refusal.has_value());
    CHECK(done.refusal->status == 507);
    CHECK(hooks.log ==
          std::vector<std::string>{"prepare a", "prepare b", "abandoned a", "abandoned b"});
    store.fail_with.reset();

    hooks.log.clear();
    hooks.refuse = Refusal{409, "listener_unavailable", "externalIP", "in use", ""};
    done = restore(taken);
    REQUIRE(done.refusal.has_value());
    CHECK(done.refusal->code == "listener_unavailable");
    REQUIRE(done.refused.size() == 1);
    CHECK(done.refused[0].name == "a");
    CHECK(hooks.log == std::vector<std::string>{"prepare a"});
    hooks.refuse.reset();

    CHECK(store.text() == stored);
    CHECK(book.table() == table);
    CHECK_FALSE(restore(taken).refusal.has_value());
    CHECK(rules() == "1:a[10.0.0.1#1/0 ] 2:b[10.0.0.1#2/0 ] ");
}

TEST_CASE(
    "a snapshot of another database keeps its numbers where none was given, else gets new ones") {
    Gateway there("there");
    there.put(named("gone", 9));
    there.put(named("a", 1));
    there.put(named("b", 2, {"10.0.0.1", "10.0.0.2"}));
    REQUIRE_FALSE(there.book.remove_named("gone", kAnn).refusal.has_value());
    const auto taken = there.snapshot();

    Gateway fresh("fresh");
    REQUIRE_FALSE(fresh.restore(taken).refusal.has_value());
    CHECK(fresh.rules() == there.rules());
    CHECK(fresh.store.counters.next_rule_number == 4);
    // Once more changes nothing.
    CHECK(counts(fresh.restore(taken)) == "0 created 0 replaced 0 deleted 2 unchanged");

    Gateway used("used");
    used.put(named("x", 5));
    used.put(named("y", 6));
    const Bulk done = used.restore(taken);
    REQUIRE_FALSE(done.refusal.has_value());
    CHECK(counts(done) == "2 created 0 replaced 2 deleted 0 unchanged");
    // 2 was y's, 3 is free; endpoints 3 and 4 were nobody's, 2 was y's.
    CHECK(used.rules() == "3:b[10.0.0.1#3/0 10.0.0.2#4/1 ] 4:a[10.0.0.1#5/0 ] ");
    REQUIRE(done.changes.size() == 4);
    CHECK(done.changes[2].warnings[0].code == "renumbered");
}

TEST_CASE_FIXTURE(Gateway,
                  "a rule that sleeps is in the snapshot, and left alone when it is the same") {
    hooks.engine_names = {"vllm", "acme"};
    put(body({{"engine", R"("acme")"}, {"name", R"("sleeper")"}}));
    put(named("b", 2));
    hooks.engine_names = {"vllm"};
    RuleBook again(store, hooks);
    REQUIRE(again.load().ok());
    REQUIRE(again.dormant().size() == 1);
    const auto taken = snapshot();
    REQUIRE(taken.rules.size() == 2);
    REQUIRE_FALSE(again.remove_named("b", kAnn).refusal.has_value());
    const Bulk done = again.restore(taken, true, kAnn);
    REQUIRE_FALSE(done.refusal.has_value());
    CHECK(counts(done) == "1 created 0 replaced 0 deleted 1 unchanged");
    CHECK(again.dormant().size() == 1);
    // Gone here, it would have to be put in force, and cannot be.
    REQUIRE_FALSE(again.remove_all(kAnn).refusal.has_value());
    const Bulk refused = again.restore(taken, true, kAnn);
    REQUIRE(refused.refusal.has_value());
    CHECK(refused.refused[0].why.code == "engine_unknown");
    CHECK(again.table()->rules().empty());
}

TEST_CASE_FIXTURE(Gateway, "while a restore runs another one is refused, and others are told") {
    class Meddling final : public Hooks {
    public:
        std::optional<Refusal> prepare(const RulePtr&, const RulePtr&,
                                       std::vector<Warning>&) override {
            was_restoring = book->is_restoring();
            // Answered at once: waiting for the change that asks would never end.
            second = book->import({}, false, kAnn).refusal;
            return std::nullopt;
        }
        void abandoned(const RulePtr&) override {}
        void applied(const std::shared_ptr<const Table>&) override {}
        std::vector<std::string> selectors() const override { return {"rr", "lc", "wrr"}; }
        RuleBook* book = nullptr;
        bool was_restoring = false;
        std::optional<Refusal> second;
    };
    put(named("a", 1));
    const auto taken = snapshot();
    Meddling meddling;
    test::MemoryStore other;
    RuleBook busy(other, meddling);
    meddling.book = &busy;
    REQUIRE_FALSE(busy.restore(taken, true, kAnn).refusal.has_value());
    CHECK(meddling.was_restoring);
    REQUIRE(meddling.second.has_value());
    CHECK(meddling.second->status == 503);
    CHECK(meddling.second->code == "restore_running");
    CHECK_FALSE(busy.is_restoring());
}

TEST_CASE_FIXTURE(Gateway, "an import puts every rule or none, and leaves alone what is the same") {
    put(named("same", 1));
    put(named("edited", 2));
    put(named("other", 3));
    const RulePtr same = book.table()->rules()[0];
    const std::vector<std::string> bodies = {named("same", 1), named("edited", 2, {"10.0.0.2"}),
                                             named("new", 4)};
    Bulk done = book.import(bodies, false, kAnn);
    REQUIRE_FALSE(done.refusal.has_value());
    CHECK(counts(done) == "1 created 1 replaced 0 deleted 1 unchanged");
    CHECK(book.table()->by_number(1).has_value());
    CHECK(book.table()->rules()[*book.table()->by_number(1)] == same);
    CHECK(rules() ==
          "1:same[10.0.0.1#1/0 ] 2:edited[10.0.0.2#4/1 ] 3:other[10.0.0.1#3/0 ] "
          "4:new[10.0.0.1#5/0 ] ");
    CHECK(store.trail.back().action == "config.import");

    const int commits = store.commits;
    CHECK(counts(book.import(bodies, false, kAnn)) == "0 created 0 replaced 0 deleted 3 unchanged");
    CHECK(store.commits == commits);

    done = book.import(bodies, true, kAnn);
    CHECK(counts(done) == "0 created 0 replaced 1 deleted 3 unchanged");
    CHECK(book.table()->rules().size() == 3);

    struct Row {
        std::string name;
        std::vector<std::string> bodies;
        std::string code;
    };
    const std::string stored = store.text();
    for (const Row& row :
         {Row{"a bad one", {named("x", 8), "{}"}, "required"},
          Row{"a key twice", {named("x", 8), named("y", 8)}, "key_given_twice"},
          Row{"an id twice",
              {body({{"id", R"("i")"}, {"port", "8"}}), body({{"id", R"("i")"}, {"port", "9"}})},
              "id_exists"}}) {
        CAPTURE(row.name);
        const Bulk refused = book.import(row.bodies, true, kAnn);
        REQUIRE(refused.refusal.has_value());
        CHECK(refused.refusal->code == row.code);
        REQUIRE(refused.refused.size() == 1);
        CHECK(refused.refused[0].index == 1);
        CHECK(store.text() == stored);
    }
    CHECK(put(named("z", 8))->number == 5);  // no number was spent
}

TEST_CASE_FIXTURE(Gateway,
                  "an import may bring a rule that is switched off, and switches none on") {
    const std::string off = body({{"adminStateUp", "false"}});
    CHECK(counts(book.import({off}, false, kAnn)) == "1 created 0 replaced 0 deleted 0 unchanged");
    CHECK_FALSE(book.table()->rules()[0]->is_admin_up);
    CHECK(counts(book.import({body()}, false, kAnn)) ==
          "0 created 0 replaced 0 deleted 1 unchanged");
    CHECK_FALSE(book.table()->rules()[0]->is_admin_up);
    const auto taken = snapshot();
    REQUIRE_FALSE(book.remove_all(kAnn).refusal.has_value());
    REQUIRE_FALSE(restore(taken).refusal.has_value());
    CHECK_FALSE(book.table()->rules()[0]->is_admin_up);
    CHECK(book.import({body({{"oper", "1"}})}, false, kAnn).refusal->code == "oper_in_document");
}

TEST_CASE_FIXTURE(Gateway, "the store that failed last is named until a change is stored again") {
    CHECK(book.last_persist().at_us == 0);
    put(named("a", 1));
    CHECK(book.last_persist().generation == 1);
    CHECK(book.last_persist().error.empty());
    store.fail_with = Error{Code::Limit, "full"};
    CHECK(book.put(named("b", 2), kAnn).refusal->status == 507);
    CHECK(book.last_persist().error == "full");
    CHECK(book.last_persist().generation == 1);
    store.fail_with.reset();
    put(named("b", 2));
    CHECK(book.last_persist().error.empty());
    CHECK(book.last_persist().generation == 2);
}

TEST_SUITE_END();
