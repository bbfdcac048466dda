// The audit trail: rows added with the change they tell of, the oldest given up beyond the bounds.
#include "state/sqlite_store.hpp"

namespace sluice::state {
namespace {

std::uint64_t bytes_of(const AuditRow& row) {
    return row.before.size() + row.after.size();
}

}  // namespace

Status SqliteStore::write_audit(const std::vector<AuditRow>& rows) {
    if (rows.empty()) {
        return {};
    }
    auto add = db_.prepare(
        "INSERT INTO audit (at_us, who, origin, action, subject, before, after)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)");
    if (!add) {
        return add.error();
    }
    std::uint64_t added = 0;
    for (const AuditRow& row : rows) {
        add->bind(1, row.at_us).bind(2, row.who).bind(3, row.from).bind(4, row.action);
        add->bind(5, row.subject).bind(6, row.before).bind(7, row.after);
        if (auto ran = add->run(); !ran) {
            return ran;
        }
        added += bytes_of(row);
    }
    auto grow = db_.prepare("UPDATE counter SET value = value + ? WHERE name = 'audit_bytes'");
    if (!grow) {
        return grow.error();
    }
    if (auto ran = grow->bind(1, added).run(); !ran) {
        return ran;
    }
    return prune_audit();
}

Status SqliteStore::prune_audit() {
    // Rows are dropped from the oldest on only, so the numbers that are left have no gaps.
    auto now = db_.prepare(
        "SELECT (SELECT min(seq) FROM audit), (SELECT max(seq) FROM audit),"
        " (SELECT value FROM counter WHERE name = 'audit_bytes')");
    if (!now) {
        return now.error();
    }
    if (!now->next()) {
        return now->status();
    }
    const std::uint64_t newest = now->u64(1);
    std::uint64_t rows = newest - now->u64(0) + 1;
    std::uint64_t bytes = now->u64(2);
    if (rows <= kAuditRows && bytes <= kAuditBytes) {
        return {};
    }
    auto oldest = db_.prepare(
        "SELECT seq, length(CAST(before AS BLOB)) + length(CAST(after AS BLOB)) FROM audit"
        " ORDER BY seq");
    if (!oldest) {
        return oldest.error();
    }
    std::uint64_t last = 0;
    while ((rows > kAuditRows || bytes > kAuditBytes) && rows > 1 && oldest->next()) {
        last = oldest->u64(0);
        bytes -= oldest->u64(1);
        --rows;
    }
    if (!oldest->status()) {
        return oldest->status();
    }
    auto drop = db_.prepare("DELETE FROM audit WHERE seq <= ?");
    auto put = db_.prepare("UPDATE counter SET value = ? WHERE name = 'audit_bytes'");
    for (const auto* statement : {&drop, &put}) {
        if (!*statement) {
            return statement->error();
        }
    }
    if (auto ran = drop->bind(1, last).run(); !ran) {
        return ran;
    }
    return put->bind(1, bytes).run();
}

Result<std::vector<AuditRow>> SqliteStore::audit(const AuditQuery& query) {
    const Turn mine = turn();
    if (!mine) {
        return busy();
    }
    auto rows = db_.prepare(
        query.subject.empty()
            ? "SELECT seq, at_us, who, origin, action, subject, before, after FROM audit"
              " WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2"
            : "SELECT seq, at_us, who, origin, action, subject, before, after FROM audit"
              " WHERE subject = ?3 AND seq < ?1 ORDER BY seq DESC LIMIT ?2");
    if (!rows) {
        return rows.error();
    }
    rows->bind(1, query.before == 0 ? std::uint64_t{INT64_MAX} : query.before);
    rows->bind(2, query.limit);
    if (!query.subject.empty()) {
        rows->bind(3, query.subject);
    }
    std::vector<AuditRow> out;
    std::uint64_t bytes = 0;
    while (rows->next()) {
        AuditRow row{rows->u64(1),  rows->text(2), rows->text(3), rows->text(4),
                     rows->text(5), rows->text(6), rows->text(7), rows->u64(0)};
        bytes += bytes_of(row);
        if (bytes > query.max_bytes && !out.empty()) {
            return out;
        }
        out.push_back(std::move(row));
    }
    if (!rows->status()) {
        return rows->status().error();
    }
    return out;
}

}  // namespace sluice::state
