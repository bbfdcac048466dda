// What a snapshot holds, brought back without giving a number twice.
//
// A snapshot of this very database ("own") names numbers and endpoint ids that were given to the
// same rules and endpoints, so they come back. What was given since then is higher; where it is
// not known any more how high (the rule was deleted), the distance of the counters bounds it: every
// index of a new endpoint took an endpoint id, every change of a rule a generation of the store.
// A snapshot of another database keeps its numbers where none was given here, else gets new ones.
#include <algorithm>

#include "core/rules/auth_file.hpp"
#include "core/rules/bulk_plan.hpp"
#include "core/rules/secrets.hpp"
#include "core/rules/stored.hpp"

namespace sluice::rules {
namespace {

template <class N>
N gap(N now, N then) {
    return now > then ? now - then : N{0};
}

const state::EndpointRow* row_of_endpoint(const state::RuleRow& row, const EndpointSpec& spec) {
    for (const state::EndpointRow& e : row.endpoints) {
        if (e.ip == spec.ip && e.port == spec.port && e.role == spec.role) {
            return &e;
        }
    }
    return nullptr;
}

const EndpointSpec* find_same(const Rule& rule, const EndpointSpec& spec) {
    for (const EndpointSpec& e : rule.endpoints) {
        if (e.ip == spec.ip && e.port == spec.port && e.role == spec.role) {
            return &e;
        }
    }
    return nullptr;
}

std::optional<Refusal> check_identities(const Rule& rule, const state::RuleRow& row) {
    for (const EndpointSpec& spec : rule.endpoints) {
        if (row_of_endpoint(row, spec) == nullptr) {
            return Refusal{400,
                           "identity_lost",
                           "endpoints",
                           "the snapshot gives endpoint " + spec.name() + " no identity",
                           {}};
        }
    }
    if (row.endpoints.size() != rule.endpoints.size()) {
        return Refusal{400,
                       "identity_lost",
                       "endpoints",
                       "the snapshot names endpoints that the body has not",
                       {}};
    }
    return std::nullopt;
}

}  // namespace

Bulk RuleBook::restore(const state::Contents& wanted, bool commit, const Actor& actor) {
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
    BulkPlan plan;
    plan.action = "config.restore";
    plan.is_restore = true;
    plan.is_whole = true;
    plan.wanted = &wanted;
    plan.now = store_.marks();
    plan.counters_now = {next_rule_number_, next_endpoint_id_};
    plan.counters = {std::max(next_rule_number_, wanted.counters.next_rule_number),
                     std::max(next_endpoint_id_, wanted.counters.next_endpoint_id)};
    for (std::size_t i = 0; i < wanted.rules.size(); ++i) {
        plan_restore(i, wanted.rules[i], plan);
    }
    {
        const std::lock_guard lock(mu_);
        for (const auto& [name, value] : settings_) {
            if (!wanted.settings.contains(name)) {
                plan.dropped_settings.push_back(name);
            }
        }
        for (const auto& [name, value] : wanted.settings) {
            const auto it = settings_.find(name);
            if (it == settings_.end() || it->second != value) {
                plan.settings.emplace(name, value);
            }
        }
    }
    return apply(std::move(plan), commit, actor);
}

void RuleBook::plan_restore(std::size_t index, const state::RuleRow& row, BulkPlan& plan) {
    // A rule that was not in force and still is the same stays as it is.
    const auto sleepers = dormant();
    const auto sleeper = std::find_if(sleepers.begin(), sleepers.end(), [&row](const Dormant& d) {
        return d.number == row.number && d.id == row.id;
    });
    if (sleeper != sleepers.end() && without_secrets(sleeper->body) == without_secrets(row.body)) {
        plan.named.insert(row.number);
        return;
    }
    const auto known_at = table()->by_id(row.id);
    std::string body = row.body;
    if (body.find(kHidden) != std::string::npos) {
        if (auto refusal = put_secrets_back(body, known_at)) {
            plan.refuse(index, row.id, {}, std::move(*refusal));
            return;
        }
    }
    Parsed parsed = parse_rule(body, defaults_, loaded());
    Rule& rule = parsed.rule;
    rule.id = row.id;
    auto refusal = parsed.refusal ? parsed.refusal : check_identities(rule, row);
    if (!refusal) {
        refusal = check_key_files(rule);
    }
    if (refusal) {
        plan.refuse(index, row.id, rule.name, std::move(*refusal));
        return;
    }
    if (!plan.claim(index, rule)) {
        return;
    }
    RulePtr live = known_at ? table()->rules()[*known_at] : nullptr;
    if (live &&
        (live->number != row.number || live->key != rule.key || live->engine != rule.engine)) {
        live = nullptr;
    }
    BulkPlan::Item item{index, nullptr, live, std::move(parsed.warnings), 0};
    item.next_ep_idx = number_restored(rule, row, live, plan);
    if (live && live->json == rule.json && has_same_identities(*live, rule)) {
        plan.kept.push_back(live);
        return;
    }
    if (rule.number != row.number) {
        item.warnings.push_back(
            {"renumbered", "number",
             "number " + std::to_string(row.number) + " is another rule's here"});
    }
    item.next = std::make_shared<const Rule>(std::move(rule));
    plan.items.push_back(std::move(item));
}

std::uint32_t RuleBook::number_restored(Rule& rule, const state::RuleRow& row, const RulePtr& live,
                                        BulkPlan& plan) {
    const state::Contents& wanted = *plan.wanted;
    const bool is_own = wanted.marks.store_id == plan.now.store_id;
    const bool is_never_given = row.number >= plan.counters_now.next_rule_number;
    const bool is_taken =
        !live && (table()->by_number(row.number).has_value() || plan.named.contains(row.number));
    const bool keeps_number = !is_taken && (live || is_own || is_never_given);
    rule.number = keeps_number ? row.number : plan.counters.next_rule_number++;
    plan.named.insert(rule.number);

    std::uint32_t next_idx = row.next_ep_idx;
    rule.generation = row.generation;
    if (live) {
        next_idx = std::max(next_idx, next_ep_idx_[rule.number]);
        rule.generation = std::max(live->generation + 1, row.generation);
    } else if (keeps_number && !is_never_given) {
        next_idx += static_cast<std::uint32_t>(
            gap(plan.counters_now.next_endpoint_id, wanted.counters.next_endpoint_id));
        rule.generation += 1 + gap(plan.now.generation, wanted.marks.generation);
    }
    for (EndpointSpec& spec : rule.endpoints) {
        const state::EndpointRow& known = *row_of_endpoint(row, spec);
        spec.id = known.id;
        spec.ep_idx = known.ep_idx;
        if (is_own && keeps_number) {
            continue;
        }
        // The ids of another database mean something else here, unless nobody had them.
        const EndpointSpec* here = live ? find_same(*live, spec) : nullptr;
        const bool is_new_id = known.id >= plan.counters_now.next_endpoint_id;
        if (here != nullptr) {
            spec.id = here->id;
            spec.ep_idx = here->ep_idx;
        } else if (live) {
            spec.id = plan.counters.next_endpoint_id++;
            spec.ep_idx = next_idx++;
        } else if (!keeps_number || !is_new_id) {
            spec.id = plan.counters.next_endpoint_id++;
        }
    }
    std::sort(rule.endpoints.begin(), rule.endpoints.end(),
              [](const EndpointSpec& a, const EndpointSpec& b) { return a.ep_idx < b.ep_idx; });
    return next_idx;
}

}  // namespace sluice::rules
