// Request paths as an engine will read them.
//
// Threads: any.
// Source:  RFC 3986 section 6.2.2; engines decode escapes before they match a route.
#pragma once
#include <string>
#include <string_view>

namespace sluice::route {

// Escapes decoded, "." and ".." resolved, runs of slashes folded, no slash at the end. Used to
// compare, never to forward.
std::string canonical_path(std::string_view path);

// True for paths that canonical_path() would not change: the usual case, without allocation.
bool is_canonical_path(std::string_view path) noexcept;

}  // namespace sluice::route
