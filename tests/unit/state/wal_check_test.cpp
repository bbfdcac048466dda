#include "state/wal_check.hpp"

#include <doctest/doctest.h>
#include <sqlite3.h>

#include "core/base/log.hpp"
#include "state/state.hpp"
#include "tests/unit/state/folder.hpp"

TEST_SUITE_BEGIN("state/wal_check");

namespace {

using namespace sluice;
using namespace sluice::state;

constexpr std::size_t kFrame = 24 + 4096;

struct Quiet {
    Quiet() {
        log::set_sink([](log::Level, const std::string&) {});
    }
    ~Quiet() { log::set_sink({}); }
};

// A log that SQLite wrote: `inserts` transactions of a page each, never folded into the file.
void leave_log(const std::string& path, int inserts) {
    sqlite3* db = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    for (int i = 0; i < inserts; ++i) {
        const std::string sql =
            "INSERT OR REPLACE INTO setting VALUES ('a', '" + std::to_string(i) + "')";
        REQUIRE(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
    }
    sqlite3_close(db);
}

std::string fresh(const test::Folder& folder) {
    const std::string path = folder.file("s.db");
    auto opened = open_sqlite({path});
    REQUIRE(opened.ok());
    return path;
}

void flip(const std::string& path, std::size_t at) {
    std::string bytes = test::read_file(path);
    REQUIRE(bytes.size() > at);
    bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
    test::write_file(path, bytes);
}

}  // namespace

TEST_CASE("a log that is whole, empty, torn at its end or not there is no damage") {
    const test::Folder folder;
    const std::string path = fresh(folder);
    CHECK_FALSE(wal_damage(path + "-wal").has_value());
    leave_log(path, 5);
    const std::string whole = test::read_file(path + "-wal");
    REQUIRE(whole.size() == 32 + 5 * kFrame);
    CHECK_FALSE(wal_damage(path + "-wal").has_value());
    for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{32}, 32 + kFrame / 2,
                                   32 + 4 * kFrame + 100}) {
        CAPTURE(size);
        test::write_file(path + "-wal", whole.substr(0, size));
        CHECK_FALSE(wal_damage(path + "-wal").has_value());
    }
    // Nobody was told of the last transaction before it was synced: its frame may be torn.
    test::write_file(path + "-wal", whole);
    flip(path + "-wal", 32 + 4 * kFrame + 500);
    CHECK_FALSE(wal_damage(path + "-wal").has_value());
}

TEST_CASE("frames of an earlier log behind the end are no damage") {
    const test::Folder folder;
    const std::string path = fresh(folder);
    sqlite3* db = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    for (const char* sql : {"INSERT INTO setting VALUES ('a', '1')",
                            "UPDATE setting SET value = '2'", "UPDATE setting SET value = '3'",
                            "PRAGMA wal_checkpoint(RESTART)", "UPDATE setting SET value = '4'"}) {
        REQUIRE(sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
    }
    sqlite3_close(db);
    REQUIRE(test::read_file(path + "-wal").size() == 32 + 3 * kFrame);
    CHECK_FALSE(wal_damage(path + "-wal").has_value());
}

TEST_CASE("a log that lost what was acknowledged is set aside as a copy and what is left is used") {
    const Quiet quiet;
    struct Row {
        std::string name;
        std::size_t at;
        std::string left;  // of the setting; empty = the file's own state
    };
    for (const Row& row : {Row{"its header", 10, ""}, Row{"its first frame", 32 + 500, ""},
                           Row{"a frame in the middle", 32 + 2 * kFrame + 500, "1"},
                           Row{"a frame's head", 32 + 2 * kFrame + 17, "1"}}) {
        CAPTURE(row.name);
        const test::Folder folder;
        const std::string path = fresh(folder);
        leave_log(path, 6);
        flip(path + "-wal", row.at);
        const std::string file = test::read_file(path);
        const std::string log_bytes = test::read_file(path + "-wal");
        REQUIRE(wal_damage(path + "-wal").has_value());
        auto opened = open_sqlite({path});
        REQUIRE_MESSAGE(opened.ok(), opened.error().what);
        REQUIRE(opened->set_aside.has_value());
        CHECK(opened->set_aside->is_copy);
        CHECK(test::read_file(opened->set_aside->path) == file);
        CHECK(test::read_file(opened->set_aside->path + "-wal") == log_bytes);
        auto contents = opened->store->load();
        REQUIRE(contents.ok());
        CHECK(contents->settings["a"] == row.left);
        CHECK_FALSE(opened->created);
    }
}

TEST_CASE("an empty file beside a log that is not is set aside, the log with it") {
    const Quiet quiet;
    const test::Folder folder;
    const std::string path = fresh(folder);
    leave_log(path, 2);
    const std::string log_bytes = test::read_file(path + "-wal");
    test::write_file(path, "");
    auto opened = open_sqlite({path});
    REQUIRE_MESSAGE(opened.ok(), opened.error().what);
    REQUIRE(opened->set_aside.has_value());
    CHECK_FALSE(opened->set_aside->is_copy);
    CHECK(test::read_file(opened->set_aside->path + "-wal") == log_bytes);
    CHECK(opened->store->load()->settings.empty());
}

TEST_SUITE_END();
