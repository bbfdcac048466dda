#include <doctest/doctest.h>
#include <sqlite3.h>

#include "state/state.hpp"
#include "tests/unit/state/folder.hpp"

TEST_SUITE_BEGIN("state/store");

namespace {

using namespace sluice;
using namespace sluice::state;

RuleRow rule(std::uint32_t number, std::uint64_t first_endpoint_id, const std::string& body) {
    return {number,
            "rule-" + std::to_string(number),
            1,
            body,
            2,
            {{first_endpoint_id, 0, "10.0.0.1", 8000, 0},
             {first_endpoint_id + 1, 1, "fd00::7", 8001, 1}}};
}

std::unique_ptr<Store> open(const test::Folder& folder, std::uint64_t max_bytes = 0) {
    auto opened = open_sqlite({folder.file("s.db"), 100, max_bytes});
    REQUIRE_MESSAGE(opened.ok(), opened.error().what);
    return std::move(opened->store);
}

std::string text_of(const Contents& c) {
    std::string out = std::to_string(c.counters.next_rule_number) + "/" +
                      std::to_string(c.counters.next_endpoint_id);
    for (const auto& [name, value] : c.settings) {
        out += " " + name + "=" + value;
    }
    for (const RuleRow& r : c.rules) {
        out += " [" + std::to_string(r.number) + " " + r.id + " g" + std::to_string(r.generation) +
               " " + r.body + " n" + std::to_string(r.next_ep_idx);
        for (const EndpointRow& e : r.endpoints) {
            out += " " + std::to_string(e.id) + ":" + std::to_string(e.ep_idx) + ":" + e.ip + ":" +
                   std::to_string(e.port) + ":" + std::to_string(e.role);
        }
        out += "]";
    }
    return out;
}

}  // namespace

TEST_CASE("what was committed is loaded after reopening") {
    const test::Folder folder;
    Change change;
    change.upserts = {rule(1, 1, R"({"a":"é"})"), rule(2, 3, "{}")};
    change.counters = {3, 5};
    change.settings = {{"prometheus", "off"}};
    {
        auto store = open(folder);
        REQUIRE(store->commit(change).ok());
    }
    auto store = open(folder);
    auto contents = store->load();
    REQUIRE(contents.ok());
    CHECK(text_of(*contents) ==
          R"(3/5 prometheus=off [1 rule-1 g1 {"a":"é"} n2 1:0:10.0.0.1:8000:0 2:1:fd00::7:8001:1])"
          " [2 rule-2 g1 {} n2 3:0:10.0.0.1:8000:0 4:1:fd00::7:8001:1]");
}

TEST_CASE("a new file is empty and counts from one") {
    const test::Folder folder;
    auto contents = open(folder)->load();
    REQUIRE(contents.ok());
    CHECK(text_of(*contents) == "1/1");
}

TEST_CASE("an upsert replaces the whole rule with its endpoints") {
    const test::Folder folder;
    auto store = open(folder);
    Change change;
    change.upserts = {rule(1, 1, "{}")};
    REQUIRE(store->commit(change).ok());
    change.upserts[0].generation = 2;
    change.upserts[0].endpoints.erase(change.upserts[0].endpoints.begin());
    REQUIRE(store->commit(change).ok());
    CHECK(text_of(*store->load()) == "1/1 [1 rule-1 g2 {} n2 2:1:fd00::7:8001:1]");
}

TEST_CASE("a deleted rule takes its endpoints along, and its id may come again") {
    const test::Folder folder;
    auto store = open(folder);
    Change change;
    change.upserts = {rule(1, 1, "{}")};
    REQUIRE(store->commit(change).ok());
    Change swap;
    swap.deletes = {1};
    swap.upserts = {rule(2, 1, "{}")};
    swap.upserts[0].id = "rule-1";
    REQUIRE(store->commit(swap).ok());
    CHECK(text_of(*store->load()) ==
          "1/1 [2 rule-1 g1 {} n2 1:0:10.0.0.1:8000:0 2:1:fd00::7:8001:1]");
}

TEST_CASE("a counter never goes down") {
    const test::Folder folder;
    auto store = open(folder);
    Change change;
    change.counters = {9, 20};
    REQUIRE(store->commit(change).ok());
    change.counters = {3, 30};
    REQUIRE(store->commit(change).ok());
    CHECK(text_of(*store->load()) == "9/30");
}

