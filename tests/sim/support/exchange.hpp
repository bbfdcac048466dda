// The answering side of one connection: heads, bodies, streams, and the ways to break them.
//
// Threads: the connection's own, but wake(), which any thread may call.
// Errors:  a peer that is gone makes is_gone() true; what is written after that is dropped.
// Limits:  kMaxAhead unread bytes of pipelined requests; more stay in the socket.
// Source:  captures transport-*, comp-*; uvicorn's header order.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/sim/support/http_request.hpp"

namespace sluice::sim::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Response {
    int status = 200;
    std::string content_type = "application/json";  // empty: no such header
    std::string body;
    Headers extra;         // between server and content-length (location, allow)
    bool has_vary = true;  // replies of the app have it; those made outside of it do not
    bool sends_length = true;
};

enum class Wake { Signal, Timeout, Gone };

class Exchange {
public:
    static constexpr std::size_t kMaxAhead = std::size_t{1} << 20U;

    Exchange(int fd, RequestParser& parser);
    ~Exchange();
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

    // Prepares for the next request of the connection.
    void begin(const Request& request);
    // Header added to every reply of this request (x-request-id); empty removes it.
    void set_request_id(std::string id) { request_id_ = std::move(id); }

    void send(const Response& response);
    // An event stream: head, then one HTTP chunk an event, then the last chunk.
    void open_stream(bool has_vary = true);
    void event(std::string_view data);
    void close_stream();

    // Waits for wake(), for the peer to leave, or for `ms` (negative: without end).
    Wake wait(int ms);
    void wake() const noexcept;

    bool is_gone() const noexcept { return gone_; }
    bool has_started() const noexcept { return started_; }
    // After the reply: whether the connection ends, and how.
    bool closes() const noexcept { return closes_ || gone_; }
    void close_after() noexcept { closes_ = true; }
    // Ends the connection with a reset (RST) instead of a close (FIN).
    void reset();
    // Sends raw bytes, as they are.
    void write(std::string_view bytes);
    // Reads what the peer sent into the parser. False when it closed or half-closed.
    bool read_some();
    int fd() const noexcept { return fd_; }

private:
    std::string head(int status, const Headers& fields) const;
    bool peer_left();

    int fd_;
    int wake_fd_;
    RequestParser& parser_;
    std::string request_id_;
    bool is_head_request_ = false;
    bool closes_ = false;
    bool gone_ = false;
    bool started_ = false;
};

}  // namespace sluice::sim::http
