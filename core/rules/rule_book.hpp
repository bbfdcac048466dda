// The one place where rules change: validate, ask those concerned, store, swap, tell.
//
// Order of a change (an acknowledged one survives kill -9, a refused one changed nothing):
//   parse + validate -> Hooks::prepare -> state store transaction (rule + audit row) -> Table swap
//   -> Hooks::applied.
//
// Threads: control; changes are serialised by a mutex that is held over the whole change (control
//          work only, no request waits for it). table() is any.
// Errors:  Refusal carries the HTTP status, a stable code, the field and what is allowed.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/base/snapshot.hpp"
#include "core/rules/bulk.hpp"
#include "core/rules/defaults.hpp"
#include "core/rules/parse.hpp"
#include "core/rules/refusal.hpp"
#include "core/rules/table.hpp"

namespace sluice::state {
class Store;
struct Change;
struct Contents;
struct RuleRow;
}  // namespace sluice::state

namespace sluice::rules {

// Who made a change, for the audit row.
struct Actor {
    std::string name;  // token name, or "local"
    std::string from;  // address
};

class Hooks {
public:
    virtual ~Hooks() = default;
    // May refuse (engine plugin's check, a VIP that cannot be bound). Everything it acquired for
    // `next` is kept until applied() or abandoned() is called for the same pointer.
    virtual std::optional<Refusal> prepare(const RulePtr& next, const RulePtr& previous,
                                           std::vector<Warning>& warnings) = 0;
    virtual void abandoned(const RulePtr& next) = 0;
    // A small durable value: every one that was stored before the first applied(), later each that
    // changes, after it is stored. Must not fail.
    virtual void setting(std::string_view /*name*/, std::string_view /*value*/) {}
    // After the swap. Must not fail.
    virtual void applied(const std::shared_ptr<const Table>& table) = 0;
    // Plugin ids and aliases that are loaded; a rule may name these only.
    virtual std::vector<std::string> engines() const { return {"vllm"}; }
    virtual std::vector<std::string> selectors() const { return {"rr", "lc"}; }
};

struct Persisted {
    std::uint64_t at_us = 0;       // since the epoch
    std::uint64_t generation = 0;  // of everything stored; grows with every change
    std::string error;             // of the last try; empty = it went well
};

struct Outcome {
    std::optional<Refusal> refusal;
    std::vector<Warning> warnings;
    RulePtr rule;  // the rule in force afterwards; empty for a deletion
};

// Stored, but not in force.
struct Dormant {
    std::uint32_t number = 0;
    std::string id;
    std::uint64_t generation = 0;
    RuleKey key;
    std::string name;
    std::string body;
    Refusal why;
};

class RuleBook {
public:
    static constexpr std::size_t kMaxRules = 2048;

    RuleBook(state::Store& store, Hooks& hooks, Defaults defaults = {});

    // Loads what is stored; a rule whose VIP cannot be bound stays (it is retried by its owner).
    // A stored body that is no longer accepted (its engine plugin is gone) stays stored, dormant.
    Status load();
    // The stored rules that load() could not put in force. They can be replaced and deleted.
    std::vector<Dormant> dormant() const;

    std::shared_ptr<const Table> table() const { return table_.get(); }

    // POST /config/loadbalancer: creates, or replaces the rule of the same key. An identical body
    // is 409. With oper 1 or 2 the body's endpoints are added to the rule or taken out of it, and
    // whatever else it names must be as the rule has it.
    Outcome put(std::string_view json, const Actor& actor);
    // PATCH: a merge patch over the stored body. One that changes nothing is ok and does nothing.
    Outcome patch(const RuleKey& key, std::string_view json, const Actor& actor);
    Outcome remove(const RuleKey& key, const Actor& actor);
    // Every rule of that name; 404 when there is none.
    Outcome remove_named(std::string_view name, const Actor& actor);
    Outcome remove_all(const Actor& actor);
    // Warnings given when the rule was last accepted.
    std::vector<Warning> warnings(std::uint32_t number) const;

    // Small durable values of the process, e.g. whether metrics are exposed; audited like rules.
    std::optional<Refusal> set(std::string_view setting, std::string_view value,
                               const Actor& actor);
    std::optional<std::string> setting(std::string_view name) const;
    // Reads a setting, lets `edit` change it and stores it, with no other change between. What
    // `edit` leaves in action, subject, before and after becomes the audit row.
    struct SettingEdit {
        std::string value;  // in: as stored, empty when it is not; out: to store
        std::string action = "setting.set";
        std::string subject;
        std::string before;
        std::string after;
    };
    using EditSetting = std::function<std::optional<Refusal>(SettingEdit& edit)>;
    std::optional<Refusal> edit_setting(std::string_view name, const EditSetting& edit,
                                        const Actor& actor);

    // A reload: rules that do not say a value get the new default, in place and without a new
    // generation. All of them, or none when one would not be accepted.
    std::optional<Refusal> set_defaults(Defaults next);

