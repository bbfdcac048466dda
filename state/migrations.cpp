#include "state/migrations.hpp"

#include <array>
#include <charconv>
#include <string>

namespace sluice::state {
namespace {

// Step i brings user_version i to i + 1. A published step is never edited; a new one is appended.
constexpr std::array kSteps = {
    R"sql(
CREATE TABLE rule (
    number      INTEGER PRIMARY KEY CHECK (number > 0),
    id          TEXT NOT NULL UNIQUE,
    generation  INTEGER NOT NULL,
    body        TEXT NOT NULL,
    next_ep_idx INTEGER NOT NULL
) STRICT;
CREATE TABLE endpoint (
    id     INTEGER PRIMARY KEY CHECK (id > 0),
    rule   INTEGER NOT NULL REFERENCES rule (number) ON DELETE CASCADE,
    ep_idx INTEGER NOT NULL,
    ip     TEXT NOT NULL,
    port   INTEGER NOT NULL,
    role   INTEGER NOT NULL,
    UNIQUE (rule, ep_idx),
    UNIQUE (rule, ip, port, role)
) STRICT;
CREATE TABLE counter (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counter VALUES ('next_rule_number', 1), ('next_endpoint_id', 1);
CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE audit (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    at_us   INTEGER NOT NULL,
    who     TEXT NOT NULL,
    origin  TEXT NOT NULL,
    action  TEXT NOT NULL,
    subject TEXT NOT NULL,
    before  TEXT NOT NULL,
    after   TEXT NOT NULL
) STRICT;
)sql",
    // Which state of which database this is, and a bound of the audit trail in bytes.
    R"sql(
CREATE TABLE about (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO about VALUES ('store_id', lower(hex(randomblob(16))));
INSERT INTO counter VALUES
    ('generation', (SELECT coalesce(max(seq), 0) FROM audit)),
    ('changed_us', (SELECT coalesce(max(at_us), 0) FROM audit)),
    ('restored_us', 0),
    ('audit_bytes', (SELECT coalesce(sum(length(CAST(before AS BLOB)) +
                                         length(CAST(after AS BLOB))), 0) FROM audit));
CREATE INDEX audit_subject ON audit (subject, seq);
)sql",
};

Result<std::uint32_t> number(Db& db, const char* sql) {
    auto text = db.scalar(sql);
    if (!text) {
        return text.error();
    }
    std::uint32_t value = 0;
    const auto [end, ec] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (ec != std::errc() || end != text->data() + text->size()) {
        return Error{Code::Internal, std::string(sql) + " answered " + *text};
    }
    return value;
}

}  // namespace

std::uint32_t schema_version() noexcept {
    return static_cast<std::uint32_t>(kSteps.size());
}

Status check_version(Db& db) {
    auto owner = number(db, "PRAGMA application_id");
    auto version = number(db, "PRAGMA user_version");
    auto tables = number(db, "SELECT count(*) FROM sqlite_schema");
    for (const auto* read : {&owner, &version, &tables}) {
        if (!*read) {
            return read->error();
        }
    }
    if (*owner != kApplicationId && (*owner != 0 || *version != 0 || *tables != 0)) {
        return Error{Code::Unsupported, "a SQLite database of another program; not touched"};
    }
    if (*version > schema_version()) {
        return Error{Code::Unsupported, "schema version " + std::to_string(*version) +
                                            " is newer than this program's " +
                                            std::to_string(schema_version()) +
                                            "; start the newer program or restore a backup"};
    }
    return {};
}

Status migrate(Db& db) {
    auto version = number(db, "PRAGMA user_version");
    if (!version) {
        return version.error();
    }
    for (std::uint32_t at = *version; at < schema_version(); ++at) {
        Transaction step(db);
        if (auto begun = step.begin(); !begun) {
            return begun;
        }
        const std::string sql = std::string(kSteps[at]) +
                                "PRAGMA application_id = " + std::to_string(kApplicationId) +
                                "; PRAGMA user_version = " + std::to_string(at + 1) + ";";
        if (auto ran = db.exec(sql.c_str()); !ran) {
            return std::move(ran).error().at("schema step " + std::to_string(at + 1));
        }
        if (auto done = step.commit(); !done) {
            return done;
        }
    }
    return {};
}

}  // namespace sluice::state
