// What an operator switches on the running gateway and what survives a restart: maintenance and the
// log level.
//
// Threads: any.
// Errors:  set_*() gives the store's refusal; nothing has changed then.
// Source:  the management contract's /maintenance and /config/params.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/log.hpp"
#include "core/rules/rule_book.hpp"

namespace sluice::admin {

inline constexpr std::string_view kMaintenanceSetting = "maintenance";

struct Maintenance {
    bool is_on = false;
    std::uint64_t since_us = 0;           // wall clock
    std::uint64_t drain_timeout_sec = 0;  // 0: running requests have no deadline
};

// From the stored text; an unknown text is "off".
Maintenance parse_maintenance(std::string_view stored);
Maintenance maintenance(const rules::RuleBook& book);
std::optional<rules::Refusal> set_maintenance(rules::RuleBook& book, const Maintenance& value,
                                              const rules::Actor& actor);

// The nine words of the contract.
inline constexpr std::string_view kLevelWords =
    "trace|debug|info|error|warning|notice|critical|emergency|alert";
std::optional<log::Level> level_of_word(std::string_view word);
std::string_view word_of_level(log::Level level);

// The newest wins: what was switched holds until the configuration says another level than it did
// then.
struct LogSwitch {
    std::string word;
    log::Level level = log::Level::Info;
};
LogSwitch log_switch(const rules::RuleBook& book, log::Level configured);
std::optional<rules::Refusal> set_log_switch(rules::RuleBook& book, std::string_view word,
                                             log::Level configured, const rules::Actor& actor);

}  // namespace sluice::admin
