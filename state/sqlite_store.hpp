// Store over one SQLite file.
//
// Threads: any; one mutex over each call but marks() (the file has one writer, readers are rare).
//          A backup has a connection of its own and holds up nobody.
// Owns:    the connection, and the lock file that keeps a second process out.
#pragma once
#include <mutex>

#include "state/db.hpp"
#include "state/state.hpp"

namespace sluice::state {

// An advisory lock that ends with the process, however it ends.
class FileLock {
public:
    static Result<FileLock> take(const std::string& path);
    FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    FileLock& operator=(FileLock&&) = delete;
    ~FileLock();

private:
    explicit FileLock(int fd) : fd_(fd) {}
    int fd_ = -1;
};

class SqliteStore final : public Store {
public:
    SqliteStore(Db db, FileLock lock, const OpenOptions& options)
        : lock_(std::move(lock)), options_(options), db_(std::move(db)) {}

    // Before anything else: what marks() answers.
    Status read_marks();

    Result<Contents> load() override;
    Status commit(const Change& change) override;
    Result<std::vector<AuditRow>> audit(const AuditQuery& query) override;
    Marks marks() const override;
    Status persist() override;
    Result<std::string> backup() override;

private:
    using Turn = std::unique_lock<std::timed_mutex>;
    // Not owned when others have been at it for the busy time-out.
    Turn turn();
    Error busy() const;

    Status write(const Change& change);
    Status write_rule(const RuleRow& rule);
    Status write_settings(const Change& change);
    Status write_audit(const std::vector<AuditRow>& rows);
    Status prune_audit();
    Status write_marks(const Change& change, Marks& next);
    Status verify(const Change& change);
    Result<Contents> read();

    const FileLock lock_;  // outlives db_
    const OpenOptions options_;
    std::timed_mutex mu_;
    Db db_;  // guarded by mu_
    mutable std::mutex marks_mu_;
    Marks marks_;  // guarded by marks_mu_
};

}  // namespace sluice::state
