// One HTTP exchange with another simulator: a connection of its own, blocking.
//
// Threads: the caller's.
// Errors:  Code::Unavailable when nobody listens, Code::Io for anything else on the way.
// Limits:  kTimeoutS seconds a step.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace sluice::sim::http {

struct Answer {
    int status = 0;
    std::string body;
};
inline constexpr int kTimeoutS = 5;

Result<Answer> ask(const std::string& host, std::uint16_t port, std::string_view method,
                   std::string_view target, std::string_view body);

}  // namespace sluice::sim::http
