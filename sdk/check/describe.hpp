// The descriptors of a plugin file as JSON, for `--describe`.
//
// Threads: one.
#pragma once
#include <optional>
#include <string>

namespace sluice::check {

// Empty and `error` set when the file cannot be loaded or described.
std::optional<std::string> describe(const std::string& path, std::string& error);

}  // namespace sluice::check
