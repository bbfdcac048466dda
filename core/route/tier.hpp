// One step of the ladder: decides, or says why it passes.
//
// Threads: request; a tier is scratch space of one loop.
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

#include "core/route/question.hpp"

namespace sluice::route {

struct Verdict {
    std::optional<std::size_t> index;  // in the pool
    std::string_view reason;           // why it passed, or what was out of the ordinary
};

}  // namespace sluice::route
