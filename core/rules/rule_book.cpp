#include "core/rules/rule_book.hpp"

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/base/random.hpp"
#include "core/rules/auth_file.hpp"
#include "core/rules/edit.hpp"
#include "core/rules/json_value.hpp"
#include "core/rules/stored.hpp"
#include "state/state.hpp"

namespace sluice::rules {
namespace {

Outcome refused(Refusal refusal) {
    Outcome out;
    out.refusal = std::move(refusal);
    return out;
}

bool is_same_endpoint(const EndpointSpec& spec, const std::string& ip, std::uint16_t port,
                      std::uint32_t role) {
    return spec.ip == ip && spec.port == port && spec.role == role;
}

// One line a change, with what an operator looks for. The audit has the bodies.
void log_change(const Rule* changed, const state::Change& change, const Actor& actor) {
    if (changed != nullptr) {
        log::info("rule stored", {{"id", changed->id},
                                  {"number", changed->number},
                                  {"generation", changed->generation},
                                  {"ip", changed->key.ip},
                                  {"port", changed->key.port},
                                  {"model", changed->key.model},
                                  {"endpoints", changed->endpoints.size()},
                                  {"by", actor.name},
                                  {"from", actor.from}});
        return;
    }
    constexpr std::size_t kMostNamed = 16;
    std::string ids;
    for (std::size_t i = 0; i < std::min(change.audit.size(), kMostNamed); ++i) {
        ids += (i == 0 ? "" : ",") + change.audit[i].subject;
    }
    log::info(
        "rules deleted",
        {{"count", change.deletes.size()}, {"ids", ids}, {"by", actor.name}, {"from", actor.from}});
}

}  // namespace

// A change that is valid, before it is stored.
struct RuleBook::Plan {
    std::vector<RulePtr> rules;  // of the next table
    const char* action = "";     // of `changed`, for the audit row
    RulePtr changed;             // empty for a deletion
    RulePtr previous;            // of `changed`; empty for a new rule
    std::vector<RulePtr> removed;
    std::vector<Dormant> removed_dormant;
    std::vector<Warning> warnings;
};

RuleBook::RuleBook(state::Store& store, Hooks& hooks, Defaults defaults)
    : store_(store), hooks_(hooks), defaults_(std::move(defaults)) {}

Outcome RuleBook::put(std::string_view json, const Actor& actor) {
    const ChangeLock change = begin_change();
    if (!change) {
        return refused(busy_refusal());
    }
    Parsed parsed = parse_rule(json, defaults_, loaded());
    if (parsed.refusal) {
        return refused(std::move(*parsed.refusal));
    }
    const RulePtr previous = find(parsed.rule.key);
    if (parsed.oper != 0) {
        return change_endpoints(parsed, previous, actor);
    }
    const std::optional<Rule> sleeper =
        previous == nullptr ? asleep(parsed.rule.key) : std::nullopt;
    const Rule* stored = sleeper ? &*sleeper : previous.get();
    if (auto refusal = carry_over(parsed.rule, stored, parsed.warnings)) {
        return refused(std::move(*refusal));
    }
    return replace(std::move(parsed), previous,
                   previous == nullptr ? "rule.create" : "rule.replace", actor);
}

RulePtr RuleBook::find(const RuleKey& key) const {
    const auto current = table();
    const auto at = current->by_key(key);
    return at ? current->rules()[*at] : nullptr;
}

Outcome RuleBook::replace(Parsed parsed, const RulePtr& previous, const char* action,
                          const Actor& actor) {
    Rule& rule = parsed.rule;
    if (rule.json.size() > Json::kMaxBytes) {
        return refused({413, "body_too_large", "", "the rule would be longer than allowed",
                        "at most " + std::to_string(Json::kMaxBytes) + " bytes"});
    }
    if (auto refusal =
            previous == nullptr ? identify_new(rule) : identify_successor(rule, *previous)) {
        return refused(std::move(*refusal));
    }
    Plan plan;
    plan.action = action;
    plan.previous = previous;
    plan.warnings = std::move(parsed.warnings);
    plan.rules = table()->rules();
    std::erase(plan.rules, previous);
    for (const Dormant& sleeper : dormant()) {
        if (sleeper.key == rule.key) {
            plan.removed_dormant.push_back(sleeper);
        }
    }
    warn_mixed_engines(rule, plan.warnings);
    plan.changed = std::make_shared<const Rule>(std::move(rule));
    plan.rules.push_back(plan.changed);
    if (auto refusal = hooks_.prepare(plan.changed, plan.previous, plan.warnings)) {
        return refused(std::move(*refusal));
    }
    return commit(std::move(plan), actor);
}

std::optional<Refusal> RuleBook::identify_successor(Rule& rule, const Rule& previous) {
    if (!rule.id.empty() && rule.id != previous.id) {
        return immutable("id", "the rule of this key has another id");
    }
    if (rule.json == previous.json) {
        return Refusal{409, "lbrule_exists", "", "lbrule-exists error: this very rule exists", {}};
    }
    if (auto field = changed_immutable(rule, previous)) {
        return immutable(*field, "lbrule-exist error: cant modify " + *field + " of a live rule");
    }
    rule.id = previous.id;
    rule.number = previous.number;
    rule.generation = previous.generation + 1;
    number_endpoints(rule, &previous);
    return std::nullopt;
}

std::optional<Refusal> RuleBook::identify_new(Rule& rule) {
    if (table()->rules().size() >= kMaxRules) {
        return Refusal{403, "rule_hwm", "",
                       "rule-hwm error: there are " + std::to_string(kMaxRules) + " rules already",
                       "at most " + std::to_string(kMaxRules) + " rules"};
    }
    if (rule.id.empty()) {
        rule.id = random_uuid();
    } else if (table()->by_id(rule.id)) {
        return Refusal{409, "id_exists", "id", "another rule has this id", {}};
    }
    rule.number = next_rule_number_;
    rule.generation = 1;
    number_endpoints(rule, nullptr);
    return std::nullopt;
}

// Same address, port and role: the same endpoint, with its id, its index and so its inventory.
// The counters advance in commit() only.
void RuleBook::number_endpoints(Rule& rule, const Rule* previous) {
    std::uint32_t next_idx = previous == nullptr ? 0 : next_ep_idx_[rule.number];
    std::uint64_t next_id = next_endpoint_id_;
    for (EndpointSpec& spec : rule.endpoints) {
        const EndpointSpec* known = nullptr;
        if (previous != nullptr) {
            for (const EndpointSpec& old : previous->endpoints) {
                known = is_same_endpoint(old, spec.ip, spec.port, spec.role) ? &old : known;
            }
        }
        spec.id = known == nullptr ? next_id++ : known->id;
        spec.ep_idx = known == nullptr ? next_idx++ : known->ep_idx;
    }
    std::sort(rule.endpoints.begin(), rule.endpoints.end(),
              [](const EndpointSpec& a, const EndpointSpec& b) { return a.ep_idx < b.ep_idx; });
}

void RuleBook::warn_mixed_engines(const Rule& rule, std::vector<Warning>& warnings) const {
    const auto now = table_.get();
    for (const RulePtr& other : now->rules()) {
        if (other->key.ip == rule.key.ip && other->key.port == rule.key.port &&
            other->engine != rule.engine) {
            warnings.push_back({"mixed_engines", "kvEngineType",
                                "rules of other engines share this address and port"});
            return;
        }
    }
}

Outcome RuleBook::commit(Plan plan, const Actor& actor) {
    state::Change change;
    std::uint32_t next_idx = 0;
    std::uint64_t next_id = next_endpoint_id_;
    const auto audit = [&](const char* action, const std::string& id, std::string before,
                           std::string after) {
        change.audit.push_back(
            {wall_us(), actor.name, actor.from, action, id, std::move(before), std::move(after)});
    };
    if (plan.changed != nullptr) {
        const Rule& rule = *plan.changed;
        next_idx = plan.previous == nullptr ? 0 : next_ep_idx_[rule.number];
        for (const EndpointSpec& e : rule.endpoints) {
            next_idx = std::max(next_idx, e.ep_idx + 1);
            next_id = std::max(next_id, e.id + 1);
        }
        change.upserts.push_back(row_of(rule, next_idx));
        change.counters = {std::max(next_rule_number_, rule.number + 1), next_id};
        audit(plan.action, rule.id,
              plan.previous == nullptr ? "" : without_secrets(plan.previous->json),
              without_secrets(rule.json));
    }
    for (const RulePtr& gone : plan.removed) {
        change.deletes.push_back(gone->number);
        audit("rule.delete", gone->id, without_secrets(gone->json), "");
    }
    for (const Dormant& gone : plan.removed_dormant) {
        change.deletes.push_back(gone.number);
        audit("rule.delete", gone.id, without_secrets(gone.body), "");
    }
    if (auto stored = persist(change); !stored) {
        if (plan.changed != nullptr) {
            hooks_.abandoned(plan.changed);
        }
        return refused(store_refusal(stored.error()));
    }
    if (change.counters) {
        next_rule_number_ = change.counters->next_rule_number;
        next_endpoint_id_ = change.counters->next_endpoint_id;
        next_ep_idx_[plan.changed->number] = next_idx;
    }
    for (const std::uint32_t number : change.deletes) {
        next_ep_idx_.erase(number);
    }
    {
        const std::lock_guard lock(mu_);
        for (const std::uint32_t number : change.deletes) {
            warnings_.erase(number);
            std::erase_if(dormant_, [number](const Dormant& d) { return d.number == number; });
        }
        if (plan.changed != nullptr) {
            warnings_[plan.changed->number] = plan.warnings;
        }
    }
    publish(std::move(plan.rules));
    log_change(plan.changed.get(), change, actor);
    return {std::nullopt, std::move(plan.warnings), std::move(plan.changed)};
}

void RuleBook::publish(std::vector<RulePtr> rules) {
    auto next = std::make_shared<const Table>(std::move(rules));
    table_.set(next);
    hooks_.applied(next);
}

Outcome RuleBook::remove_where(
    const std::function<bool(const RuleKey&, const std::string& name)>& is_one, Refusal when_none,
    const Actor& actor) {
    const ChangeLock change = begin_change();
    if (!change) {
        return refused(busy_refusal());
    }
    Plan plan;
    const auto now = table_.get();
    for (const RulePtr& rule : now->rules()) {
        (is_one(rule->key, rule->name) ? plan.removed : plan.rules).push_back(rule);
    }
    for (Dormant& sleeper : dormant()) {
        if (is_one(sleeper.key, sleeper.name)) {
            plan.removed_dormant.push_back(std::move(sleeper));
        }
    }
    if (plan.removed.empty() && plan.removed_dormant.empty()) {
        return when_none.status == 0 ? Outcome{} : refused(std::move(when_none));
    }
    return commit(std::move(plan), actor);
}

Outcome RuleBook::remove(const RuleKey& key, const Actor& actor) {
    return remove_where([&key](const RuleKey& k, const std::string&) { return k == key; },
                        {404, "no_rule", "", "no-rule error: no rule has this key", {}}, actor);
}

Outcome RuleBook::remove_named(std::string_view name, const Actor& actor) {
    return remove_where([name](const RuleKey&, const std::string& n) { return n == name; },
                        {404, "no_rule", "", "no-rule error: no rule has this name", {}}, actor);
}

Outcome RuleBook::remove_all(const Actor& actor) {
    return remove_where([](const RuleKey&, const std::string&) { return true; },
                        {0, {}, {}, {}, {}}, actor);
}

std::vector<Warning> RuleBook::warnings(std::uint32_t number) const {
    const std::lock_guard lock(mu_);
    const auto it = warnings_.find(number);
    return it == warnings_.end() ? std::vector<Warning>{} : it->second;
}

std::vector<Dormant> RuleBook::dormant() const {
    const std::lock_guard lock(mu_);
    return dormant_;
}

std::optional<Refusal> RuleBook::set(std::string_view name, std::string_view value,
                                     const Actor& actor) {
    const auto replace = [name, value](SettingEdit& edit) -> std::optional<Refusal> {
        edit.subject = name;
        edit.before = std::move(edit.value);
        edit.after = value;
        edit.value = value;
        return std::nullopt;
    };
    return edit_setting(name, replace, actor);
}

std::optional<Refusal> RuleBook::edit_setting(std::string_view name, const EditSetting& edit,
                                              const Actor& actor) {
    const ChangeLock change_lock = begin_change();
    if (!change_lock) {
        return busy_refusal();
    }
    SettingEdit next;
    next.value = setting(name).value_or("");
    if (auto refusal = edit(next)) {
        return refusal;
    }
    state::Change change;
    change.settings.emplace(name, next.value);
    change.audit.push_back({wall_us(), actor.name, actor.from, std::move(next.action),
                            std::move(next.subject), std::move(next.before),
                            std::move(next.after)});
    if (auto stored = persist(change); !stored) {
        return store_refusal(stored.error());
    }
    {
        const std::lock_guard lock(mu_);
        settings_.insert_or_assign(std::string(name), next.value);
    }
    hooks_.setting(name, next.value);
    return std::nullopt;
}

std::optional<std::string> RuleBook::setting(std::string_view name) const {
    const std::lock_guard lock(mu_);
    const auto it = settings_.find(name);
    return it == settings_.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace sluice::rules
