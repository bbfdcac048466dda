// What survives a restart: rules with the identities given to them, settings, and who changed what.
//
// Store is the interface; open_sqlite() is the implementation for one gateway. A body is kept as
// text and never looked into here.
//
// Threads: any; writers are serialised inside. Calls do disk I/O and may wait for it: never on a
//          loop.
// Errors:  Limit: the disk is full. Io: the disk said no. Unavailable: another process has it.
//          Unsupported: written by a newer version. Exists: an id is already another rule's.
//          Whatever the error, nothing of the change is stored.
// Units:   *_us microseconds since the epoch.
// Limits:  the newest kAuditRows audit rows are kept.
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
    std::string who;      // token name
    std::string from;     // address
    std::string action;   // e.g. "rule.create"
    std::string subject;  // e.g. the rule's id
    std::string before;   // empty when there was nothing
    std::string after;    // empty when there is nothing
};

struct Counters {
    std::uint32_t next_rule_number = 1;
    std::uint64_t next_endpoint_id = 1;
};

// One transaction.
struct Change {
    std::vector<std::uint32_t> deletes;  // rule numbers; applied before the upserts
    std::vector<RuleRow> upserts;        // whole rules, by number
    std::optional<Counters> counters;    // may not go down
    std::map<std::string, std::string> settings;
    std::vector<AuditRow> audit;
};

struct Contents {
    std::vector<RuleRow> rules;  // by number
    Counters counters;
    std::map<std::string, std::string> settings;
};

class Store {
public:
    virtual ~Store() = default;
    virtual Result<Contents> load() = 0;
    // After an ok the change survives the end of the process and of the machine's power.
    virtual Status commit(const Change& change) = 0;
    // Newest first.
    virtual Result<std::vector<AuditRow>> audit(std::size_t limit) = 0;
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
};

struct Opened {
    std::unique_ptr<Store> store;
    std::optional<SetAside> set_aside;  // the store starts empty then: an operator must look
    bool created = false;               // there was no file
};

// Takes the file for this process alone (a second opener gets Unavailable), brings an older schema
// up to date, sets a damaged file aside.
Result<Opened> open_sqlite(const OpenOptions& options);

}  // namespace sluice::state
