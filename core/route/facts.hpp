// What routing needs to know of a request; members of the body's outermost object only.
//
// Threads: the request's loop; views point into the request and live as long as it.
// Errors:  Refusal with the status and the code the client sees.
// Source:  vllm contract, generation (prompt shapes, of equal names the last counts); routing
//          contract, extraction.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/json/body.hpp"
#include "core/route/receipt.hpp"

namespace sluice::route {

// An answer of the gateway itself, in place of an engine's.
struct Refusal {
    std::uint16_t status = 400;
    std::string_view code;   // stable
    std::string message;     // for people
    std::string_view param;  // the body member at fault, or empty
    std::string_view type = "invalid_request_error";
    std::uint32_t retry_after_sec = 1;  // said with a 429 or 503
};

struct Facts {
    Api api = Api::Other;
    std::string_view path;  // without query
    std::string model;      // as the client says it: X-Model or the body; empty = none
    bool is_stream = false;
    std::string salt;                  // cache_salt; secret
    const json::Body* body = nullptr;  // null: no JSON body
};

Api api_of(std::string_view path) noexcept;

// `body` is the viewed body and `reader` what viewed it, or both are null. `x_model` is the value
// of X-Model, or empty.
std::optional<Refusal> read_facts(std::string_view path, std::string_view x_model,
                                  const json::Body* body, json::BodyReader* reader, Facts& out);

}  // namespace sluice::route
