// Many rules in one transaction: an import, and what it shares with a restore.
#include <algorithm>

#include "core/base/clock.hpp"
#include "core/rules/auth_file.hpp"
#include "core/rules/bulk_plan.hpp"
#include "core/rules/edit.hpp"
#include "core/rules/secrets.hpp"
#include "core/rules/stored.hpp"

namespace sluice::rules {
namespace {

Refusal refused_as_a_whole(const Bulk& report) {
    Refusal out = report.refused.front().why;
    const std::size_t n = report.refused.size();
    out.message = std::to_string(n) + (n == 1 ? " rule was" : " rules were") +
                  " refused and nothing was changed; the first: " + out.message;
    return out;
}

}  // namespace

bool has_same_identities(const Rule& a, const Rule& b) {
    return std::equal(a.endpoints.begin(), a.endpoints.end(), b.endpoints.begin(),
                      b.endpoints.end(), [](const EndpointSpec& x, const EndpointSpec& y) {
                          return x.id == y.id && x.ep_idx == y.ep_idx && x.ip == y.ip &&
                                 x.port == y.port && x.role == y.role;
                      });
}

bool RuleBook::BulkPlan::claim(std::size_t index, const Rule& rule) {
    if (!keys.insert(rule.key).second) {
        refuse(index, rule.id, rule.name,
               {400, "key_given_twice", "", "another rule of the document has the same key", {}});
        return false;
    }
    if (!rule.id.empty() && !ids.insert(rule.id).second) {
        refuse(index, rule.id, rule.name,
               {409, "id_exists", "id", "another rule of the document has this id", {}});
        return false;
    }
    return true;
}

RuleBook::Turn RuleBook::begin_bulk(Bulk& out) {
    // One at a time, and the second is told so instead of waiting behind the first.
    if (is_restoring_.exchange(true)) {
        out.refusal = Refusal{503,
                              "restore_running",
                              "",
                              "a restore or an import is running; try again when it is done",
                              {}};
        return Turn(nullptr);
    }
    return Turn(&is_restoring_);
}

Bulk RuleBook::import(const std::vector<std::string>& bodies, bool is_whole, const Actor& actor) {
    Bulk out;
    const Turn mine = begin_bulk(out);
    if (out.refusal) {
        return out;
    }
    const ChangeLock change = begin_change();
    if (!change) {
        out.refusal = busy_refusal();
        return out;
    }
    // identify_*() read what comes next from the book; it is put back unless the change is made.
    const state::Counters before{next_rule_number_, next_endpoint_id_};
    BulkPlan plan;
    plan.action = "config.import";
    plan.is_whole = is_whole;
    for (std::size_t i = 0; i < bodies.size(); ++i) {
        plan_import(i, bodies[i], plan);
    }
    plan.counters = {next_rule_number_, next_endpoint_id_};
    next_rule_number_ = before.next_rule_number;
    next_endpoint_id_ = before.next_endpoint_id;
    return apply(std::move(plan), true, actor);
}

void RuleBook::plan_import(std::size_t index, const std::string& given, BulkPlan& plan) {
    std::string body = given;
    if (body.find(kHidden) != std::string::npos) {
        if (auto refusal = put_secrets_back(body, table()->by_key(described(body).key))) {
            plan.refuse(index, {}, {}, std::move(*refusal));
            return;
        }
    }
    Parsed parsed = parse_rule(body, defaults_, loaded());
    Rule& rule = parsed.rule;
    if (parsed.refusal) {
        plan.refuse(index, rule.id, rule.name, std::move(*parsed.refusal));
        return;
    }
    if (parsed.oper != 0) {
        plan.refuse(
            index, rule.id, rule.name,
            {400, "oper_in_document", "oper", "a document holds whole rules", "0 or absent"});
        return;
    }
    if (!plan.claim(index, rule)) {
        return;
    }
    const RulePtr previous = find(rule.key);
    // A rule of the document may be switched off; one that is off here stays so.
    auto unusable = rule.is_admin_up ? carry_over(rule, previous.get(), parsed.warnings)
                                     : check_key_files(rule);
    if (unusable) {
        plan.refuse(index, rule.id, rule.name, std::move(*unusable));
        return;
    }
    auto refusal = previous == nullptr ? identify_new(rule) : identify_successor(rule, *previous);
    if (refusal && refusal->code == "lbrule_exists") {
        plan.kept.push_back(previous);
        plan.named.insert(previous->number);
        return;
    }
    if (refusal) {
        plan.refuse(index, rule.id, rule.name, std::move(*refusal));
        return;
    }
    plan.ids.insert(rule.id);
    BulkPlan::Item item{index, nullptr, previous, std::move(parsed.warnings), 0};
    item.next_ep_idx = previous == nullptr ? 0 : next_ep_idx_[rule.number];
    for (const EndpointSpec& e : rule.endpoints) {
        item.next_ep_idx = std::max(item.next_ep_idx, e.ep_idx + 1);
        next_endpoint_id_ = std::max(next_endpoint_id_, e.id + 1);
    }
    next_rule_number_ = std::max(next_rule_number_, rule.number + 1);
    plan.named.insert(rule.number);
    item.next = std::make_shared<const Rule>(std::move(rule));
    plan.items.push_back(std::move(item));
}

std::optional<Refusal> RuleBook::put_secrets_back(std::string& body,
                                                  std::optional<std::size_t> known_at) const {
    auto document = Json::parse(body);
    if (!document) {
        return std::nullopt;  // the parser of rules says it better
    }
    std::optional<Json> known;
    if (known_at) {
        if (auto parsed = Json::parse(table()->rules()[*known_at]->json)) {
            known = std::move(*parsed);
        }
    }
    const std::string missing = fill_secrets(*document, known ? &*known : nullptr);
    if (!missing.empty()) {
        return Refusal{400, "secret_missing", missing,
                       "the document does not hold this secret and there is no rule here that does",
                       "the secret itself"};
    }
    body = document->dump();
    return std::nullopt;
}

Bulk RuleBook::apply(BulkPlan plan, bool commit, const Actor& actor) {
    Bulk& report = plan.report;
    report.unchanged = plan.named.size() - plan.items.size();
    const auto note = [&report](BulkChange::Kind kind, std::uint32_t number, const std::string& id,
                                const std::string& name, std::vector<Warning> warnings = {}) {
        report.changes.push_back({kind, number, id, name, std::move(warnings)});
    };
    state::Change change;
    std::string summary;
    const auto audit = [&](const char* action, const std::string& subject, std::string before,
                           std::string after) {
        change.audit.push_back({wall_us(), actor.name, actor.from, action, subject,
                                std::move(before), std::move(after)});
    };
    const auto now = table_.get();
    for (const RulePtr& rule : now->rules()) {
        if (plan.named.contains(rule->number)) {
            continue;
        }
        if (!plan.is_whole) {
            plan.kept.push_back(rule);
            continue;
        }
        change.deletes.push_back(rule->number);
        audit("rule.delete", rule->id, rule->json, "");
        note(BulkChange::Kind::Deleted, rule->number, rule->id, rule->name);
    }
    for (const Dormant& sleeper : dormant()) {
        if (!plan.named.contains(sleeper.number) &&
            (plan.is_whole || plan.keys.contains(sleeper.key))) {
            change.deletes.push_back(sleeper.number);
            audit("rule.delete", sleeper.id, sleeper.body, "");
            note(BulkChange::Kind::Deleted, sleeper.number, sleeper.id, sleeper.name);
        }
    }
    const std::size_t total = plan.kept.size() + plan.items.size();
    if (total > kMaxRules) {
        plan.refuse(0, {}, {},
                    {403, "rule_hwm", "",
                     "rule-hwm error: there would be " + std::to_string(total) + " rules",
                     "at most " + std::to_string(kMaxRules) + " rules"});
    }
    std::size_t prepared = 0;
    for (; prepared < plan.items.size() && report.refused.empty(); ++prepared) {
        BulkPlan::Item& item = plan.items[prepared];
        if (auto refusal = hooks_.prepare(item.next, item.previous, item.warnings)) {
            plan.refuse(item.index, item.next->id, item.next->name, std::move(*refusal));
            break;
        }
        const Rule& rule = *item.next;
        const bool is_new = item.previous == nullptr;
        change.upserts.push_back(row_of(rule, item.next_ep_idx));
        audit(is_new ? "rule.create" : "rule.replace", rule.id, is_new ? "" : item.previous->json,
              rule.json);
        note(is_new ? BulkChange::Kind::Created : BulkChange::Kind::Replaced, rule.number, rule.id,
             rule.name, item.warnings);
    }
    const auto give_up = [&] {
        for (std::size_t i = 0; i < prepared; ++i) {
            hooks_.abandoned(plan.items[i].next);
        }
    };
    if (!report.refused.empty()) {
        give_up();
        report.refusal = refused_as_a_whole(report);
        report.changes.clear();
        return std::move(report);
    }
    for (const auto& [name, value] : plan.settings) {
        report.settings.push_back(name);
        audit("setting.set", name, setting(name).value_or(""), value);
    }
    for (const std::string& name : plan.dropped_settings) {
        report.settings.push_back(name);
        audit("setting.unset", name, setting(name).value_or(""), "");
    }
    if (!commit) {
        give_up();
        return std::move(report);
    }
    const bool has_work = !report.changes.empty() || !report.settings.empty() || plan.is_restore;
    if (!has_work) {
        report.is_committed = true;
        return std::move(report);
    }
    audit(plan.action.c_str(), "config", "",
          Json(Json::Object{{"changed", plan.items.size()},
                            {"deleted", change.deletes.size()},
                            {"unchanged", report.unchanged},
                            {"settings", report.settings.size()}})
              .dump());
    change.counters = plan.counters;
    change.settings = plan.settings;
    change.dropped_settings = plan.dropped_settings;
    change.is_restore = plan.is_restore;
    change.is_verified = true;
    if (auto stored = persist(change); !stored) {
        give_up();
        report.refusal = store_refusal(stored.error());
        report.changes.clear();
        return std::move(report);
    }
    report.is_committed = true;
    Bulk done = std::move(report);
    take_over(std::move(plan), change);
    return done;
}

void RuleBook::take_over(BulkPlan plan, const state::Change& change) {
    next_rule_number_ = plan.counters.next_rule_number;
    next_endpoint_id_ = plan.counters.next_endpoint_id;
    for (const std::uint32_t number : change.deletes) {
        next_ep_idx_.erase(number);
    }
    std::vector<RulePtr> rules = std::move(plan.kept);
    {
        const std::lock_guard lock(mu_);
        for (const std::uint32_t number : change.deletes) {
            warnings_.erase(number);
        }
        for (BulkPlan::Item& item : plan.items) {
            const std::uint32_t number = item.next->number;
            warnings_[number] = std::move(item.warnings);
            next_ep_idx_[number] = item.next_ep_idx;
            rules.push_back(item.next);
        }
        std::erase_if(dormant_, [&](const Dormant& d) {
            const bool is_back =
                std::any_of(plan.items.begin(), plan.items.end(),
                            [&d](const auto& i) { return i.next->number == d.number; });
            return is_back || std::find(change.deletes.begin(), change.deletes.end(), d.number) !=
                                  change.deletes.end();
        });
        for (const std::string& name : plan.dropped_settings) {
            settings_.erase(name);
        }
        for (const auto& [name, value] : plan.settings) {
            settings_.insert_or_assign(name, value);
        }
    }
    for (const std::string& name : plan.dropped_settings) {
        hooks_.setting(name, "");
    }
    for (const auto& [name, value] : plan.settings) {
        hooks_.setting(name, value);
    }
    std::sort(rules.begin(), rules.end(),
              [](const RulePtr& a, const RulePtr& b) { return a->number < b->number; });
    publish(std::move(rules));
}

}  // namespace sluice::rules
