#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <thread>

#include "core/base/log.hpp"
#include "state/migrations.hpp"
#include "state/sqlite_store.hpp"
#include "state/wal_check.hpp"

namespace sluice::state {
namespace {

namespace fs = std::filesystem;

// What a log that has grown gives back of the disk once it is folded into the file.
constexpr std::size_t kLogBytes = 4U << 20U;
constexpr int kLockTries = 50;
constexpr std::chrono::milliseconds kLockPause{10};

std::string errno_text() {
    return std::strerror(errno);
}

// A path beside `path` that nobody has: path.damaged-20250131T120000Z, then with -2, -3, ...
std::string free_name(const std::string& path) {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    char stamp[32] = {};
    std::strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc);
    const std::string base = path + ".damaged-" + stamp;
    std::string name = base;
    std::error_code ignored;
    for (int i = 2; fs::exists(name, ignored) || fs::exists(name + "-wal", ignored); ++i) {
        name = base + "-" + std::to_string(i);
    }
    return name;
}

Result<SetAside> set_aside(const std::string& path, const std::string& why) {
    const std::string to = free_name(path);
    // The log belongs to the file and may hold what the file lacks. It goes first: were we stopped
    // in between, a database without its log is still found damaged or empty, while a new database
    // beside an old log could swallow it.
    std::error_code ignored;
    for (const char* tail : {"-wal", "-shm"}) {
        if (fs::exists(path + tail, ignored) &&
            ::rename((path + tail).c_str(), (to + tail).c_str()) != 0) {
            return Error{Code::Io, path + tail + ": cannot be moved aside: " + errno_text()};
        }
    }
    if (::rename(path.c_str(), to.c_str()) != 0) {
        return Error{Code::Io, path + ": cannot be moved aside: " + errno_text()};
    }
    return SetAside{to, why};
}

// The file and its log once more, beside them: they are about to be written to.
Result<SetAside> set_aside_copy(const std::string& path, const std::string& why) {
    const std::string to = free_name(path);
    for (const char* tail : {"", "-wal"}) {
        std::error_code ec;
        if (!fs::copy_file(path + tail, to + tail, ec)) {
            return Error{Code::Io, path + tail + ": " + why + ", and no copy can be set aside (" +
                                       ec.message() + "); it was not opened"};
        }
        (void)::chmod((to + tail).c_str(), 0600);  // as for the file itself
    }
    return SetAside{to, why, true};
}

std::string mode_text(const std::string& path) {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) {
        return errno_text();
    }
    char mode[8] = {};
    std::snprintf(mode, sizeof mode, "%04o", info.st_mode & 07777U);
    return std::string("mode ") + mode + ", owner " + std::to_string(info.st_uid) +
           ", this process is user " + std::to_string(::geteuid());
}

Status check_folder(const std::string& path) {
    const fs::path folder = fs::absolute(path).parent_path();
    std::error_code ec;
    if (!fs::is_directory(folder, ec)) {
        return Error{Code::Io, folder.string() + ": no such folder; create it first"};
    }
    if (fs::exists(path, ec) && !fs::is_regular_file(path, ec)) {
        return Error{Code::Io, path + ": not a regular file"};
    }
    if (fs::exists(path, ec) && ::faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) != 0) {
        return errno == EACCES
                   ? Error{Code::Io, path + ": may not be read and written: " + mode_text(path)}
                   : Error{Code::Io, path + ": cannot be written: " + errno_text()};
    }
    return {};
}

// SQLite gives log and index the mode of the file, so it has its mode before they are made.
Status create_private(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return Error{Code::Io, path + ": cannot be created: " + errno_text()};
    }
    ::close(fd);
    return {};
}