    // Everything at once, in one transaction: all of it or nothing. While one runs is_restoring()
    // is true and the interface refuses other changes.
    //
    // Brings back what a snapshot holds: its rules with their numbers and identities, its settings.
    // Without `commit` everything is checked and nothing changed. Numbers and endpoint ids given
    // since the snapshot are never given again; a snapshot of another database keeps its numbers
    // where none was given here.
    Bulk restore(const state::Contents& wanted, bool commit, const Actor& actor);
    // Puts every rule; those that are there already are left alone. With `is_whole` the rules that
    // are not among them are deleted.
    Bulk import(const std::vector<std::string>& bodies, bool is_whole, const Actor& actor);
    bool is_restoring() const noexcept { return is_restoring_.load(std::memory_order_relaxed); }

    // When the store was last written, and why not if it could not be.
    Persisted last_persist() const;
    // at_us 0: never. Without a generation.
    Persisted last_restore() const;
    // For reading what is stored: audit trail, snapshot, backup.
    state::Store& store() noexcept { return store_; }
    // How long a change waits for the one before it (5 s). Before the first change.
    void set_patience(std::chrono::milliseconds patience) noexcept { patience_ = patience; }

private:
    struct Plan;
    Outcome commit(Plan plan, const Actor& actor);
    Outcome remove_where(const std::function<bool(const RuleKey&, const std::string& name)>& is_one,
                         Refusal when_none, const Actor& actor);
    // In force; null when there is none.
    RulePtr find(const RuleKey& key) const;
    // What a POST carries over of the dormant rule of this key.
    std::optional<Rule> asleep(const RuleKey& key) const;
    // Identifies, prepares, stores and swaps. `previous` is null for a new rule.
    Outcome replace(Parsed parsed, const RulePtr& previous, const char* action, const Actor& actor);
    // oper 1 and 2.
    Outcome change_endpoints(const Parsed& asked, const RulePtr& previous, const Actor& actor);
    std::optional<Refusal> identify_new(Rule& rule);
    std::optional<Refusal> identify_successor(Rule& rule, const Rule& previous);
    void number_endpoints(Rule& rule, const Rule* previous);
    void warn_mixed_engines(const Rule& rule, std::vector<Warning>& warnings) const;
    std::optional<Refusal> adopt(const state::RuleRow& row, std::vector<RulePtr>& rules);
    // Not owned: the change before takes too long; refused with storage_busy.
    using ChangeLock = std::unique_lock<std::timed_mutex>;
    ChangeLock begin_change();
    struct BulkPlan;
    // Ends what begin_bulk() began.
    class Turn {
    public:
        explicit Turn(std::atomic<bool>* running) : running_(running) {}
        ~Turn() {
            if (running_ != nullptr) {
                running_->store(false);
            }
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

    private:
        std::atomic<bool>* running_;
    };
    Turn begin_bulk(Bulk& out);
    Bulk apply(BulkPlan plan, bool commit, const Actor& actor);
    void take_over(BulkPlan plan, const state::Change& change);
    void plan_import(std::size_t index, const std::string& body, BulkPlan& plan);
    void plan_restore(std::size_t index, const state::RuleRow& row, BulkPlan& plan);
    // Gives number, generation and identities; the answer is the rule's next ep_idx.
    std::uint32_t number_restored(Rule& rule, const state::RuleRow& row, const RulePtr& live,
                                  BulkPlan& plan);
    // From the rule in force at that place of the table.
    std::optional<Refusal> put_secrets_back(std::string& body,
                                            std::optional<std::size_t> known_at) const;
    // Takes secrets out of the audit rows first.
    Status persist(const state::Change& change);
    void publish(std::vector<RulePtr> rules);
    Loaded loaded() const { return {hooks_.engines(), hooks_.selectors()}; }

    state::Store& store_;
    Hooks& hooks_;
    // Held over a whole change, so changes are one after the other. Who waits for it too long is
    // told so: a disk that hangs does not take the interface's threads with it.
    std::timed_mutex change_mu_;
    std::chrono::milliseconds patience_{5000};
    Defaults defaults_;  // guarded by change_mu_
    Snapshot<Table> table_;
    std::atomic<bool> is_restoring_{false};
    mutable std::mutex mu_;
    std::string persist_error_;                                 // guarded by mu_
    std::map<std::uint32_t, std::vector<Warning>> warnings_;    // guarded by mu_
    std::map<std::string, std::string, std::less<>> settings_;  // guarded by mu_
    std::vector<Dormant> dormant_;                              // guarded by mu_
    std::map<std::uint32_t, std::uint32_t> next_ep_idx_;        // by rule; guarded by change_mu_
    std::uint32_t next_rule_number_ = 1;                        // guarded by change_mu_
    std::uint64_t next_endpoint_id_ = 1;                        // guarded by change_mu_
};

}  // namespace sluice::rules
