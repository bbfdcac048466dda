#include "state/db.hpp"

#include <cerrno>
#include <cstring>

namespace sluice::state {

Error to_error(int rc, std::string_view what) {
    Code code = Code::Io;
    switch (rc & 0xFF) {
        case SQLITE_FULL:
        case SQLITE_TOOBIG:
            code = Code::Limit;
            break;
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
            code = Code::Unavailable;
            break;
        case SQLITE_CONSTRAINT:
            code = Code::Exists;
            break;
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB:
            code = Code::Protocol;
            break;
        case SQLITE_ERROR:
        case SQLITE_MISUSE:
        case SQLITE_RANGE:
            code = Code::Internal;
            break;
        default:
            break;
    }
    return Error{code, std::string(what)};
}

namespace {

int errno_of(sqlite3_file* file) {
    int reason = 0;
    if (file != nullptr && file->pMethods != nullptr) {
        file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &reason);
    }
    return reason;
}

// Why the system did not take what was written to the file or its log; 0 = for none that it said.
int write_errno(sqlite3* db, int rc) {
    if (rc != SQLITE_IOERR_WRITE && rc != SQLITE_IOERR_FSYNC && rc != SQLITE_IOERR_TRUNCATE &&
        rc != SQLITE_IOERR_SHMSIZE) {
        return 0;
    }
    for (const int which : {SQLITE_FCNTL_JOURNAL_POINTER, SQLITE_FCNTL_FILE_POINTER}) {
        sqlite3_file* file = nullptr;
        if (sqlite3_file_control(db, "main", which, &file) == SQLITE_OK) {
            if (const int reason = errno_of(file); reason != 0) {
                return reason;
            }
        }
    }
    return sqlite3_system_errno(db);
}

Error last_error(sqlite3* db, int rc) {
    // SQLite knows ENOSPC only for some calls; a quota or a limit of the process is as full a disk.
    const int reason = write_errno(db, rc);
    if (reason == ENOSPC || reason == EDQUOT || reason == EFBIG) {
        return Error{Code::Limit, std::string("no space: ") + std::strerror(reason)};
    }
    return to_error(rc, sqlite3_errmsg(db));
}

}  // namespace

Statement& Statement::bind(int at, std::uint64_t v) {
    // SQLite's integers are signed; ids and counters never reach 2^63.
    const int rc = sqlite3_bind_int64(raw_.get(), at, static_cast<sqlite3_int64>(v));
    bind_rc_ = bind_rc_ == SQLITE_OK ? rc : bind_rc_;
    return *this;
}

Statement& Statement::bind(int at, std::string_view v) {
    const int rc = sqlite3_bind_text64(raw_.get(), at, v.data() == nullptr ? "" : v.data(),
                                       v.size(), SQLITE_STATIC, SQLITE_UTF8);
    bind_rc_ = bind_rc_ == SQLITE_OK ? rc : bind_rc_;
    return *this;
}

Status Statement::run() {
    while (next()) {
    }
    Status done = status_;
    sqlite3_reset(raw_.get());  // says the same as the step before
    sqlite3_clear_bindings(raw_.get());
    return done;
}

bool Statement::next() {
    sqlite3* db = sqlite3_db_handle(raw_.get());
    if (bind_rc_ != SQLITE_OK) {
        status_ = last_error(db, bind_rc_);
        bind_rc_ = SQLITE_OK;
        return false;
    }
    const int rc = sqlite3_step(raw_.get());
    if (rc == SQLITE_ROW) {
        return true;
    }
    if (rc == SQLITE_DONE) {
        status_ = {};
    } else {
        status_ = last_error(db, sqlite3_extended_errcode(db));
    }
    return false;
}

std::uint64_t Statement::u64(int column) const {
    return static_cast<std::uint64_t>(sqlite3_column_int64(raw_.get(), column));
}

std::string Statement::text(int column) const {
    const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(raw_.get(), column));
    const int size = sqlite3_column_bytes(raw_.get(), column);
    return data == nullptr ? std::string() : std::string(data, static_cast<std::size_t>(size));
}

Result<Db> Db::open(const std::string& path) {
    Db db;
    sqlite3* raw = nullptr;
    const int rc = sqlite3_open_v2(
        path.c_str(), &raw,
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX | SQLITE_OPEN_EXRESCODE,
        nullptr);
    db.raw_.reset(raw);
    if (rc != SQLITE_OK) {
        return raw == nullptr ? to_error(rc, "out of memory") : last_error(raw, rc);
    }
    return db;
}

Status Db::exec(const char* sql) {
    const int rc = sqlite3_exec(raw_.get(), sql, nullptr, nullptr, nullptr);
    if (rc != SQLITE_OK) {
        return last_error(raw_.get(), rc);
    }
    return {};
}

Result<Statement> Db::prepare(const char* sql) {
    sqlite3_stmt* raw = nullptr;
    const int rc = sqlite3_prepare_v2(raw_.get(), sql, -1, &raw, nullptr);
    if (rc != SQLITE_OK) {
        return last_error(raw_.get(), rc);
    }
    return Statement(raw);
}

Result<std::string> Db::scalar(const char* sql) {
    auto statement = prepare(sql);
    if (!statement) {
        return statement.error();
    }
    if (!statement->next()) {
        if (!statement->status()) {
            return statement->status().error();
        }
        return Error{Code::NotFound, "no row"};
    }
    return statement->text(0);
}

Transaction::~Transaction() {
    if (open_ && db_.in_transaction()) {
        // Nothing can be done about a failure here: SQLite rolls back at the next open, too.
        (void)db_.exec("ROLLBACK");
    }
}

Status Transaction::begin() {
    auto begun = db_.exec("BEGIN IMMEDIATE");
    open_ = begun.ok();
    return begun;
}

Status Transaction::begin_reading() {
    auto begun = db_.exec("BEGIN");
    open_ = begun.ok();
    return begun;
}

Status Transaction::commit() {
    auto done = db_.exec("COMMIT");
    if (done) {
        open_ = false;
    }
    return done;
}

}  // namespace sluice::state