// Before anything is known about the file: nothing here writes to it.
void set_up_reading(Db& db, const OpenOptions& options) {
    sqlite3_busy_timeout(db.raw(), static_cast<int>(options.busy_timeout_ms));
    // A file crafted to hurt must not run anything.
    sqlite3_db_config(db.raw(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(db.raw(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    // A damaged file is kept as it is: closing it must not write the log into it.
    sqlite3_db_config(db.raw(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

Status set_up_writing(Db& db, const OpenOptions& options) {
    auto mode = db.scalar("PRAGMA journal_mode = WAL");
    if (!mode) {
        return mode.error();
    }
    if (*mode != "wal") {
        return Error{Code::Io,
                     "the file system does not support write-ahead logging (" + *mode + ")"};
    }
    std::string pragmas =
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
        "PRAGMA journal_size_limit = " +
        std::to_string(kLogBytes) + ";";
    if (options.max_bytes != 0) {
        auto page = db.scalar("PRAGMA page_size");
        if (!page) {
            return page.error();
        }
        const std::uint64_t pages = options.max_bytes / std::stoull(*page);
        pragmas += "PRAGMA max_page_count = " + std::to_string(std::max<std::uint64_t>(pages, 1));
    }
    return db.exec(pragmas.c_str());
}

// Reads the whole file once: a few megabytes at most, and the only moment to find a torn page
// before it is in force.
Status check_whole(Db& db) {
    auto verdict = db.scalar("PRAGMA integrity_check(1)");
    if (!verdict) {
        return verdict.error();
    }
    if (*verdict != "ok") {
        return Error{Code::Protocol, *verdict};
    }
    auto orphans = db.scalar("SELECT count(*) FROM pragma_foreign_key_check");
    if (!orphans) {
        return orphans.error();
    }
    if (*orphans != "0") {
        return Error{Code::Protocol, *orphans + " rows without their owner"};
    }
    return {};
}

Result<Db> open_checked(const OpenOptions& options) {
    auto db = Db::open(options.path);
    if (!db) {
        return db;
    }
    set_up_reading(*db, options);
    // In this order: a file that is not ours, or newer, is not even switched to another journal.
    if (auto whole = check_whole(*db); !whole) {
        return whole.error();
    }
    if (auto ours = check_version(*db); !ours) {
        return ours.error();
    }
    if (auto ready = set_up_writing(*db, options); !ready) {
        return ready.error();
    }
    if (auto current = migrate(*db); !current) {
        return current.error();
    }
    sqlite3_db_config(db->raw(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
    return db;
}

std::uintmax_t size_of(const std::string& path) {
    std::error_code ec;
    const auto size = fs::file_size(path, ec);
    return ec ? 0 : size;
}

// A damage that SQLite would not see, and would write over.
Status look_before(const std::string& path, Opened& out) {
    if (size_of(path) == 0 && size_of(path + "-wal") != 0) {
        return Error{Code::Protocol, "the file is empty and its log is not"};
    }
    if (auto why = wal_damage(path + "-wal")) {
        auto copied = set_aside_copy(path, *why);
        if (!copied) {
            return copied.error();
        }
        log::error("log of the database damaged: copy set aside, the last changes may be missing",
                   {{"file", path}, {"copy", copied->path}, {"why", copied->why}});
        out.set_aside = std::move(*copied);
    }
    return {};
}

Result<Db> open_or_set_aside(const OpenOptions& options, Opened& out) {
    // An empty file is what a first start leaves that ended early.
    out.created = size_of(options.path) == 0;
    Status look = look_before(options.path, out);
    if (look) {
        look = create_private(options.path);
    }
    auto db = look ? open_checked(options) : Result<Db>(look.error());
    if (db || db.error().code != Code::Protocol) {
        return db;
    }
    auto moved = set_aside(options.path, db.error().what);
    if (!moved) {
        return moved.error();
    }
    log::error("database damaged: set aside, starting empty",
               {{"file", options.path}, {"now", moved->path}, {"why", moved->why}});
    out.set_aside = std::move(*moved);
    out.created = true;
    if (auto made = create_private(options.path); !made) {
        return made.error();
    }
    return open_checked(options);
}

}  // namespace

Result<FileLock> FileLock::take(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return Error{Code::Io,
                     path + ": " + errno_text() + "; the folder of the database must be writable"};
    }
    FileLock lock(fd);
    // A process that was just killed may take a moment to let go.
    for (int tries = 0; ::flock(fd, LOCK_EX | LOCK_NB) != 0; ++tries) {
        if (errno != EWOULDBLOCK) {
            return Error{Code::Io, path + ": " + errno_text()};
        }
        if (tries == kLockTries) {
            return Error{Code::Unavailable, path + ": another process has the database open"};
        }
        std::this_thread::sleep_for(kLockPause);
    }
    return lock;
}

FileLock::~FileLock() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

Result<Opened> open_sqlite(const OpenOptions& options) {
    if (auto folder = check_folder(options.path); !folder) {
        return folder.error();
    }
    auto lock = FileLock::take(options.path + ".lock");
    if (!lock) {
        return lock.error();
    }
    Opened out;
    auto db = open_or_set_aside(options, out);
    if (!db) {
        return std::move(db).error().at(options.path);
    }
    // Bodies name hosts and files; they are not for everybody.
    for (const char* tail : {"", "-wal", "-shm"}) {
        // A file system without modes is no reason to stop.
        (void)::chmod((options.path + tail).c_str(), 0600);
    }
    auto store = std::make_unique<SqliteStore>(std::move(*db), std::move(*lock), options);
    if (auto known = store->read_marks(); !known) {
        return std::move(known).error().at(options.path);
    }
    out.store = std::move(store);
    return out;
}

}  // namespace sluice::state
