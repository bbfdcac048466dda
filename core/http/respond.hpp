// Whole answers in one write: the way every locally made response leaves.
//
// Threads: the stream's loop.
#pragma once
#include <string>
#include <string_view>

#include "core/http/server.hpp"

namespace sluice::http {

// Head and body together, with Content-Type and Content-Length. Views must outlive the await. The
// body of a HEAD request's answer is left out, its length stays. Nothing is done when a head was
// already taken (Code::Exists). An unread request body is not waited for: the connection then ends.
net::Task<Status> send_simple(ServerStream& stream, int status, std::string_view content_type,
                              std::string_view body, HeaderSpan extra = {});

// The JSON text {"error":{"message","type","code","param","request_id"}}; an empty `param` is null.
// Source: contract of the data plane's errors, docs.
std::string error_json(std::string_view message, std::string_view type, std::string_view code,
                       std::string_view param = {}, std::string_view request_id = {});
// Appends `text` as the inside of a JSON string. Bytes that are not UTF-8 become '?'.
void append_json_escaped(std::string& out, std::string_view text);

}  // namespace sluice::http
