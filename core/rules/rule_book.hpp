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
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/base/snapshot.hpp"
#include "core/rules/table.hpp"

namespace sluice::state {
class Store;
}

namespace sluice::rules {

struct Refusal {
    int status = 400;
    std::string code;     // stable snake_case, e.g. "kv_zmq_port_unused"
    std::string field;    // as the operator spells it; may be empty
    std::string message;  // for people
    std::string allowed;  // may be empty
};

struct Warning {
    std::string code, field, message;
};

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
    // After the swap. Must not fail.
    virtual void applied(const std::shared_ptr<const Table>& table) = 0;
};

struct Outcome {
    std::optional<Refusal> refusal;
    std::vector<Warning> warnings;
    RulePtr rule;  // the rule in force afterwards; empty for a deletion
};

class RuleBook {
public:
    RuleBook(state::Store& store, Hooks& hooks);

    // Loads what is stored; a rule whose VIP cannot be bound stays (it is retried by its owner).
    Status load();

    std::shared_ptr<const Table> table() const { return table_.get(); }

    // POST /config/loadbalancer: creates, or replaces the rule of the same key. An identical body
    // is 409.
    Outcome put(std::string_view json, const Actor& actor);
    Outcome remove(const RuleKey& key, const Actor& actor);
    // Every rule of that name; 404 when there is none.
    Outcome remove_named(std::string_view name, const Actor& actor);
    Outcome remove_all(const Actor& actor);
    // Warnings given when the rule was last accepted.
    std::vector<Warning> warnings(std::uint32_t number) const;

private:
    Outcome commit(std::unique_lock<std::mutex> lock, std::vector<RulePtr> next_rules,
                   RulePtr changed, std::string_view action, const std::vector<RulePtr>& removed,
                   const Actor& actor, std::vector<Warning> warnings);

    state::Store& store_;
    Hooks& hooks_;
    mutable std::mutex mu_;
    Snapshot<Table> table_;
    std::map<std::uint32_t, std::vector<Warning>> warnings_;  // guarded by mu_
};

}  // namespace sluice::rules
