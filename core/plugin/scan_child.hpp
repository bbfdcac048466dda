// Describes a plugin file in a child process, so that a file that crashes or hangs when it is
// loaded takes nothing with it.
//
// Threads: control (blocks for up to kScanLimit).
// Errors:  Invalid: the checker found the file unusable or died over it; Timeout; Io: no child
//          could be started, which says nothing about the file.
// Limits:  kScanLimit (a start of a busy machine is no fault of the file's), 1 MiB of output; the
//          child is killed beyond either.
#pragma once
#include <chrono>
#include <string>

#include "core/base/result.hpp"

namespace sluice::plugin {

inline constexpr std::chrono::milliseconds kScanLimit{20'000};

// Runs `checker --describe path`; what it wrote to its standard output.
Result<std::string> describe_in_child(const std::string& checker, const std::string& path,
                                      std::chrono::milliseconds limit = kScanLimit);

// `sluice-plugin-check` beside the running program; empty when there is none.
std::string find_checker();

}  // namespace sluice::plugin
