// Reading the store: everything, a check of what was just written, a copy of the file.
#include <algorithm>
#include <memory>

#include "state/sqlite_store.hpp"

namespace sluice::state {
namespace {

Status rules_into(Db& db, Contents& out) {
    auto rules =
        db.prepare("SELECT number, id, generation, body, next_ep_idx FROM rule ORDER BY 1");
    if (!rules) {
        return rules.error();
    }
    std::map<std::uint32_t, std::size_t> at;
    while (rules->next()) {
        RuleRow row;
        row.number = static_cast<std::uint32_t>(rules->u64(0));
        row.id = rules->text(1);
        row.generation = rules->u64(2);
        row.body = rules->text(3);
        row.next_ep_idx = static_cast<std::uint32_t>(rules->u64(4));
        at.emplace(row.number, out.rules.size());
        out.rules.push_back(std::move(row));
    }
    if (!rules->status()) {
        return rules->status();
    }
    auto endpoints =
        db.prepare("SELECT rule, id, ep_idx, ip, port, role FROM endpoint ORDER BY rule, ep_idx");
    if (!endpoints) {
        return endpoints.error();
    }
    while (endpoints->next()) {
        const auto owner = at.find(static_cast<std::uint32_t>(endpoints->u64(0)));
        if (owner == at.end()) {
            return Error{Code::Protocol, "an endpoint row without its rule"};
        }
        EndpointRow row;
        row.id = endpoints->u64(1);
        row.ep_idx = static_cast<std::uint32_t>(endpoints->u64(2));
        row.ip = endpoints->text(3);
        row.port = static_cast<std::uint16_t>(endpoints->u64(4));
        row.role = static_cast<std::uint32_t>(endpoints->u64(5));
        out.rules[owner->second].endpoints.push_back(std::move(row));
    }
    return endpoints->status();
}

Status pairs_into(Db& db, const char* sql, std::map<std::string, std::string>& out) {
    auto rows = db.prepare(sql);
    if (!rows) {
        return rows.error();
    }
    while (rows->next()) {
        out[rows->text(0)] = rows->text(1);
    }
    return rows->status();
}

// A member of the counter table; they all are there since the file was opened.
std::uint64_t counter(const std::map<std::string, std::string>& counters, const char* name) {
    return std::stoull(counters.at(name));
}

bool is_same(const RuleRow& a, const RuleRow& b) {
    const auto is_same_endpoint = [](const EndpointRow& x, const EndpointRow& y) {
        return x.id == y.id && x.ep_idx == y.ep_idx && x.ip == y.ip && x.port == y.port &&
               x.role == y.role;
    };
    const auto sorted = [](std::vector<EndpointRow> rows) {
        std::sort(rows.begin(), rows.end(),
                  [](const EndpointRow& x, const EndpointRow& y) { return x.ep_idx < y.ep_idx; });
        return rows;
    };
    const auto endpoints_a = sorted(a.endpoints);
    const auto endpoints_b = sorted(b.endpoints);
    return a.number == b.number && a.id == b.id && a.generation == b.generation &&
           a.body == b.body && a.next_ep_idx == b.next_ep_idx &&
           std::equal(endpoints_a.begin(), endpoints_a.end(), endpoints_b.begin(),
                      endpoints_b.end(), is_same_endpoint);
}

}  // namespace

Result<Contents> SqliteStore::read() {
    Contents out;
    std::map<std::string, std::string> counters;
    for (const Status& read :
         {rules_into(db_, out), pairs_into(db_, "SELECT name, value FROM setting", out.settings),
          pairs_into(db_, "SELECT name, value FROM counter", counters)}) {
        if (!read) {
            return read.error();
        }
    }
    std::map<std::string, std::string> about;
    if (auto read = pairs_into(db_, "SELECT name, value FROM about", about); !read) {
        return read.error();
    }
    try {
        out.counters.next_rule_number =
            static_cast<std::uint32_t>(counter(counters, "next_rule_number"));
        out.counters.next_endpoint_id = counter(counters, "next_endpoint_id");
        out.marks = {about.at("store_id"), counter(counters, "generation"),
                     counter(counters, "changed_us"), counter(counters, "restored_us")};
    } catch (const std::exception&) {
        return Error{Code::Protocol, "the counters are missing from the database"};
    }
    return out;
}

Result<Contents> SqliteStore::load() {
    const Turn mine = turn();
    if (!mine) {
        return busy();
    }
    Transaction one_moment(db_);
    if (auto begun = one_moment.begin_reading(); !begun) {
        return begun.error();
    }
    return read();
}

Status SqliteStore::read_marks() {
    auto contents = load();
    if (!contents) {
        return contents.error();
    }
    const std::lock_guard lock(marks_mu_);
    marks_ = contents->marks;
    return {};
}

Marks SqliteStore::marks() const {
    const std::lock_guard lock(marks_mu_);
    return marks_;
}

Status SqliteStore::verify(const Change& change) {
    auto stored = read();
    if (!stored) {
        return stored.error();
    }
    std::map<std::uint32_t, const RuleRow*> by_number;
    for (const RuleRow& row : stored->rules) {
        by_number.emplace(row.number, &row);
    }
    for (const RuleRow& row : change.upserts) {
        const auto at = by_number.find(row.number);
        if (at == by_number.end() || !is_same(*at->second, row)) {
            return Error{Code::Internal,
                         "rule " + std::to_string(row.number) + " reads back differently"};
        }
        by_number.erase(at);
    }
    for (const std::uint32_t number : change.deletes) {
        if (by_number.contains(number)) {
            return Error{Code::Internal, "rule " + std::to_string(number) + " was not deleted"};
        }
    }
    for (const auto& [name, value] : change.settings) {
        const auto at = stored->settings.find(name);
        if (at == stored->settings.end() || at->second != value) {
            return Error{Code::Internal, "setting " + name + " reads back differently"};
        }
    }
    return {};
}

Status SqliteStore::persist() {
    const Turn mine = turn();
    if (!mine) {
        return busy();
    }
    return db_.exec("PRAGMA wal_checkpoint(TRUNCATE)");
}

Result<std::string> SqliteStore::backup() {
    // A connection of its own: in write-ahead mode a reader sees one moment and stops nobody.
    auto reader = Db::open(options_.path);
    if (!reader) {
        return reader.error();
    }
    sqlite3_busy_timeout(reader->raw(), static_cast<int>(options_.busy_timeout_ms));
    sqlite3_db_config(reader->raw(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    Transaction one_moment(*reader);
    if (auto begun = one_moment.begin_reading(); !begun) {
        return begun.error();
    }
    auto pages = reader->scalar("PRAGMA page_count");
    auto page_bytes = reader->scalar("PRAGMA page_size");
    for (const auto* read : {&pages, &page_bytes}) {
        if (!*read) {
            return read->error();
        }
    }
    if (std::stoull(*pages) * std::stoull(*page_bytes) > kMaxBackupBytes) {
        return Error{Code::Limit, "the database is larger than " + std::to_string(kMaxBackupBytes) +
                                      " bytes; copy it with SQLite's own backup command"};
    }
    sqlite3_int64 size = 0;
    const std::unique_ptr<unsigned char, void (*)(void*)> image(
        sqlite3_serialize(reader->raw(), "main", &size, 0), sqlite3_free);
    if (image == nullptr) {
        return Error{Code::Io, std::string("backup: ") + sqlite3_errmsg(reader->raw())};
    }
    return std::string(reinterpret_cast<const char*>(image.get()), static_cast<std::size_t>(size));
}

}  // namespace sluice::state
