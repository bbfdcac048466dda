// Where a request would go, without sending it: the receipt that would be.
//
// Threads: control; reads snapshots only and moves no cursor.
// Errors:  Invalid: not a request, or one the gateway would refuse. NotFound: no such rule.
#pragma once
#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "core/flow/shared.hpp"

namespace sluice::flow {

// `json`: {"rule": id, name or number | "listener": "IP:PORT", "path": "/v1/…", "headers": {…},
// "body": {…}}. Without a path a body with `messages` is a chat, any other a completion.
Result<std::string> explain(Shared& shared, std::string_view json);

}  // namespace sluice::flow
