// What the daemon was told: flags over the configuration file over built-in values.
//
// Threads: main, at start and reload; a Settings is a value.
// Errors:  a bad value names its source (the flag, or file, line and key) and what is allowed;
//          an unknown key or section is refused too.
// Source:  docs/operations.md; every key is also a flag (knob_table.hpp).
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/admin/api_server.hpp"
#include "core/base/log.hpp"
#include "core/base/result.hpp"
#include "core/rules/defaults.hpp"

namespace sluice::app {

extern const char* const kVersion;

struct Settings {
    std::string config_file;  // empty: none was there
    std::string api_host = "127.0.0.1";
    std::uint16_t api_port = 11111;
    std::string api_token_file;
    admin::MetricsAccess api_metrics = admin::MetricsAccess::Open;
    std::vector<std::string> api_names;
    std::vector<std::string> api_cors_origins;
    std::string state_file = "/var/lib/sluice/sluice.db";
    std::string tokenizers_dir = "/var/lib/sluice/tokenizers";
    std::vector<std::string> plugin_dirs;  // after the default ones
    unsigned workers = 0;                  // 0: one a core
    std::string io = "auto";
    std::uint32_t drain_timeout_sec = 30;
    std::uint32_t max_prefill_reply = 16U << 20U;  // bytes
    log::Level log_level = log::Level::Info;
    std::map<std::string, std::string> rule_defaults;  // [rules]
    bool check_only = false;
    bool show_help = false;
    bool show_version = false;
};

// `arguments` without the program's name.
Result<Settings> read_settings(const std::vector<std::string>& arguments);
std::string usage_text();

// Of the environment and [rules].
Result<rules::Defaults> rule_defaults(const Settings& settings);
admin::Config api_config(const Settings& settings);

// A setting as an operator would write it. None of them is a secret: those are in files.
struct Shown {
    std::string section, key, value;
    bool needs_restart = false;  // a reload does not take it over
};
std::vector<Shown> shown(const Settings& settings);

// Directories in which plugins are looked for: beside the program when it runs from a build tree,
// the packages' and the local one, then the configuration's.
std::vector<std::string> plugin_directories(const Settings& settings);

// What would keep a start from going well, one a line; opens, binds and changes nothing that lasts.
std::vector<std::string> problems(const Settings& settings);

}  // namespace sluice::app
