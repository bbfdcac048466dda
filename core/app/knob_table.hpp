// The table of what can be set, by flag and by key of the configuration file.
//
// Threads: any (constants).
#pragma once
#include <span>
#include <string>

#include "core/app/settings.hpp"

namespace sluice::app {

struct Knob {
    const char* flag;
    const char* section;  // of the file
    const char* key;
    const char* argument;  // shown in the help
    const char* help;
    const char* allowed;
    bool needs_restart;
    // False: the value is not allowed.
    bool (*set)(Settings&, const std::string&);
    std::string (*show)(const Settings&);
};

std::span<const Knob> knobs();

// The flag of [rules]: NAME=VALUE. The keys of the section are the rule fields with a default.
inline constexpr const char* kRuleFlag = "rule-default";
inline constexpr const char* kRuleSection = "rules";

}  // namespace sluice::app
