// Body members that only an orchestrator of engines may set, sent by a client.
//
// A wrong one can end an engine or make it answer from foreign cache blocks, so by default they are
// dropped from every request; the adapter names them.
//
// Threads: any.
// Source:  vLLM contract, prefill/decode ("kv_transfer_params from a client is a weapon", live on
//          0.32); management contract, client_handoff_fields.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "core/json/body.hpp"
#include "core/json/edits.hpp"

namespace sluice::route {

// The first reserved member that stands in the body ("a", or "a.b" for a member of a member);
// empty when there is none. `nested` is a reader of its own, for members of members.
// Errors: an object that one may stand in and that cannot be read, with Code::Limit for too many
//         members: an engine may read what we do not. `what` is its name.
Result<std::string_view> find_reserved(const json::Body& body,
                                       std::span<const std::string> reserved,
                                       json::BodyReader& nested);

// Removes all of them. Precondition: find_reserved() is no error.
void drop_reserved(const json::Body& body, std::span<const std::string> reserved,
                   json::BodyReader& nested, json::Edits& edits);

}  // namespace sluice::route
