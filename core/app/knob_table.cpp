#include "core/app/knob_table.hpp"

#include <algorithm>
#include <charconv>

#include "core/admin/origins.hpp"
#include "core/net/address.hpp"

namespace sluice::app {
namespace {

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

// Empty: an empty part.
std::vector<std::string> parts_of(const std::string& text, char separator) {
    std::vector<std::string> out;
    std::size_t at = 0;
    while (at <= text.size()) {
        const std::size_t end = std::min(text.find(separator, at), text.size());
        std::string part = text.substr(at, end - at);
        const std::size_t first = part.find_first_not_of(" \t");
        if (first == std::string::npos) {
            return {};
        }
        part = part.substr(first, part.find_last_not_of(" \t") - first + 1);
        out.push_back(std::move(part));
        at = end + 1;
    }
    return out;
}

std::string joined(const std::vector<std::string>& parts, char separator) {
    std::string out;
    for (const std::string& part : parts) {
        out += (out.empty() ? "" : std::string(1, separator)) + part;
    }
    return out;
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

std::string show_listen(const Settings& s) {
    const auto address = net::Address::parse_ip(s.api_host, s.api_port);
    return address ? address->format() : s.api_host;
}

bool set_plugins(Settings& s, const std::string& text) {
    std::vector<std::string> parts = parts_of(text, ':');
    const bool is_good = !parts.empty();
    std::move(parts.begin(), parts.end(), std::back_inserter(s.plugin_dirs));
    return is_good;
}

bool set_metrics(Settings& s, const std::string& text) {
    s.api_metrics = text == "open"    ? admin::MetricsAccess::Open
                    : text == "token" ? admin::MetricsAccess::Token
                                      : admin::MetricsAccess::Off;
    return text == "open" || text == "token" || text == "off";
}

std::string show_metrics(const Settings& s) {
    switch (s.api_metrics) {
        case admin::MetricsAccess::Open:
            return "open";
        case admin::MetricsAccess::Token:
            return "token";
        case admin::MetricsAccess::Off:
            break;
    }
    return "off";
}

bool set_names(Settings& s, const std::string& text) {
    s.api_names = parts_of(text, ',');
    return !s.api_names.empty() &&
           std::all_of(s.api_names.begin(), s.api_names.end(), [](const std::string& name) {
               return name.find_first_of(":/*@[] ") == std::string::npos;
           });
}

bool set_origins(Settings& s, const std::string& text) {
    s.api_cors_origins = parts_of(text, ',');
    for (std::string& one : s.api_cors_origins) {
        auto origin = admin::canonical_origin(one);
        if (!origin) {
            return false;
        }
        one = std::move(*origin);
    }
    return !s.api_cors_origins.empty() && s.api_cors_origins.size() <= admin::kMaxOrigins;
}

constexpr Knob kKnobs[] = {
    {"api-listen", "api", "listen", "HOST:PORT", "where the management interface listens",
     "a numeric IP and a port, e.g. 127.0.0.1:11111 or [::1]:11111", true, set_listen, show_listen},
    {"api-token-file", "api", "token_file", "FILE", "lines `name role token`, mode 0600", "a path",
     false, [](Settings& s, const std::string& v) { return set_text(s.api_token_file, v); },
     [](const Settings& s) {
         return s.api_token_file;
     }},
    {"api-metrics", "api", "metrics", "WHO", "who may read /metrics: open, token or off",
     "open, token, off", false, set_metrics, show_metrics},
    {"api-names", "api", "names", "NAMES",
     "host names under which the interface may be asked without tokens",
     "host names separated by ','", false, set_names,
     [](const Settings& s) {
         return joined(s.api_names, ',');
     }},
    {"api-cors-origins", "api", "cors_origins", "ORIGINS",
     "web pages of these origins may use the interface",
     "origins separated by ',', each http://HOST[:PORT] or https://HOST[:PORT]", false, set_origins,
     [](const Settings& s) {
         return joined(s.api_cors_origins, ',');
     }},
    {"state", "state", "path", "FILE", "the database of rules", "a path", true,
     [](Settings& s, const std::string& v) { return set_text(s.state_file, v); },
     [](const Settings& s) {
         return s.state_file;
     }},
    {"tokenizers", "tokenizers", "path", "DIR", "one directory a model below it", "a path", true,
     [](Settings& s, const std::string& v) { return set_text(s.tokenizers_dir, v); },
     [](const Settings& s) {
         return s.tokenizers_dir;
     }},
    {"plugins", "plugins", "path", "DIR", "more plugin directories, may be repeated",
     "paths separated by ':'", true, set_plugins,
     [](const Settings& s) {
         return joined(s.plugin_dirs, ':');
     }},
    {"workers", "data", "workers", "N", "event loops; 0 = one a core", "0..256", true,
     [](Settings& s, const std::string& v) { return number(v, 0U, 256U, s.workers); },
     [](const Settings& s) {
         return std::to_string(s.workers);
     }},
    {"io", "data", "io", "HOW", "auto or epoll", "auto, epoll (uring is not in this build)", true,
     [](Settings& s, const std::string& v) {
         s.io = v;
         return v == "auto" || v == "epoll";
     },
     [](const Settings& s) {
         return s.io;
     }},
    {"drain-timeout", "data", "drain_timeout", "S", "seconds requests get to finish on SIGTERM",
     "0..86400", false,
     [](Settings& s, const std::string& v) {
         return number(v, std::uint32_t{0}, std::uint32_t{86400}, s.drain_timeout_sec);
     },
     [](const Settings& s) {
         return std::to_string(s.drain_timeout_sec);
     }},
    {"max-prefill-reply", "data", "max_prefill_reply", "BYTES",
     "of a prefill reply that are kept for the hand-off", "65536..1073741824", true,
     [](Settings& s, const std::string& v) {
         return number(v, std::uint32_t{65536}, std::uint32_t{1} << 30U, s.max_prefill_reply);
     },
     [](const Settings& s) {
         return std::to_string(s.max_prefill_reply);
     }},
    {"log-level", "log", "level", "L", "error, warn, info or debug", "error, warn, info, debug",
     false,
     [](Settings& s, const std::string& v) {
         const auto level = log::level_from(v);
         s.log_level = level.value_or(s.log_level);
         return level.has_value();
     },
     [](const Settings& s) {
         return std::string(log::to_string(s.log_level));
     }},
};

}  // namespace

std::span<const Knob> knobs() {
    return kKnobs;
}

}  // namespace sluice::app
