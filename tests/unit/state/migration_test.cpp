// Databases as released programs wrote them, opened by this one.
#include <doctest/doctest.h>
#include <sqlite3.h>

#include "state/migrations.hpp"
#include "state/state.hpp"
#include "tests/unit/state/folder.hpp"

TEST_SUITE_BEGIN("state/migration");

namespace {

using namespace sluice;
using namespace sluice::state;

const std::string kVectors = "tests/vectors/state/";

void write_released(const std::string& path, int version) {
    const std::string sql =
        test::read_file(kVectors + "schema_" + std::to_string(version) + ".sql");
    REQUIRE_FALSE(sql.empty());
    sqlite3* db = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
    REQUIRE(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(db);
}

std::string one(const std::string& path, const char* sql) {
    auto db = Db::open(path);
    REQUIRE(db.ok());
    return db->scalar(sql).value();
}

}  // namespace

TEST_CASE("there is a database of every schema that was released before this one") {
    for (std::uint32_t version = 1; version < schema_version(); ++version) {
        CAPTURE(version);
        CHECK_FALSE(
            test::read_file(kVectors + "schema_" + std::to_string(version) + ".sql").empty());
    }
}

TEST_CASE("a database of schema 1 keeps everything, and goes on from there") {
    const test::Folder folder;
    const std::string path = folder.file("s.db");
    write_released(path, 1);
    auto opened = open_sqlite({path});
    REQUIRE_MESSAGE(opened.ok(), opened.error().what);
    CHECK_FALSE(opened->set_aside.has_value());
    CHECK_FALSE(opened->created);
    auto contents = opened->store->load();
    REQUIRE(contents.ok());
    REQUIRE(contents->rules.size() == 2);
    CHECK(contents->rules[0].number == 1);
    CHECK(contents->rules[0].id == "chat");
    CHECK(contents->rules[0].generation == 2);
    CHECK(contents->rules[0].next_ep_idx == 2);
    CHECK(contents->rules[0].body.find("é") != std::string::npos);
    REQUIRE(contents->rules[0].endpoints.size() == 1);
    CHECK(contents->rules[0].endpoints[0].id == 2);
    CHECK(contents->rules[0].endpoints[0].ep_idx == 1);
    CHECK(contents->rules[1].number == 3);
    CHECK(contents->rules[1].endpoints[0].ip == "fd00::7");
    CHECK(contents->counters.next_rule_number == 4);
    CHECK(contents->counters.next_endpoint_id == 5);
    CHECK(contents->settings == std::map<std::string, std::string>{{"prometheus", "off"}});
    // What schema 2 adds is made from what was there.
    CHECK(contents->marks.generation == 5);
    CHECK(contents->marks.changed_us == 1738324804000000U);
    CHECK(contents->marks.restored_us == 0);
    CHECK(contents->marks.store_id.size() == 32);
    auto rows = opened->store->audit({});
    REQUIRE(rows.ok());
    REQUIRE(rows->size() == 5);
    CHECK(rows->front().action == "setting.set");
    CHECK(one(path, "SELECT value FROM counter WHERE name = 'audit_bytes'") == "47");

    Change change;
    change.settings = {{"prometheus", "on"}};
    change.audit = {{1, "ann", "x", "setting.set", "prometheus", "off", "on"}};
    REQUIRE(opened->store->commit(change).ok());
    CHECK(opened->store->marks().generation == 6);
    CHECK(opened->store->audit({1})->front().seq == 6);
    const std::string store_id = opened->store->marks().store_id;
    opened->store.reset();
    auto again = open_sqlite({path});
    REQUIRE(again.ok());
    CHECK(again->store->marks().store_id == store_id);
    CHECK(again->store->marks().generation == 6);
    CHECK(one(path, "PRAGMA user_version") == std::to_string(schema_version()));
    CHECK(one(path, "PRAGMA integrity_check") == "ok");
}

TEST_CASE("a step that does not fit on the disk leaves the older schema as it was") {
    const test::Folder folder;
    const std::string path = folder.file("s.db");
    write_released(path, 1);
    // Every page is taken: the step cannot have one more.
    const std::string pages = one(path, "PRAGMA page_count");
    auto opened = open_sqlite({path, 100, std::stoull(pages) * 4096});
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().code == Code::Limit);
    CHECK(one(path, "PRAGMA user_version") == "1");
    CHECK(one(path, "SELECT count(*) FROM rule") == "2");
    CHECK(open_sqlite({path}).ok());
}

TEST_SUITE_END();
