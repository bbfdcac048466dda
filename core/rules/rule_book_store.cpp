// The way of a change to the store.
#include "core/base/log.hpp"
#include "core/base/metrics.hpp"
#include "core/rules/rule_book.hpp"
#include "core/rules/secrets.hpp"
#include "state/state.hpp"

namespace sluice::rules {

RuleBook::ChangeLock RuleBook::begin_change() {
    // By the system's clock: ThreadSanitizer does not see the other one's lock (glibc's clocklock).
    return ChangeLock(change_mu_, std::chrono::system_clock::now() + patience_);
}

Status RuleBook::persist(const state::Change& change) {
    state::Change shown = change;
    for (state::AuditRow& row : shown.audit) {
        row.before = is_secret(row.subject) && !row.before.empty() ? std::string(kHidden)
                                                                   : without_secrets(row.before);
        row.after = is_secret(row.subject) && !row.after.empty() ? std::string(kHidden)
                                                                 : without_secrets(row.after);
    }
    auto stored = store_.commit(shown);
    metrics::registry()
        .counter("loxilb_persist_total", "Configuration changes written to the store.",
                 {{"result", stored ? "ok" : "error"}})
        .add();
    if (!stored) {
        log::error("configuration change not stored", {{"why", stored.error().what}});
    }
    const std::lock_guard lock(mu_);
    persist_error_ = stored ? std::string() : stored.error().what;
    return stored;
}

Persisted RuleBook::last_persist() const {
    const state::Marks marks = store_.marks();
    const std::lock_guard lock(mu_);
    return {marks.changed_us, marks.generation, persist_error_};
}

Persisted RuleBook::last_restore() const {
    const state::Marks marks = store_.marks();
    return {marks.restored_us, 0, {}};
}

}  // namespace sluice::rules
