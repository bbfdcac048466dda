// The transaction of a change.
#include "state/sqlite_store.hpp"

#include <chrono>

#include "core/base/clock.hpp"

namespace sluice::state {

SqliteStore::Turn SqliteStore::turn() {
    // By the system's clock: ThreadSanitizer does not see the other one's lock (glibc's clocklock).
    return Turn(mu_, std::chrono::system_clock::now() +
                         std::chrono::milliseconds(options_.busy_timeout_ms));
}

Error SqliteStore::busy() const {
    return {Code::Unavailable,
            "the database has been busy for " + std::to_string(options_.busy_timeout_ms) + " ms"};
}

Status SqliteStore::commit(const Change& change) {
    const Turn mine = turn();
    if (!mine) {
        return busy();
    }
    Transaction transaction(db_);
    if (auto begun = transaction.begin(); !begun) {
        return begun;
    }
    if (auto written = write(change); !written) {
        return written;
    }
    Marks next = marks();
    if (auto written = write_marks(change, next); !written) {
        return written;
    }
    if (change.is_verified) {
        if (auto same = verify(change); !same) {
            return same;
        }
    }
    if (auto done = transaction.commit(); !done) {
        return done;
    }
    const std::lock_guard lock(marks_mu_);
    marks_ = std::move(next);
    return {};
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
    if (auto ran = write_settings(change); !ran) {
        return ran;
    }
    return write_audit(change.audit);
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

Status SqliteStore::write_settings(const Change& change) {
    auto drop = db_.prepare("DELETE FROM setting WHERE name = ?");
    auto put = db_.prepare("INSERT OR REPLACE INTO setting VALUES (?, ?)");
    for (const auto* statement : {&drop, &put}) {
        if (!*statement) {
            return statement->error();
        }
    }
    for (const std::string& name : change.dropped_settings) {
        if (auto ran = drop->bind(1, name).run(); !ran) {
            return ran;
        }
    }
    for (const auto& [name, value] : change.settings) {
        if (auto ran = put->bind(1, name).bind(2, value).run(); !ran) {
            return ran;
        }
    }
    return {};
}

Status SqliteStore::write_marks(const Change& change, Marks& next) {
    ++next.generation;
    next.changed_us = wall_us();
    if (change.is_restore) {
        next.restored_us = next.changed_us;
    }
    auto put = db_.prepare("UPDATE counter SET value = ?2 WHERE name = ?1");
    if (!put) {
        return put.error();
    }
    const std::pair<const char*, std::uint64_t> all[] = {{"generation", next.generation},
                                                         {"changed_us", next.changed_us},
                                                         {"restored_us", next.restored_us}};
    for (const auto& [name, value] : all) {
        if (auto ran = put->bind(1, std::string_view(name)).bind(2, value).run(); !ran) {
            return ran;
        }
    }
    return {};
}

}  // namespace sluice::state
