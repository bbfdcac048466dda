// What a start makes of the stored rules.
#include <algorithm>

#include "core/base/log.hpp"
#include "core/rules/auth_file.hpp"
#include "core/rules/rule_book.hpp"
#include "core/rules/stored.hpp"

namespace sluice::rules {
namespace {

bool is_same_endpoint(const EndpointSpec& spec, const std::string& ip, std::uint16_t port,
                      std::uint32_t role) {
    return spec.ip == ip && spec.port == port && spec.role == role;
}

Dormant dormant_of(const state::RuleRow& row, Refusal why) {
    Described known = described(row.body);
    return {row.number, row.id,        row.generation, std::move(known.key), std::move(known.name),
            row.body,   std::move(why)};
}

}  // namespace

Status RuleBook::load() {
    const std::lock_guard change(change_mu_);
    auto contents = store_.load();
    if (!contents) {
        return std::move(contents).error().at("stored rules");
    }
    next_rule_number_ = contents->counters.next_rule_number;
    next_endpoint_id_ = contents->counters.next_endpoint_id;
    std::vector<RulePtr> rules;
    std::vector<Dormant> sleepers;
    for (const state::RuleRow& row : contents->rules) {
        if (auto refusal = adopt(row, rules)) {
            log::error("stored rule is not in force",
                       {{"id", row.id}, {"code", refusal->code}, {"why", refusal->message}});
            sleepers.push_back(dormant_of(row, std::move(*refusal)));
        }
    }
    {
        const std::lock_guard lock(mu_);
        settings_.clear();
        settings_.insert(contents->settings.begin(), contents->settings.end());
        dormant_ = std::move(sleepers);
    }
    for (const auto& [name, value] : contents->settings) {
        hooks_.setting(name, value);
    }
    publish(std::move(rules));
    return {};
}

std::optional<Refusal> RuleBook::adopt(const state::RuleRow& row, std::vector<RulePtr>& rules) {
    Parsed parsed = parse_rule(row.body, defaults_, loaded());
    if (parsed.refusal) {
        return parsed.refusal;
    }
    Rule& rule = parsed.rule;
    rule.id = row.id;
    rule.number = row.number;
    rule.generation = row.generation;
    for (EndpointSpec& spec : rule.endpoints) {
        const auto known = std::find_if(row.endpoints.begin(), row.endpoints.end(),
                                        [&spec](const state::EndpointRow& e) {
                                            return is_same_endpoint(spec, e.ip, e.port, e.role);
                                        });
        if (known == row.endpoints.end()) {
            return Refusal{500,
                           "identity_lost",
                           "endpoints",
                           "endpoint " + spec.name() + " has no stored identity",
                           {}};
        }
        spec.id = known->id;
        spec.ep_idx = known->ep_idx;
    }
    std::sort(rule.endpoints.begin(), rule.endpoints.end(),
              [](const EndpointSpec& a, const EndpointSpec& b) { return a.ep_idx < b.ep_idx; });
    if (auto refusal = check_key_files(rule)) {
        parsed.warnings.push_back({refusal->code, refusal->field, refusal->message});
    }
    auto ptr = std::make_shared<const Rule>(std::move(rule));
    if (auto refusal = hooks_.prepare(ptr, nullptr, parsed.warnings)) {
        // An address may come back and its owner tries again; a probe that this machine cannot make
        // judges nobody. Anything else needs an operator.
        if (refusal->code != "listener_unavailable" && refusal->code != "republish_unavailable" &&
            refusal->code != "probe_impossible") {
            return refusal;
        }
        parsed.warnings.push_back({refusal->code, refusal->field, refusal->message});
    }
    next_ep_idx_[row.number] = row.next_ep_idx;
    {
        const std::lock_guard lock(mu_);
        warnings_[row.number] = std::move(parsed.warnings);
    }
    rules.push_back(std::move(ptr));
    return std::nullopt;
}

}  // namespace sluice::rules
