// Runs a check in a child process, so that a crash or a hang is a result like any other.
//
// Threads: the caller must be the only thread of its process.
// Errors:  all become a failed Outcome. A child that wrote to its standard output or error fails:
//          plugins never do.
// Limits:  a time limit for each check, 8 KiB of an outcome's text.
#pragma once
#include <chrono>
#include <functional>

#include "sdk/check/outcome.hpp"

namespace sluice::check {

Outcome run_in_child(const std::function<Outcome()>& check, std::chrono::milliseconds limit);

}  // namespace sluice::check
