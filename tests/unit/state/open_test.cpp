#include <doctest/doctest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/log.hpp"
#include "state/state.hpp"
#include "tests/unit/state/folder.hpp"

TEST_SUITE_BEGIN("state/open");

namespace {

using namespace sluice;
using namespace sluice::state;

// Runs SQL on the file as another program would.
void run_sql(const std::string& path, const std::string& sql) {
    sqlite3* db = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
    REQUIRE(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(db);
}

void fill(const std::string& path, int rules) {
    auto opened = open_sqlite({path});
    REQUIRE(opened.ok());
    Change change;
    for (int i = 1; i <= rules; ++i) {
        const auto number = static_cast<std::uint32_t>(i);
        change.upserts.push_back({number,
                                  "r" + std::to_string(i),
                                  1,
                                  std::string(3000, 'b'),
                                  1,
                                  {{number, 0, "10.0.0.1", 80, 0}}});
    }
    REQUIRE(opened->store->commit(change).ok());
}

bool something_was_set_aside(const test::Folder& folder) {
    const auto names = folder.names();
    return std::any_of(names.begin(), names.end(), [](const std::string& name) {
        return name.find(".damaged-") != std::string::npos;
    });
}

struct Quiet {
    Quiet() {
        log::set_sink([](log::Level, const std::string&) {});
    }
    ~Quiet() { log::set_sink({}); }
};

}  // namespace

TEST_CASE("a folder that is not there is named, not created") {
    const test::Folder folder;
    auto opened = open_sqlite({folder.file("missing/s.db")});
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().what.find("missing: no such folder") != std::string::npos);
    CHECK(folder.names().empty());
}

TEST_CASE("a path that is a folder is refused") {
    const test::Folder folder;
    REQUIRE(mkdir(folder.file("s.db").c_str(), 0700) == 0);
    CHECK_FALSE(open_sqlite({folder.file("s.db")}).ok());
}

TEST_CASE("the second opener is told that the file is taken, until the first is gone") {
    const test::Folder folder;
    auto first = open_sqlite({folder.file("s.db")});
    REQUIRE(first.ok());
    CHECK(first->created);
    auto second = open_sqlite({folder.file("s.db")});
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().code == Code::Unavailable);
    first->store.reset();
    auto third = open_sqlite({folder.file("s.db")});
    CHECK(third.ok());
    CHECK_FALSE(third->created);
}

TEST_CASE("the file is readable by its owner only") {
    const test::Folder folder;
    auto opened = open_sqlite({folder.file("s.db")});
    REQUIRE(opened.ok());
    struct stat info{};
    REQUIRE(stat(folder.file("s.db").c_str(), &info) == 0);
    CHECK((info.st_mode & 0777U) == 0600U);
}

TEST_CASE("a file of a newer program is refused and left as it is") {
    const test::Folder folder;
    const std::string path = folder.file("s.db");
    fill(path, 1);
    run_sql(path, "PRAGMA user_version = 99");
    const std::string before = test::read_file(path);
    auto opened = open_sqlite({path});
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().code == Code::Unsupported);
    CHECK(opened.error().what.find("99") != std::string::npos);
    CHECK(test::read_file(path) == before);
    CHECK_FALSE(something_was_set_aside(folder));
}

TEST_CASE("another program's database is refused and left as it is") {
    const test::Folder folder;
    const std::string path = folder.file("s.db");
    run_sql(path, "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)");
    const std::string before = test::read_file(path);
    auto opened = open_sqlite({path});
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().code == Code::Unsupported);
    CHECK(test::read_file(path) == before);
}

TEST_CASE("a damaged file is set aside byte for byte, and an empty store takes its place") {
    const Quiet quiet;
    struct Row {
        std::string name;
        std::string (*spoil)(std::string);
    };
    const Row rows[] = {
        {"not a database",
         [](std::string) {
             return std::string(5000, 'z');
         }},
        {"cut in the middle",
         [](std::string s) {
             return s.substr(0, s.size() / 2);
         }},
        {"a page overwritten",
         [](std::string s) {
             std::fill(s.begin() + 4096, s.begin() + 8192, '\x7F');
             return s;
         }},
        {"the header overwritten",
         [](std::string s) {
             std::fill(s.begin(), s.begin() + 64, '\0');
             return s;
         }},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const test::Folder folder;
        const std::string path = folder.file("s.db");
        fill(path, 20);
        const std::string spoiled = row.spoil(test::read_file(path));
        test::write_file(path, spoiled);

        auto opened = open_sqlite({path});
        REQUIRE_MESSAGE(opened.ok(), opened.error().what);
        REQUIRE(opened->set_aside.has_value());
        CHECK_FALSE(opened->set_aside->why.empty());
        CHECK(opened->set_aside->path.starts_with(path + ".damaged-"));
        CHECK(test::read_file(opened->set_aside->path) == spoiled);
        auto contents = opened->store->load();
        REQUIRE(contents.ok());
        CHECK(contents->rules.empty());

        // Damaged again in the same second: the first one is not overwritten.
        opened->store.reset();
        test::write_file(path, "damaged again, and long enough to be no database header at all");
        auto again = open_sqlite({path});
        REQUIRE(again.ok());
        REQUIRE(again->set_aside.has_value());
        CHECK(again->set_aside->path != opened->set_aside->path);
        CHECK(test::read_file(opened->set_aside->path) == spoiled);
    }
}

