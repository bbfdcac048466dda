#include "core/app/settings.hpp"

#include <Poco/Exception.h>
#include <Poco/Util/HelpFormatter.h>
#include <Poco/Util/Option.h>
#include <Poco/Util/OptionException.h>
#include <Poco/Util/OptionProcessor.h>
#include <Poco/Util/OptionSet.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>

#include "core/app/ini.hpp"
#include "core/app/knob_table.hpp"

namespace sluice::app {

const char* const kVersion = "0.1.0";

namespace {

constexpr const char* kDefaultFile = "/etc/sluice/sluice.conf";

Poco::Util::OptionSet option_set() {
    using Poco::Util::Option;
    Poco::Util::OptionSet out;
    out.addOption(Option("config", "", "configuration file").argument("FILE"));
    for (const Knob& knob : knobs()) {
        out.addOption(Option(knob.flag, "", knob.help).repeatable(true).argument(knob.argument));
    }
    out.addOption(Option(kRuleFlag, "", "what rules get that do not say a field, may be repeated")
                      .repeatable(true)
                      .argument("NAME=VALUE"));
    out.addOption(Option("check", "", "check everything a start needs, then exit"));
    out.addOption(Option("version", "", "say the version"));
    out.addOption(Option("help", "", "say this"));
    return out;
}

Error not_allowed(const std::string& where, const std::string& value, std::string_view allowed) {
    return Error{Code::Invalid,
                 where + ": \"" + value + "\" is not allowed; allowed: " + std::string(allowed)};
}

struct Flag {
    std::string name, value;
};

// Poco's exceptions end here.
Result<std::vector<Flag>> read_flags(const std::vector<std::string>& arguments) {
    std::vector<Flag> out;
    try {
        const Poco::Util::OptionSet options = option_set();
        Poco::Util::OptionProcessor processor(options);
        processor.setUnixStyle(true);
        for (std::size_t i = 0; i < arguments.size(); ++i) {
            std::string argument = arguments[i];
            // "--flag value" as well as "--flag=value".
            const bool is_flag = argument.starts_with("--");
            const bool has_value = argument.find('=') != std::string::npos;
            if (!is_flag) {
                return Error{Code::Invalid, "unexpected argument: " + argument};
            }
            const std::string name = argument.substr(2, argument.find('=') - 2);
            if (!has_value && options.hasOption(name, false) &&
                options.getOption(name, false).takesArgument() && i + 1 < arguments.size()) {
                argument += "=" + arguments[++i];
            }
            Flag flag;
            processor.process(argument, flag.name, flag.value);
            out.push_back(std::move(flag));
        }
        processor.checkRequired();
    } catch (const Poco::Exception& e) {
        return Error{Code::Invalid, e.displayText()};
    }
    return out;
}

// A default of [rules] must be one that its field takes.
Status take_default(const std::string& where, const std::string& name, const std::string& value,
                    Settings& out) {
    const auto nothing = [](std::string_view) -> std::optional<std::string> {
        return std::nullopt;
    };
    if (const auto judged = rules::Defaults::from(nothing, {{name, value}}); !judged) {
        return Error{Code::Invalid, where + ": " + judged.error().what};
    }
    out.rule_defaults[name] = value;
    return {};
}

std::string known_sections() {
    std::string out;
    for (const Knob& knob : knobs()) {
        const std::string name = "[" + std::string(knob.section) + "]";
        if (out.find(name) == std::string::npos) {
            out += name + " ";
        }
    }
    return out + "[" + kRuleSection + "]";
}

std::string known_keys(const std::string& section) {
    std::string out;
    for (const Knob& knob : knobs()) {
        if (section == knob.section) {
            out += (out.empty() ? "" : ", ") + std::string(knob.key);
        }
    }
    return out;
}

Status apply_file(const std::string& path, Settings& out) {
    const auto file = read_ini(path);
    if (!file) {
        return file.error();
    }
    const auto at = [&path](std::uint32_t line) {
        return path + ":" + std::to_string(line) + ": ";
    };
    for (const IniSection& section : file->sections) {
        if (section.name != kRuleSection && known_keys(section.name).empty()) {
            return Error{Code::Invalid, at(section.line) + "[" + section.name +
                                            "]: no such section; there are " + known_sections()};
        }
    }
    for (const IniEntry& entry : file->entries) {
        const std::string where = at(entry.line) + "[" + entry.section + "] " + entry.key;
        if (entry.section == kRuleSection) {
            if (Status taken = take_default(where, entry.key, entry.value, out); !taken) {
                return taken;
            }
            continue;
        }
        const auto all = knobs();
        const auto found = std::find_if(all.begin(), all.end(), [&entry](const Knob& knob) {
            return entry.section == knob.section && entry.key == knob.key;
        });
        if (found == all.end()) {
            return Error{Code::Invalid,
                         where + ": no such key; there are " + known_keys(entry.section)};
        }
        if (!found->set(out, entry.value)) {
            return not_allowed(where, entry.value, found->allowed);
        }
    }
    return {};
}

Status apply_flag(const Flag& flag, Settings& out) {
    const std::string where = "--" + flag.name;
    if (flag.name == "check") {
        out.check_only = true;
    } else if (flag.name == "version") {
        out.show_version = true;
    } else if (flag.name == "help") {
        out.show_help = true;
    } else if (flag.name == kRuleFlag) {
        const std::size_t equals = flag.value.find('=');
        if (equals == std::string::npos) {
            return not_allowed(where, flag.value, "NAME=VALUE");
        }
        return take_default(where, flag.value.substr(0, equals), flag.value.substr(equals + 1),
                            out);
    }
    for (const Knob& knob : knobs()) {
        if (flag.name == knob.flag && !knob.set(out, flag.value)) {
            return not_allowed(where, flag.value, knob.allowed);
        }
    }
    return {};
}

}  // namespace

Result<Settings> read_settings(const std::vector<std::string>& arguments) {
    const auto flags = read_flags(arguments);
    if (!flags) {
        return flags.error();
    }
    Settings out;
    for (const Flag& flag : *flags) {
        if (flag.name == "config") {
            out.config_file = flag.value;
        }
    }
    std::error_code ignored;
    if (out.config_file.empty() && std::filesystem::exists(kDefaultFile, ignored)) {
        out.config_file = kDefaultFile;
    }
    if (!out.config_file.empty()) {
        if (Status read = apply_file(out.config_file, out); !read) {
            return std::move(read).error();
        }
    }
    for (const Flag& flag : *flags) {
        if (Status applied = apply_flag(flag, out); !applied) {
            return std::move(applied).error();
        }
    }
    return out;
}

std::string usage_text() {
    const Poco::Util::OptionSet options = option_set();
    Poco::Util::HelpFormatter formatter(options);
    formatter.setUnixStyle(true);
    formatter.setCommand("sluiced");
    formatter.setUsage("[flags]");
    formatter.setHeader(
        "LLM inference gateway. Flags win over the configuration file, by default " +
        std::string(kDefaultFile) + " if it is there.");
    std::ostringstream out;
    formatter.format(out);
    return out.str();
}

Result<rules::Defaults> rule_defaults(const Settings& settings) {
    const auto environment = [](std::string_view name) -> std::optional<std::string> {
        const char* value = std::getenv(std::string(name).c_str());
        return value == nullptr ? std::nullopt : std::optional<std::string>(value);
    };
    return rules::Defaults::from(environment, settings.rule_defaults);
}

admin::Config api_config(const Settings& settings) {
    admin::Config out;
    out.host = settings.api_host;
    out.port = settings.api_port;
    out.token_file = settings.api_token_file;
    out.version = kVersion;
    out.knobs = {settings.api_metrics, settings.api_names, settings.api_cors_origins,
                 settings.log_level};
    return out;
}

std::vector<Shown> shown(const Settings& settings) {
    std::vector<Shown> out;
    for (const Knob& knob : knobs()) {
        out.push_back({knob.section, knob.key, knob.show(settings), knob.needs_restart});
    }
    for (const auto& [name, value] : settings.rule_defaults) {
        out.push_back({kRuleSection, name, value, false});
    }
    return out;
}

}  // namespace sluice::app
