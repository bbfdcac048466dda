// A store in memory and hooks that remember, for tests of what stands on them.
#pragma once
#include <algorithm>
#include <map>

#include "core/rules/rule_book.hpp"
#include "state/state.hpp"

namespace sluice::test {

class MemoryStore final : public state::Store {
public:
    Result<state::Contents> load() override {
        state::Contents out;
        for (const auto& [number, row] : rules) {
            out.rules.push_back(row);
        }
        out.counters = counters;
        out.settings = settings;
        out.marks = now;
        return out;
    }
    Status commit(const state::Change& change) override {
        if (fail_with) {
            return *fail_with;
        }
        for (const std::uint32_t number : change.deletes) {
            rules.erase(number);
        }
        for (const state::RuleRow& row : change.upserts) {
            rules[row.number] = row;
        }
        if (change.counters) {
            counters = *change.counters;
        }
        for (const std::string& name : change.dropped_settings) {
            settings.erase(name);
        }
        for (const auto& [name, value] : change.settings) {
            settings[name] = value;
        }
        now.changed_us = ++now.generation;
        now.restored_us = change.is_restore ? now.changed_us : now.restored_us;
        trail.insert(trail.end(), change.audit.begin(), change.audit.end());
        ++commits;
        return {};
    }
    // Newest first, whatever the query.
    Result<std::vector<state::AuditRow>> audit(const state::AuditQuery&) override {
        if (fail_with) {
            return *fail_with;
        }
        return std::vector<state::AuditRow>(trail.rbegin(), trail.rend());
    }
    state::Marks marks() const override { return now; }
    Status persist() override {
        if (fail_with) {
            return *fail_with;
        }
        return {};
    }
    Result<std::string> backup() override {
        if (fail_with) {
            return *fail_with;
        }
        return std::string("backup");
    }

    // Everything, for "nothing has changed".
    std::string text() const {
        std::string out = std::to_string(counters.next_rule_number) + "/" +
                          std::to_string(counters.next_endpoint_id) + "\n";
        for (const auto& [number, row] : rules) {
            out += std::to_string(number) + " " + row.id + " " + std::to_string(row.generation) +
                   " " + row.body + " " + std::to_string(row.next_ep_idx) + "\n";
        }
        return out;
    }

    std::map<std::uint32_t, state::RuleRow> rules;
    state::Counters counters;
    std::map<std::string, std::string> settings;
    std::vector<state::AuditRow> trail;
    state::Marks now{"this-store"};
    int commits = 0;
    std::optional<Error> fail_with;
};

class RecordingHooks final : public rules::Hooks {
public:
    std::optional<rules::Refusal> prepare(const rules::RulePtr& next,
                                          const rules::RulePtr& previous,
                                          std::vector<rules::Warning>& warnings) override {
        log.push_back("prepare " + next->name +
                      (previous == nullptr ? "" : " over " + previous->name));
        if (warn) {
            warnings.push_back(*warn);
        }
        return refuse;
    }
    void abandoned(const rules::RulePtr& next) override {
        log.push_back("abandoned " + next->name);
    }
    void applied(const std::shared_ptr<const rules::Table>& table) override {
        log.push_back("applied " + std::to_string(table->rules().size()));
    }
    void setting(std::string_view name, std::string_view value) override {
        settings.emplace_back(name, value);
    }
    std::vector<std::string> engines() const override { return engine_names; }
    std::vector<std::string> selectors() const override { return {"rr", "lc", "wrr"}; }

    std::vector<std::string> log;
    std::vector<std::pair<std::string, std::string>> settings;
    std::optional<rules::Refusal> refuse;
    std::optional<rules::Warning> warn;
    std::vector<std::string> engine_names = {"vllm"};
};

}  // namespace sluice::test