TEST_CASE("a damaged file takes its write-ahead log along") {
    const Quiet quiet;
    const test::Folder folder;
    const std::string path = folder.file("s.db");
    fill(path, 3);
    // A log that was never folded into the file, as a killed process leaves it.
    sqlite3* db = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    REQUIRE(sqlite3_exec(db, "INSERT INTO setting VALUES ('a', 'b')", nullptr, nullptr, nullptr) ==
            SQLITE_OK);
    sqlite3_close(db);
    const std::string log_bytes = test::read_file(path + "-wal");
    REQUIRE_FALSE(log_bytes.empty());
    std::string spoiled = test::read_file(path);
    std::fill(spoiled.begin(), spoiled.begin() + 40, '\x01');
    test::write_file(path, spoiled);

    auto opened = open_sqlite({path});
    REQUIRE(opened.ok());
    REQUIRE(opened->set_aside.has_value());
    CHECK(test::read_file(opened->set_aside->path) == spoiled);
    CHECK(test::read_file(opened->set_aside->path + "-wal") == log_bytes);
    CHECK(opened->store->load()->settings.empty());
}

TEST_CASE("an empty file is a start that ended early: a store begins in it") {
    const test::Folder folder;
    test::write_file(folder.file("s.db"), "");
    auto opened = open_sqlite({folder.file("s.db")});
    REQUIRE_MESSAGE(opened.ok(), opened.error().what);
    CHECK(opened->created);
    CHECK_FALSE(opened->set_aside.has_value());
    CHECK(opened->store->load()->rules.empty());
}

TEST_CASE("log and index are readable by the owner only, from the first moment on") {
    const test::Folder folder;
    const mode_t old = umask(0);
    auto opened = open_sqlite({folder.file("s.db")});
    umask(old);
    REQUIRE(opened.ok());
    for (const char* tail : {"", "-wal", "-shm", ".lock"}) {
        CAPTURE(std::string(tail));
        struct stat info{};
        REQUIRE(stat((folder.file("s.db") + tail).c_str(), &info) == 0);
        CHECK((info.st_mode & 0777U) == 0600U);
    }
}

TEST_CASE("a file that this user may not write is refused by mode and owner, and left as it is") {
    const test::Folder folder;
    const std::string path = folder.file("s.db");
    fill(path, 1);
    const std::string before = test::read_file(path);
    for (const mode_t mode : {mode_t{0}, mode_t{0444}}) {
        CAPTURE(mode);
        REQUIRE(chmod(path.c_str(), mode) == 0);
        REQUIRE(chmod(folder.file("").c_str(), 0777) == 0);
        REQUIRE(chmod((path + ".lock").c_str(), 0666) == 0);
        // Root may write everything: the attempt is somebody else's.
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) {
                _exit(3);
            }
            auto opened = open_sqlite({path});
            const bool is_right = !opened.ok() && opened.error().code == Code::Io &&
                                  opened.error().what.find("mode 0") != std::string::npos;
            _exit(is_right ? 0 : 1);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }
    CHECK(test::read_file(path) == before);
    CHECK_FALSE(something_was_set_aside(folder));
}

TEST_CASE("a folder that is not writable is named") {
    // Nobody can make a file there, root neither.
    auto opened = open_sqlite({"/proc/self/s.db"});
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().code == Code::Io);
    CHECK(opened.error().what.find("the folder of the database must be writable") !=
          std::string::npos);
}

TEST_CASE("a schema step that was interrupted is done at the next open") {
    const test::Folder folder;
    const std::string path = folder.file("s.db");
    // What is left when the process ended before the first step's transaction did.
    run_sql(path, "PRAGMA journal_mode = WAL");
    auto opened = open_sqlite({path});
    REQUIRE_MESSAGE(opened.ok(), opened.error().what);
    CHECK_FALSE(opened->set_aside.has_value());
    CHECK(opened->store->load().ok());
}

TEST_SUITE_END();
