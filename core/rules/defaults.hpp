// What a rule gets where it says nothing: the process's environment, else the configuration file's
// [rules] section, else the built-in value of the field table.
//
// Threads: any (immutable after from()).
// Errors:  from() refuses a value the field itself would refuse, naming the variable or the key.
// Source:  the routing contract's environment names; the field table holds name, range, default.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace sluice::rules {

class Defaults {
public:
    // The built-in values only.
    Defaults() = default;

    using Lookup = std::function<std::optional<std::string>(std::string_view name)>;
    // `environment` is asked for variable names; `config` holds field names of [rules], e.g.
    // "kvMinMatchTokens" or "timeouts.connect_ms".
    static Result<Defaults> from(const Lookup& environment,
                                 const std::map<std::string, std::string>& config);

    // JSON text of the process default; empty where only the built-in value stands.
    std::optional<std::string> value(std::string_view field) const;
    // kvReplayPort is kvZmqPort plus this; 0 = no replay unless a rule gives a port.
    std::uint32_t replay_port_offset() const noexcept { return replay_port_offset_; }

private:
    std::map<std::string, std::string, std::less<>> values_;
    std::uint32_t replay_port_offset_ = 1000;
};

}  // namespace sluice::rules
