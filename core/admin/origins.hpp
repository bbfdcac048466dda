// Origins of web pages that may use the interface (CORS).
//
// Threads: any.
// Limits:  kMaxOrigins stored ones of at most kMaxOriginBytes.
// Source:  the Fetch standard: an origin is scheme://host[:port], compared as text; the management
//          contract's /config/cors.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/rules/rule_book.hpp"

namespace sluice::admin {

inline constexpr std::size_t kMaxOrigins = 64;
inline constexpr std::size_t kMaxOriginBytes = 256;
inline constexpr std::string_view kOriginForm = "http://HOST[:PORT] or https://HOST[:PORT]";

// As browsers write it: lower case, no default port. Empty: not an origin ("*" and "null" are not).
std::optional<std::string> canonical_origin(std::string_view text);
bool contains_origin(const std::vector<std::string>& origins, std::string_view origin);

std::vector<std::string> stored_origins(const rules::RuleBook& book);
std::optional<rules::Refusal> store_origins(rules::RuleBook& book,
                                            const std::vector<std::string>& origins,
                                            const rules::Actor& actor);

}  // namespace sluice::admin
