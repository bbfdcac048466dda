// Store over one SQLite file.
//
// Threads: any; one mutex over each call (the file has one writer, readers are rare).
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
    SqliteStore(Db db, FileLock lock) : lock_(std::move(lock)), db_(std::move(db)) {}

    Result<Contents> load() override;
    Status commit(const Change& change) override;
    Result<std::vector<AuditRow>> audit(std::size_t limit) override;

private:
    Status write(const Change& change);
    Status write_rule(const RuleRow& rule);

    const FileLock lock_;  // outlives db_
    std::mutex mu_;
    Db db_;  // guarded by mu_
};

}  // namespace sluice::state
