// The file of the key that a rule sends to its engines: whether it can be used, and how a rule that
// names one is shown without naming it.
//
// Threads: control; check_auth_file() reads a file.
// Errors:  a Refusal with field and reason. The key itself never leaves check_auth_file().
// Limits:  a key has at most kMaxKeyBytes.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "core/rules/refusal.hpp"
#include "core/rules/secrets.hpp"

namespace sluice::rules {

inline constexpr std::size_t kMaxKeyBytes = 4096;

// A regular file for its owner alone (mode 0600 or less) with one line of printable characters.
std::optional<Refusal> check_auth_file(const std::string& path);

// kHidden was sent where there is nothing hidden.
Refusal hidden_path_unknown();

}  // namespace sluice::rules