TEST_CASE("a change that fails half way leaves nothing behind") {
    const test::Folder folder;
    auto store = open(folder);
    Change first;
    first.upserts = {rule(1, 1, "{}")};
    REQUIRE(store->commit(first).ok());
    const std::string before = text_of(*store->load());

    struct Row {
        std::string name;
        RuleRow broken;
    };
    RuleRow same_id = rule(3, 20, "{}");
    same_id.id = "rule-1";
    RuleRow same_endpoint_id = rule(3, 1, "{}");
    RuleRow twin_endpoint = rule(3, 20, "{}");
    twin_endpoint.endpoints[1] = {21, 1, "10.0.0.1", 8000, 0};
    for (const Row& row :
         {Row{"id of another rule", same_id}, Row{"endpoint id of another rule", same_endpoint_id},
          Row{"the same endpoint twice", twin_endpoint}}) {
        CAPTURE(row.name);
        Change change;
        change.upserts = {rule(2, 10, "{}"), row.broken};
        change.settings = {{"k", "v"}};
        change.counters = {4, 40};
        change.audit = {{1, "a", "b", "c", "d", "e", "f"}};
        auto done = store->commit(change);
        REQUIRE_FALSE(done.ok());
        CHECK(done.error().code == Code::Exists);
        CHECK(text_of(*store->load()) == before);
        CHECK(store->audit({10})->empty());
    }
}

TEST_CASE("a full disk refuses with Limit, keeps what was there and goes on when there is room") {
    const test::Folder folder;
    auto store = open(folder, 128 * 1024);
    Change small;
    small.upserts = {rule(1, 1, "{}")};
    REQUIRE(store->commit(small).ok());
    const std::string before = text_of(*store->load());

    Change big;
    big.upserts = {rule(2, 10, "{}"), rule(3, 20, std::string(512 * 1024, 'x'))};
    big.settings = {{"k", "v"}};
    auto done = store->commit(big);
    REQUIRE_FALSE(done.ok());
    CHECK(done.error().code == Code::Limit);
    CHECK(text_of(*store->load()) == before);

    Change next;
    next.upserts = {rule(2, 10, "{}")};
    CHECK(store->commit(next).ok());
}

TEST_CASE("the audit trail tells who changed what, newest first, and is bounded") {
    const test::Folder folder;
    auto store = open(folder);
    Change change;
    change.audit = {{11, "ann", "127.0.0.1", "rule.create", "r1", "", "{}"},
                    {12, "bob", "::1", "rule.delete", "r1", "{}", ""}};
    REQUIRE(store->commit(change).ok());
    auto rows = store->audit({10});
    REQUIRE(rows.ok());
    REQUIRE(rows->size() == 2);
    CHECK((*rows)[0].who == "bob");
    CHECK((*rows)[0].at_us == 12);
    CHECK((*rows)[0].before == "{}");
    CHECK((*rows)[1].action == "rule.create");
    CHECK((*rows)[1].from == "127.0.0.1");
    CHECK(store->audit({1})->size() == 1);

    Change flood;
    flood.audit.assign(kAuditRows + 5, {13, "c", "x", "rule.replace", "r", "", ""});
    REQUIRE(store->commit(flood).ok());
    auto kept = store->audit({kAuditRows * 2});
    REQUIRE(kept.ok());
    CHECK(kept->size() == kAuditRows);
    CHECK(kept->back().who == "c");
}

TEST_CASE("the audit trail is bounded in bytes, and the newest row stays whatever its size") {
    const test::Folder folder;
    auto store = open(folder);
    Change change;
    for (int i = 0; i < 9; ++i) {
        change.audit.assign(1, {1, "a", "x", "rule.create", "r" + std::to_string(i), "",
                                std::string(8U << 20U, 'x')});
        REQUIRE(store->commit(change).ok());
    }
    auto rows = store->audit({100});
    REQUIRE(rows.ok());
    CHECK(rows->size() == 8);
    CHECK(rows->back().subject == "r1");
    change.audit.assign(1,
                        {1, "a", "x", "rule.create", "huge", std::string(kAuditBytes, 'x'), "y"});
    REQUIRE(store->commit(change).ok());
    REQUIRE(store->audit({100})->size() == 1);
    CHECK(store->audit({100})->front().subject == "huge");
    change.audit.assign(1, {1, "a", "x", "rule.delete", "small", "", ""});
    REQUIRE(store->commit(change).ok());
    REQUIRE(store->audit({100})->size() == 1);
    CHECK(store->audit({100})->front().subject == "small");
}

TEST_CASE("the audit trail is read by subject, in pages, and in answers of a bounded size") {
    const test::Folder folder;
    auto store = open(folder);
    Change change;
    for (std::uint64_t i = 1; i <= 6; ++i) {
        change.audit.push_back({i, "ann", "x", "rule.replace", i % 2 == 0 ? "even" : "odd", "",
                                std::string(100, 'b')});
    }
    REQUIRE(store->commit(change).ok());
    const auto seqs = [&store](const AuditQuery& query) {
        std::string out;
        const auto rows = store->audit(query);
        REQUIRE(rows.ok());
        for (const AuditRow& row : *rows) {
            out += std::to_string(row.seq) + " ";
        }
        return out;
    };
    CHECK(seqs({2, 0, "", SIZE_MAX}) == "6 5 ");
    CHECK(seqs({2, 5, "", SIZE_MAX}) == "4 3 ");
    CHECK(seqs({9, 0, "even", SIZE_MAX}) == "6 4 2 ");
    CHECK(seqs({9, 4, "even", SIZE_MAX}) == "2 ");
    CHECK(seqs({9, 0, "nobody", SIZE_MAX}).empty());
    CHECK(seqs({9, 0, "", 350}) == "6 5 4 ");
    CHECK(seqs({9, 0, "", 1}) == "6 ");
}

