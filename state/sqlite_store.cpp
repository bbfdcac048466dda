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

}  // namespace

Result<Contents> SqliteStore::load() {
    const std::lock_guard lock(mu_);
    Contents out;
    Transaction one_moment(db_);
    if (auto begun = one_moment.begin(); !begun) {
        return begun.error();
    }
    std::map<std::string, std::string> counters;
    for (const Status& read :
         {rules_into(db_, out), pairs_into(db_, "SELECT name, value FROM setting", out.settings),
          pairs_into(db_, "SELECT name, value FROM counter", counters)}) {
        if (!read) {
            return read.error();
        }
    }
    try {
        out.counters.next_rule_number =
            static_cast<std::uint32_t>(std::stoul(counters.at("next_rule_number")));
        out.counters.next_endpoint_id = std::stoull(counters.at("next_endpoint_id"));
    } catch (const std::exception&) {
        return Error{Code::Protocol, "the counters are missing from the database"};
    }
    return out;
}

Status SqliteStore::commit(const Change& change) {
    const std::lock_guard lock(mu_);
    Transaction transaction(db_);
    if (auto begun = transaction.begin(); !begun) {
        return begun;
    }
    if (auto written = write(change); !written) {
        return written;
    }
    return transaction.commit();
}

Status SqliteStore::write(const Change& change) {
    if (!change.deletes.empty()) {
        auto erase = db_.prepare("DELETE FROM rule WHERE number = ?");
        if (!erase) {
            return erase.error();
        }
        for (const std::uint32_t number : change.deletes) {
            if (auto ran = erase->bind(1, number).run(); !ran) {
                return ran;
            }
        }
    }
    for (const RuleRow& rule : change.upserts) {
        if (auto ran = write_rule(rule); !ran) {
            return std::move(ran).error().at("rule " + std::to_string(rule.number));
        }
    }
    if (change.counters) {
        // max(): a number given once must not come again, whatever the caller believes.
        auto raise = db_.prepare("UPDATE counter SET value = max(value, ?2) WHERE name = ?1");
        if (!raise) {
            return raise.error();
        }
        const std::pair<const char*, std::uint64_t> both[] = {
            {"next_rule_number", change.counters->next_rule_number},
            {"next_endpoint_id", change.counters->next_endpoint_id}};
        for (const auto& [name, value] : both) {
            if (auto ran = raise->bind(1, std::string_view(name)).bind(2, value).run(); !ran) {
                return ran;
            }
        }
    }
    for (const auto& [name, value] : change.settings) {
        auto put = db_.prepare("INSERT OR REPLACE INTO setting VALUES (?, ?)");
        if (!put) {
            return put.error();
        }
        if (auto ran = put->bind(1, name).bind(2, value).run(); !ran) {
            return ran;
        }
    }
    if (change.audit.empty()) {
        return {};
    }
    auto add = db_.prepare(
        "INSERT INTO audit (at_us, who, origin, action, subject, before, after)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)");
    if (!add) {
        return add.error();
    }
    for (const AuditRow& row : change.audit) {
        add->bind(1, row.at_us).bind(2, row.who).bind(3, row.from).bind(4, row.action);
        add->bind(5, row.subject).bind(6, row.before).bind(7, row.after);
        if (auto ran = add->run(); !ran) {
            return ran;
        }
    }
    auto prune = db_.prepare("DELETE FROM audit WHERE seq <= (SELECT max(seq) FROM audit) - ?");
    if (!prune) {
        return prune.error();
    }
    return prune->bind(1, kAuditRows).run();
}

Status SqliteStore::write_rule(const RuleRow& rule) {
    auto put = db_.prepare(
        "INSERT INTO rule (number, id, generation, body, next_ep_idx) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (number) DO UPDATE SET id = excluded.id, generation = excluded.generation,"
        " body = excluded.body, next_ep_idx = excluded.next_ep_idx");
    auto clear = db_.prepare("DELETE FROM endpoint WHERE rule = ?");
    auto add = db_.prepare(
        "INSERT INTO endpoint (id, rule, ep_idx, ip, port, role)"
        " VALUES (?, ?, ?, ?, ?, ?)");
    for (const auto* statement : {&put, &clear, &add}) {
        if (!*statement) {
            return statement->error();
        }
    }
    put->bind(1, rule.number).bind(2, rule.id).bind(3, rule.generation).bind(4, rule.body);
    if (auto ran = put->bind(5, rule.next_ep_idx).run(); !ran) {
        return ran;
    }
    if (auto ran = clear->bind(1, rule.number).run(); !ran) {
        return ran;
    }
    for (const EndpointRow& row : rule.endpoints) {
        add->bind(1, row.id).bind(2, rule.number).bind(3, row.ep_idx).bind(4, row.ip);
        if (auto ran = add->bind(5, row.port).bind(6, row.role).run(); !ran) {
            return ran;
        }
    }
    return {};
}

Result<std::vector<AuditRow>> SqliteStore::audit(std::size_t limit) {
    const std::lock_guard lock(mu_);
    auto rows = db_.prepare(
        "SELECT at_us, who, origin, action, subject, before, after FROM audit"
        " ORDER BY seq DESC LIMIT ?");
    if (!rows) {
        return rows.error();
    }
    rows->bind(1, limit);
    std::vector<AuditRow> out;
    while (rows->next()) {
        out.push_back({rows->u64(0), rows->text(1), rows->text(2), rows->text(3), rows->text(4),
                       rows->text(5), rows->text(6)});
    }
    if (!rows->status()) {
        return rows->status().error();
    }
    return out;
}

}  // namespace sluice::state
