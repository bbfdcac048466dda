// The files of keys that a rule names: whether they can be used, and how a rule that names one is
// shown without naming it.
//
// Threads: control; check_key_files() reads files.
// Errors:  a Refusal with field and reason. The key itself never leaves check_key_files().
// Limits:  a key has at most kMaxKeyBytes.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/rules/refusal.hpp"
#include "core/rules/rule.hpp"
#include "core/rules/secrets.hpp"

namespace sluice::rules {

inline constexpr std::size_t kMaxKeyBytes = 4096;

// A field that names one: backend_auth_file is sent to engines, trt_disagg_key_file signs what one
// engine hands to another.
struct KeyFileField {
    std::string_view name;
    std::string Rule::* path;  // empty = none
};
std::span<const KeyFileField> key_file_fields() noexcept;

// A regular file for its owner alone (mode 0600 or less) with one line of printable characters.
std::optional<Refusal> check_key_file(std::string_view field, const std::string& path);
// Of every file that the rule names; of those `previous` names as well nothing is asked.
std::optional<Refusal> check_key_files(const Rule& rule, const Rule* previous = nullptr);

// kHidden was sent where there is nothing hidden.
Refusal hidden_path_unknown(std::string_view field);

}  // namespace sluice::rules
