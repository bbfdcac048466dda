// What other process defaults make of the rules in force.
#include "core/rules/rule_book.hpp"

namespace sluice::rules {

std::optional<Refusal> RuleBook::set_defaults(Defaults next) {
    const std::lock_guard change(change_mu_);
    std::vector<RulePtr> rules = table()->rules();
    std::vector<RulePtr> prepared;
    std::map<std::uint32_t, std::vector<Warning>> warnings;
    const auto refused = [&](Refusal refusal, const Rule& rule) {
        for (const RulePtr& one : prepared) {
            hooks_.abandoned(one);
        }
        refusal.message = "rule " + rule.id + " would not be accepted: " + refusal.message;
        return refusal;
    };
    for (RulePtr& rule : rules) {
        Parsed parsed = parse_rule(rule->json, next, loaded());
        if (parsed.refusal) {
            return refused(std::move(*parsed.refusal), *rule);
        }
        if (parsed.rule.effective == rule->effective) {
            continue;  // nothing of it changes, so it is not touched
        }
        auto changed = std::make_shared<Rule>(std::move(parsed.rule));
        changed->id = rule->id;
        changed->number = rule->number;
        changed->generation = rule->generation;
        changed->endpoints = rule->endpoints;
        const RulePtr ready = std::move(changed);
        if (auto refusal = hooks_.prepare(ready, rule, parsed.warnings)) {
            return refused(std::move(*refusal), *rule);
        }
        prepared.push_back(ready);
        warnings[rule->number] = std::move(parsed.warnings);
        rule = ready;
    }
    defaults_ = std::move(next);
    if (prepared.empty()) {
        return std::nullopt;
    }
    {
        const std::lock_guard lock(mu_);
        for (auto& [number, list] : warnings) {
            warnings_[number] = std::move(list);
        }
    }
    publish(std::move(rules));
    return std::nullopt;
}

}  // namespace sluice::rules
