// What the daemon was told: flags over the configuration file over built-in values.
//
// Threads: main, at start and reload.
// Errors:  a bad value names its source (the flag, or file, line and key) and what is allowed;
//          an unknown key or section is refused too.
// Source:  the operator's page of configuration, README.md; every key is also a flag.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/log.hpp"
#include "core/base/result.hpp"

namespace sluice::app {

struct Settings {
    std::string config_file;  // empty: none was there
    std::string api_host = "127.0.0.1";
    std::uint16_t api_port = 11111;
    std::string api_token_file;
    std::string state_file = "/var/lib/sluice/sluice.db";
    std::string tokenizers_dir = "/var/lib/sluice/tokenizers";
    std::vector<std::string> plugin_dirs;  // after the default ones
    unsigned workers = 0;                  // 0: one a core
    std::string io = "auto";
    std::uint32_t drain_timeout_sec = 30;
    log::Level log_level = log::Level::Info;
    std::map<std::string, std::string> rule_defaults;  // [rules]
    bool check_only = false;
    bool show_help = false;
    bool show_version = false;
};

// `arguments` without the program's name.
Result<Settings> read_settings(const std::vector<std::string>& arguments);
std::string usage_text();

}  // namespace sluice::app
