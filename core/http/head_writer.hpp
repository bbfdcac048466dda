// Writes HTTP/1.1 heads into a string that the caller keeps and reuses.
//
// The caller passes only end-to-end fields; framing and connection fields come from here, once.
// What a peer could use to split a message (CR, LF, NUL in a name or value) is dropped with its
// field.
//
// Threads: any.
// Source:  RFC 9112 sections 3, 4, 6.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "core/http/message.hpp"

namespace sluice::http {

void append_header(std::string& out, std::string_view name, std::string_view value);

// Writes a request head piece by piece:
//
//   RequestWriter w(text, "POST", "/v1/completions", "10.0.0.5:8000");
//   for (const Header& h : client.headers) if (w.forwards(h, connection)) w.header(h.name,
//   h.value); w.finish(Framing::of_length(body_bytes));
class RequestWriter {
public:
    RequestWriter(std::string& out, std::string_view method, std::string_view target,
                  std::string_view host);
    // True for what belongs to the next hop too: not hop-by-hop, not Host, Content-Length or
    // Expect.
    static bool forwards(const Header& header, std::string_view connection) noexcept;
    void header(std::string_view name, std::string_view value) { append_header(out_, name, value); }
    void finish(Framing framing);

private:
    std::string& out_;
    bool may_omit_length_;  // GET and the like
};

// A whole response head. With `close` it says "Connection: close"; Length and Chunked framings add
// their field, None and UntilClose add none (a 0-length answer is of_length(0)). Framing and
// hop-by-hop fields among `headers` are left out.
void write_response_head(std::string& out, int status, std::string_view reason, HeaderSpan headers,
                         Framing framing, bool close);

// The line before a chunk's data; returns a view into `room`.
std::string_view chunk_line(std::array<char, 18>& room, std::size_t bytes) noexcept;

}  // namespace sluice::http
