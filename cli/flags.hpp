// Command-line flags of one verb: "--name value", "--name=value" and switches.
//
// Threads: main only.
// Errors:  Invalid with what the user should read: an unknown flag, a value missing or given twice.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace sluice::cli {

struct FlagSpec {
    std::string_view name;  // with the dashes
    bool takes_value = true;
};

class Flags {
public:
    // "--" ends the flags; what is no flag is a positional argument.
    static Result<Flags> parse(std::span<const std::string_view> args,
                               std::span<const FlagSpec> known);

    bool has(std::string_view name) const { return values_.contains(name); }
    std::optional<std::string_view> value(std::string_view name) const;
    const std::vector<std::string_view>& positional() const { return positional_; }

private:
    std::map<std::string_view, std::string_view> values_;
    std::vector<std::string_view> positional_;
};

}  // namespace sluice::cli
