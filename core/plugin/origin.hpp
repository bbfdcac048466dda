// The origin of an engine's base URL: an address, and what stands in front of a target.
//
// Threads: any.
// Errors:  Unsupported for https and for host names: addresses are numeric, in the clear.
#pragma once
#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "core/net/address.hpp"

namespace sluice::plugin {

struct Origin {
    net::Address address;
    std::string host;    // "10.0.0.7:8000", for the Host field
    std::string target;  // what follows the authority, "/" when nothing does
};

// "http://10.0.0.7:8000[/...]"
Result<Origin> parse_origin(std::string_view url);

}  // namespace sluice::plugin
