// The chain of a request's prompt, for the history of prefixes.
//
// Threads: request.
#pragma once
#include <string_view>

#include "core/json/body.hpp"
#include "core/route/facts.hpp"
#include "core/route/prefixes.hpp"
#include "core/route/prompt.hpp"

namespace sluice::route {

// Of its tokens where `prompt` (or null) has them, else of its JSON text.
void assign_chain(Chain& out, const json::Body& body, const Facts& facts,
                  std::string_view served_model, const Prompt* prompt);

}  // namespace sluice::route
