// HTTP/1.1 requests as uvicorn's parser takes them: bytes in, whole requests out.
//
//   parser.feed(bytes);
//   while (parser.next() == Parsed::Head) ... Parsed::Request ...
//
// Threads: none of its own; one parser a connection.
// Errors:  Parsed::Invalid is final: the answer is the plain 400 and a close.
// Limits:  head kMaxHeadBytes, body kMaxBodyBytes, unread pipelined bytes are the caller's to
// bound. Source:  captures transport-*.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::sim::http {

struct Request {
    std::string method;
    std::string target;
    std::string path;   // target without the query
    std::string query;  // without '?'
    bool is_http10 = false;
    std::vector<std::pair<std::string, std::string>> headers;  // as sent
    std::string body;

    // The first header of that name, any case; null pointer if there is none.
    const std::string* header(std::string_view name) const noexcept;
    bool wants_close() const noexcept;
    bool expects_continue() const noexcept;
};

enum class Parsed { More, Head, Request, Invalid };

class RequestParser {
public:
    static constexpr std::size_t kMaxHeadBytes = std::size_t{1} << 20U;
    static constexpr std::size_t kMaxBodyBytes = std::size_t{256} << 20U;

    void feed(std::string_view bytes) { in_.append(bytes); }
    // Head once per request, when its head is complete and a body is still to come; then Request.
    Parsed next();
    // Valid after Head; moved out after Request.
    Request& request() noexcept { return request_; }
    std::size_t buffered() const noexcept { return in_.size(); }

private:
    enum class At { Head, Length, ChunkSize, ChunkData, ChunkEnd, Trailer, Broken };

    Parsed head();
    Parsed body();
    bool read_head(std::string_view text);
    bool add_header(std::string_view line);
    bool choose_framing();
    std::optional<std::string> line();

    std::string in_;
    Request request_;
    At at_ = At::Head;
    std::size_t left_ = 0;  // bytes of the body or of the chunk still to come
};

bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept;

}  // namespace sluice::sim::http
