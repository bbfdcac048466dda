#include "core/app/settings.hpp"

#include <Poco/Exception.h>
#include <Poco/Util/HelpFormatter.h>
#include <Poco/Util/Option.h>
#include <Poco/Util/OptionException.h>
#include <Poco/Util/OptionProcessor.h>
#include <Poco/Util/OptionSet.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <functional>
#include <optional>
#include <sstream>

#include "core/app/ini.hpp"
#include "core/net/address.hpp"

namespace sluice::app {
namespace {

constexpr const char* kDefaultFile = "/etc/sluice/sluice.conf";

// One thing that can be set, by flag or by key.
struct Knob {
    const char* flag;
    const char* section;  // of the file
    const char* key;
    const char* argument;  // shown in the help
    const char* help;
    const char* allowed;
    // False: the value is not allowed.
    bool (*set)(Settings&, const std::string&);
};

template <class N>
bool number(const std::string& text, N least, N most, N& out) {
    N value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < least ||
        value > most) {
        return false;
    }
    out = value;
    return true;
}

bool set_text(std::string& out, const std::string& text) {
    out = text;
    return !text.empty();
}

bool set_listen(Settings& s, const std::string& text) {
    const auto address = net::Address::parse(text);
    if (!address) {
        return false;
    }
    s.api_host = address->ip();
    s.api_port = address->port();
    return true;
}

bool set_plugins(Settings& s, const std::string& text) {
    std::istringstream parts(text);
    std::string part;
    while (std::getline(parts, part, ':')) {
        if (part.empty()) {
            return false;
        }
        s.plugin_dirs.push_back(part);
    }
    return !text.empty();
}

constexpr std::array<Knob, 9> kKnobs = {{
    {"api-listen", "api", "listen", "HOST:PORT", "where the management interface listens",
     "a numeric IP and a port, e.g. 127.0.0.1:11111 or [::1]:11111", set_listen},
    {"api-token-file", "api", "token_file", "FILE", "lines `name role token`, mode 0600", "a path",
     [](Settings& s, const std::string& v) {
         return set_text(s.api_token_file, v);
     }},
    {"state", "state", "path", "FILE", "the database of rules", "a path",
     [](Settings& s, const std::string& v) {
         return set_text(s.state_file, v);
     }},
    {"tokenizers", "tokenizers", "path", "DIR", "one directory a model below it", "a path",
     [](Settings& s, const std::string& v) {
         return set_text(s.tokenizers_dir, v);
     }},
    {"plugins", "plugins", "path", "DIR", "more plugin directories, may be repeated",
     "paths separated by ':'", set_plugins},
    {"workers", "data", "workers", "N", "event loops; 0 = one a core", "0..256",
     [](Settings& s, const std::string& v) {
         return number(v, 0U, 256U, s.workers);
     }},
    {"io", "data", "io", "HOW", "auto, epoll or uring", "auto, epoll (uring is not in this build)",
     [](Settings& s, const std::string& v) {
         s.io = v;
         return v == "auto" || v == "epoll";
     }},
    {"drain-timeout", "data", "drain_timeout", "S", "seconds requests get to finish on SIGTERM",
     "0..86400",
     [](Settings& s, const std::string& v) {
         return number(v, std::uint32_t{0}, std::uint32_t{86400}, s.drain_timeout_sec);
     }},
    {"log-level", "log", "level", "L", "error, warn, info or debug", "error, warn, info, debug",
     [](Settings& s, const std::string& v) {
         const auto level = log::level_from(v);
         s.log_level = level.value_or(s.log_level);
         return level.has_value();
     }},
}};

Poco::Util::OptionSet option_set() {
    using Poco::Util::Option;
    Poco::Util::OptionSet out;
    out.addOption(Option("config", "", "configuration file").argument("FILE"));
    for (const Knob& knob : kKnobs) {
        out.addOption(Option(knob.flag, "", knob.help).repeatable(true).argument(knob.argument));
    }
    out.addOption(Option("check", "", "check flags and configuration, then exit"));
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

Status apply_file(const std::string& path, Settings& out) {
    const auto file = read_ini(path);
    if (!file) {
        return file.error();
    }
    for (const IniEntry& entry : *file) {
        const std::string where =
            path + ":" + std::to_string(entry.line) + ": [" + entry.section + "] " + entry.key;
        if (entry.section == "rules") {
            out.rule_defaults[entry.key] = entry.value;
            continue;
        }
        const Knob* found = nullptr;
        for (const Knob& knob : kKnobs) {
            if (entry.section == knob.section && entry.key == knob.key) {
                found = &knob;
            }
        }
        if (found == nullptr) {
            return Error{Code::Invalid, where + ": no such key"};
        }
        if (!found->set(out, entry.value)) {
            return not_allowed(where, entry.value, found->allowed);
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
        if (flag.name == "check") {
            out.check_only = true;
        } else if (flag.name == "version") {
            out.show_version = true;
        } else if (flag.name == "help") {
            out.show_help = true;
        }
        for (const Knob& knob : kKnobs) {
            if (flag.name == knob.flag && !knob.set(out, flag.value)) {
                return not_allowed("--" + flag.name, flag.value, knob.allowed);
            }
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

}  // namespace sluice::app