TEST_CASE("every change raises the generation, a refused one does not, a restore is remembered") {
    const test::Folder folder;
    auto store = open(folder);
    const Marks first = store->marks();
    CHECK(first.generation == 0);
    CHECK(first.changed_us == 0);
    Change change;
    change.upserts = {rule(1, 1, "{}")};
    REQUIRE(store->commit(change).ok());
    CHECK(store->marks().generation == 1);
    CHECK(store->marks().changed_us > 0);
    CHECK(store->marks().restored_us == 0);
    change.upserts = {rule(2, 1, "{}")};  // the endpoint ids are taken
    REQUIRE_FALSE(store->commit(change).ok());
    CHECK(store->marks().generation == 1);
    change.upserts.clear();
    change.is_restore = true;
    REQUIRE(store->commit(change).ok());
    const Marks last = store->marks();
    CHECK(last.generation == 2);
    CHECK(last.restored_us == last.changed_us);
    store.reset();
    store = open(folder);
    CHECK(store->marks().generation == 2);
    CHECK(store->marks().restored_us == last.restored_us);
    CHECK(store->marks().store_id == first.store_id);
    const test::Folder other;
    CHECK(open(other)->marks().store_id != first.store_id);
}

TEST_CASE("settings are dropped before others are set") {
    const test::Folder folder;
    auto store = open(folder);
    Change change;
    change.settings = {{"a", "1"}, {"b", "2"}};
    REQUIRE(store->commit(change).ok());
    change.dropped_settings = {"a", "b", "c"};
    change.settings = {{"b", "3"}};
    change.is_verified = true;
    REQUIRE(store->commit(change).ok());
    CHECK(text_of(*store->load()) == "1/1 b=3");
}

TEST_CASE("a verified change that reads back differently is not made") {
    const test::Folder folder;
    auto store = open(folder);
    Change change;
    change.is_verified = true;
    // The later one wins, so the earlier one is not what is stored.
    change.upserts = {rule(1, 1, "{}"), rule(1, 1, "{\"a\":1}")};
    auto done = store->commit(change);
    REQUIRE_FALSE(done.ok());
    CHECK(done.error().code == Code::Internal);
    CHECK(text_of(*store->load()) == "1/1");
    CHECK(store->marks().generation == 0);
    change.upserts.erase(change.upserts.begin());
    CHECK(store->commit(change).ok());
}

TEST_CASE("a backup is a database of one moment that opens as any other") {
    const test::Folder folder;
    auto store = open(folder);
    Change change;
    change.upserts = {rule(1, 1, "{}"), rule(2, 3, std::string(20000, 'x'))};
    change.counters = {3, 5};
    REQUIRE(store->commit(change).ok());
    auto bytes = store->backup();
    REQUIRE(bytes.ok());
    const std::string before = text_of(*store->load());
    Change after;
    after.deletes = {1, 2};
    REQUIRE(store->commit(after).ok());
    CHECK(folder.names().size() == 4);  // file, log, index, lock: a backup leaves nothing behind

    const test::Folder elsewhere;
    test::write_file(elsewhere.file("s.db"), *bytes);
    auto copy = open(elsewhere);
    CHECK(text_of(*copy->load()) == before);
    CHECK(copy->marks().store_id == store->marks().store_id);
    CHECK(copy->commit(after).ok());
}

TEST_CASE("persist folds the log into the file") {
    const test::Folder folder;
    auto store = open(folder);
    Change change;
    change.upserts = {rule(1, 1, "{}")};
    REQUIRE(store->commit(change).ok());
    CHECK_FALSE(test::read_file(folder.file("s.db-wal")).empty());
    REQUIRE(store->persist().ok());
    CHECK(test::read_file(folder.file("s.db-wal")).empty());
    CHECK(store->load()->rules.size() == 1);
}

TEST_CASE("a database that another program keeps busy is Unavailable in a bounded time") {
    const test::Folder folder;
    auto store = open(folder);
    Change change;
    change.upserts = {rule(1, 1, "{}")};
    REQUIRE(store->commit(change).ok());
    sqlite3* other = nullptr;
    REQUIRE(sqlite3_open(folder.file("s.db").c_str(), &other) == SQLITE_OK);
    REQUIRE(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) == SQLITE_OK);
    Change second;
    second.upserts = {rule(2, 10, "{}")};
    auto done = store->commit(second);
    REQUIRE_FALSE(done.ok());
    CHECK(done.error().code == Code::Unavailable);
    // Reading goes on.
    CHECK(text_of(*store->load()) ==
          "1/1 [1 rule-1 g1 {} n2 1:0:10.0.0.1:8000:0 2:1:fd00::7:8001:1]");
    CHECK(store->backup().ok());
    REQUIRE(sqlite3_exec(other, "ROLLBACK", nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(other);
    CHECK(store->commit(second).ok());
}

TEST_SUITE_END();
