// A change of many rules between its checks and its transaction; RuleBook's own.
//
// Threads: control, under RuleBook's change lock.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/rules/rule_book.hpp"
#include "state/state.hpp"

namespace sluice::rules {

struct RuleBook::BulkPlan {
    struct Item {
        std::size_t index = 0;
        RulePtr next;
        RulePtr previous;  // empty for a rule that is not in force now
        std::vector<Warning> warnings;
        std::uint32_t next_ep_idx = 0;
    };

    std::string action;  // of the audit row that sums up
    bool is_restore = false;
    bool is_whole = false;  // what is not named is deleted
    std::vector<Item> items;
    std::vector<RulePtr> kept;      // of the next table, as they are
    std::set<std::uint32_t> named;  // numbers that stay, whether in force or dormant
    std::set<RuleKey> keys;
    std::set<std::string> ids;
    std::map<std::string, std::string> settings;
    std::vector<std::string> dropped_settings;
    state::Counters counters;  // what comes next
    // Of a restore.
    const state::Contents* wanted = nullptr;
    state::Marks now;
    state::Counters counters_now;

    Bulk report;

    void refuse(std::size_t index, const std::string& id, const std::string& name, Refusal why) {
        report.refused.push_back({index, id, name, std::move(why)});
    }
    // False: the rule was refused, another one of the document has its key or id.
    bool claim(std::size_t index, const Rule& rule);
};

// Whether both give every endpoint the same identity.
bool has_same_identities(const Rule& a, const Rule& b);

}  // namespace sluice::rules
