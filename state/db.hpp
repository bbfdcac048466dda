// A SQLite connection and its prepared statements as owned values.
//
// Threads: one at a time; the owner serialises.
// Errors:  SQLite's result codes become ours in to_error(); nothing throws.
#pragma once
#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace sluice::state {

// FULL, or no space for other reasons -> Limit, BUSY -> Unavailable, CONSTRAINT -> Exists, CORRUPT
// and NOTADB -> Protocol, what the disk refuses -> Io.
Error to_error(int rc, std::string_view what);

class Statement {
public:
    Statement() = default;
    explicit Statement(sqlite3_stmt* raw) : raw_(raw) {}

    Statement& bind(int at, std::uint64_t v);
    Statement& bind(int at, std::string_view v);  // the text must live until run() or next row
    // Runs to the end; for statements without rows.
    Status run();
    // True while there is a row. After an error: false, and error() is set.
    bool next();
    const Status& status() const noexcept { return status_; }

    std::uint64_t u64(int column) const;
    std::string text(int column) const;

private:
    struct Finalize {
        void operator()(sqlite3_stmt* s) const noexcept { sqlite3_finalize(s); }
    };
    std::unique_ptr<sqlite3_stmt, Finalize> raw_;
    Status status_;
    int bind_rc_ = SQLITE_OK;
};

class Db {
public:
    static Result<Db> open(const std::string& path);

    Status exec(const char* sql);
    Result<Statement> prepare(const char* sql);
    // The first column of the first row.
    Result<std::string> scalar(const char* sql);
    bool in_transaction() const noexcept { return sqlite3_get_autocommit(raw_.get()) == 0; }
    sqlite3* raw() noexcept { return raw_.get(); }

private:
    struct Close {
        void operator()(sqlite3* db) const noexcept { sqlite3_close(db); }
    };
    std::unique_ptr<sqlite3, Close> raw_;
};

// Rolled back unless commit() succeeded.
class Transaction {
public:
    explicit Transaction(Db& db) : db_(db) {}
    ~Transaction();
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;

    Status begin();          // to write
    Status begin_reading();  // one moment, for several statements
    Status commit();

private:
    Db& db_;
    bool open_ = false;
};

}  // namespace sluice::state
