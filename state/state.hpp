// What survives a restart: rules with the identities given to them, settings, and who changed what.
//
// Store is the interface; open_sqlite() is the implementation for one gateway. A body is kept as
// text and never looked into here: whoever commits takes secrets out of audit rows.
//
// Threads: any; writers are serialised inside. Calls do disk I/O and may wait for it: never on a
//          loop.
// Errors:  Limit: the disk is full. Io: the disk said no. Unavailable: another process has it, or
//          it has been busy for the busy time-out. Unsupported: written by a newer version.
//          Exists: an id is already another rule's. Whatever the error, nothing of the change is
//          stored.
// Units:   *_us microseconds since the epoch.
// Limits:  the newest kAuditRows audit rows are kept, of whose texts before and after at most
//          kAuditBytes; a backup is at most kMaxBackupBytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace sluice::state {

inline constexpr std::size_t kAuditRows = 100'000;
inline constexpr std::size_t kAuditBytes = 64U << 20U;
inline constexpr std::size_t kMaxBackupBytes = 256U << 20U;

struct EndpointRow {
    std::uint64_t id = 0;      // unique in the store, never reused
    std::uint32_t ep_idx = 0;  // unique in the rule, never reused
    std::string ip;
    std::uint16_t port = 0;
    std::uint32_t role = 0;
};

struct RuleRow {
    std::uint32_t number = 0;  // never reused
    std::string id;
    std::uint64_t generation = 0;
    std::string body;               // the accepted body, JSON text
    std::uint32_t next_ep_idx = 0;  // what the next new endpoint gets
    std::vector<EndpointRow> endpoints;
};

struct AuditRow {
    std::uint64_t at_us = 0;
    std::string who;        // token name
    std::string from;       // address
    std::string action;     // e.g. "rule.create"
    std::string subject;    // e.g. the rule's id
    std::string before;     // empty when there was nothing
    std::string after;      // empty when there is nothing
    std::uint64_t seq = 0;  // given by the store, growing
};

struct AuditQuery {
    std::size_t limit = 100;
    std::uint64_t before = 0;          // only rows of a smaller seq; 0 = from the newest
    std::string subject{};             // empty = any
    std::size_t max_bytes = SIZE_MAX;  // of texts; the first row comes whatever its size
};

struct Counters {
    std::uint32_t next_rule_number = 1;
    std::uint64_t next_endpoint_id = 1;
};

// Which state of the contents this is.
struct Marks {
    std::string store_id;           // of this database since its creation; backups have the same
    std::uint64_t generation = 0;   // one more with every change
    std::uint64_t changed_us = 0;   // of the last change; 0 = none yet
    std::uint64_t restored_us = 0;  // of the last change that was a restore; 0 = none yet
};

// One transaction.
struct Change {
    std::vector<std::uint32_t> deletes;  // rule numbers; applied before the upserts
    std::vector<RuleRow> upserts;        // whole rules, by number
    std::optional<Counters> counters;    // may not go down
    std::map<std::string, std::string> settings;
    std::vector<std::string> dropped_settings;  // names; applied before `settings`
    std::vector<AuditRow> audit;
    bool is_restore = false;
    // Everything written is read back and compared before it is final; Internal if it differs.
    bool is_verified = false;
};

struct Contents {
    std::vector<RuleRow> rules;  // by number
    Counters counters;
    std::map<std::string, std::string> settings;
    Marks marks;
};

class Store {
public:
    virtual ~Store() = default;
    virtual Result<Contents> load() = 0;
    // After an ok the change survives the end of the process and of the machine's power.
    virtual Status commit(const Change& change) = 0;
    // Newest first.
    virtual Result<std::vector<AuditRow>> audit(const AuditQuery& query) = 0;
    // Of what is stored now; does no I/O.
    virtual Marks marks() const = 0;
    // Folds the log into the database file. Nothing depends on it: commit() is durable.
    virtual Status persist() = 0;
    // The bytes of a whole database of this moment; writers go on meanwhile.
    virtual Result<std::string> backup() = 0;
};

struct OpenOptions {
    std::string path;  // the folder must exist
    std::uint32_t busy_timeout_ms = 5000;
    std::uint64_t max_bytes = 0;  // of the database file; 0 = as large as the disk
};

// A damaged file that was moved out of the way. It is never deleted or written again.
struct SetAside {
    std::string path;  // where it is now
    std::string why;
    // The file itself is whole and only its log is damaged: a copy was set aside and the store goes
    // on with what can be read; the last changes may be missing. Otherwise it starts empty.
    bool is_copy = false;
};

struct Opened {
    std::unique_ptr<Store> store;
    std::optional<SetAside> set_aside;  // an operator must look
    bool created = false;               // there was no file
};

// Takes the file for this process alone (a second opener gets Unavailable), brings an older schema
// up to date, sets a damaged file aside.
Result<Opened> open_sqlite(const OpenOptions& options);

}  // namespace sluice::state
