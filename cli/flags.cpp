#include "cli/flags.hpp"

#include <algorithm>

namespace sluice::cli {

Result<Flags> Flags::parse(std::span<const std::string_view> args,
                           std::span<const FlagSpec> known) {
    Flags out;
    for (std::size_t i = 0; i < args.size(); ++i) {
        const std::string_view arg = args[i];
        if (arg == "--") {
            out.positional_.insert(out.positional_.end(),
                                   args.begin() + static_cast<std::ptrdiff_t>(i) + 1, args.end());
            break;
        }
        if (arg.size() < 2 || arg[0] != '-') {
            out.positional_.push_back(arg);
            continue;
        }
        const std::size_t equals = arg.find('=');
        const std::string_view name = arg.substr(0, equals);
        const auto spec = std::ranges::find(known, name, &FlagSpec::name);
        if (spec == known.end()) {
            return Error{Code::Invalid, "unknown flag " + std::string(name)};
        }
        if (out.has(name)) {
            return Error{Code::Invalid, std::string(name) + " is given twice"};
        }
        std::string_view value;
        if (!spec->takes_value && equals != std::string_view::npos) {
            return Error{Code::Invalid, std::string(name) + " takes no value"};
        }
        if (spec->takes_value) {
            if (equals != std::string_view::npos) {
                value = arg.substr(equals + 1);
            } else if (i + 1 < args.size()) {
                value = args[++i];
            } else {
                return Error{Code::Invalid, std::string(name) + " needs a value"};
            }
        }
        out.values_.emplace(spec->name, value);
    }
    return out;
}

std::optional<std::string_view> Flags::value(std::string_view name) const {
    const auto at = values_.find(name);
    return at == values_.end() ? std::nullopt : std::optional(at->second);
}

}  // namespace sluice::cli
