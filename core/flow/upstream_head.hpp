// The request head that goes to an engine, made from the client's.
//
// Threads: any; values.
// Source:  RFC 9110 section 7.6 (what ends at a hop); management contract, section 4 (X-Request-Id,
//          X-Sluice-Attempt; client X-Sluice-* are dropped).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/http/message.hpp"

namespace sluice::flow {

struct UpstreamHead {
    const http::RequestHead& client;
    std::string_view connection;  // the client's Connection value
    std::string_view host;        // of the endpoint
    std::string_view request_id;
    std::string_view client_ip;
    std::string_view authorization;  // of the rule; empty: the client's own goes on
    std::uint32_t attempt = 1;
    std::optional<std::uint64_t> body_bytes;  // empty: no body and no length is said
    // In the place of all fields of these names, ours too; an empty value only removes. Framing and
    // Host stay ours.
    http::HeaderSpan replaced = {};
};

// Writes the whole head, with the empty line, over `out`.
void write_upstream_head(const UpstreamHead& in, std::string& out);

// The client's X-Request-Id when it can be taken over (1 to 128 visible ASCII characters), else
// empty.
std::string_view usable_request_id(const http::RequestHead& head) noexcept;

}  // namespace sluice::flow
