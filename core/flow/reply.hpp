// Texts of the gateway's own answers on the data plane.
//
// Threads: any.
// Source:  management contract, section 3 (error bodies of the data plane).
#pragma once
#include <string>
#include <string_view>

#include "core/route/facts.hpp"

namespace sluice::flow {

// {"error":{"message","type","code","param","request_id"}}; `model` stands beside them where the
// code is about it.
std::string error_body(const route::Refusal& refusal, std::string_view request_id,
                       std::string_view model);

// The event that ends a stream which cannot go on: one `data:` line and an empty one.
std::string error_event(std::string_view code, std::string_view message,
                        std::string_view request_id);

}  // namespace sluice::flow
