// The client side of the data plane: a listener on one loop and the exchanges it accepts.
//
//   class Flow final : public Handler {
//       net::Task<void> handle(ServerStream& stream) override {
//           auto body = co_await stream.read_body(limit);
//           ...
//           stream.send_head(200, headers, Framing::chunked());
//           co_await stream.send_body(part);           // head and first part leave together
//           co_await stream.finish();
//       }
//   };
//
// Threads: everything on the server's loop; counters may be read anywhere.
// Owns:    a Server owns its connections; it ends those left when it is destroyed. Handler and loop
//          outlive it. Requests of one connection are handled one after the other.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "core/http/head_parser.hpp"
#include "core/http/message.hpp"
#include "core/net/loop.hpp"

namespace sluice::http {

// One request and its response, whatever the protocol version underneath.
//
// Errors: Cancelled or Closed mean the client is gone; the handler just returns. Timeout of a send
//         means the client took nothing for ServerLimits::send_stall.
class ServerStream {
public:
    virtual ~ServerStream() = default;

    // Valid for the life of the stream.
    virtual const RequestHead& head() const noexcept = 0;
    virtual std::string_view peer() const noexcept = 0;  // "127.0.0.1:41022"
    virtual net::Address local() const noexcept = 0;     // where the client connected to
    virtual std::string_view connection_value()
        const noexcept = 0;  // the request's Connection field
    virtual net::Loop& loop() const noexcept = 0;
    // Fired when the client leaves, in every phase: FIN (a half-close too), RST, a stream reset.
    // Give it to everything awaited on the client's behalf.
    virtual net::Cancel& departure() noexcept = 0;

    // The whole body in one piece, chunked coding removed, at least net::kSlackBytes readable bytes
    // behind it; empty if there is none. Valid until release_body() or the end of the stream. To be
    // called at most once. Errors: Limit (answer 413), Timeout between reads (408), Protocol (400),
    // Closed (client gone), Cancelled (`stop` was fired while the body was not whole).
    virtual net::Task<Result<std::string_view>> read_body(
        std::size_t max_bytes, std::chrono::milliseconds gap = {},  // 0: ServerLimits::body
        net::Cancel* stop = nullptr) = 0;
    // The body is no longer needed (not for a retry either): its memory may go.
    virtual void release_body() noexcept = 0;

    // Takes the head of the response; it leaves with the first body bytes, flush() or finish().
    // Reason empty: the usual phrase. Chunked becomes until-close for an HTTP/1.0 client; a body of
    // a HEAD, 204 or 304 answer is accepted and dropped. At most once.
    virtual void send_head(int status, HeaderSpan headers, Framing framing,
                           std::string_view reason = {}) = 0;
    // Sends the parts as one chunk (or plain, by framing), without copying them; returns when they
    // are with the kernel. `last` ends the body in the same write.
    virtual net::Task<Status> send_body(std::span<const std::string_view> parts,
                                        bool last = false) = 0;
    virtual net::Task<Status> send_body(std::string_view part, bool last = false) = 0;
    // Sends a head that is still held back: call it before waiting for the first body bytes.
    virtual net::Task<Status> flush() = 0;
    // Ends the body. Code::Internal, and the connection ends unterminated, if a Length body is
    // short.
    virtual net::Task<Status> finish() = 0;
    // Ends the connection (HTTP/2: the stream) so that the client sees a broken message.
    virtual void abort() noexcept = 0;
    // The connection ends after this response, which says so if its head has not been taken yet.
    virtual void close_after() noexcept = 0;
    // How long the connection may stay idle afterwards, instead of ServerLimits::client_idle.
    virtual void set_client_idle(std::chrono::milliseconds idle) noexcept = 0;

    // No write waits beyond it for a client that takes nothing: it fails with Timeout and the
    // connection ends. Until the end of the exchange, or set again; net::kNever: none.
    virtual void set_send_deadline(std::uint64_t deadline_us) noexcept = 0;

    virtual bool head_taken() const noexcept = 0;               // send_head was called
    virtual bool is_finished() const noexcept = 0;              // the whole response is out
    virtual std::uint64_t bytes_sent() const noexcept = 0;      // on the wire, this response
    virtual std::uint64_t bytes_received() const noexcept = 0;  // head and body of the request
    virtual std::uint64_t started_us() const noexcept = 0;      // the head was complete
};

class Handler {
public:
    virtual ~Handler() = default;
    // Answers one request. If it returns without a finished response, the connection is ended; if
    // nothing was sent by then, with a 500.
    virtual net::Task<void> handle(ServerStream& stream) = 0;
    // The JSON body of an answer the connection gives by itself (broken head: 400, 417, 431, 501,
    // 505; slow head: 408; lost handler: 500).
    virtual std::string error_body(int status, std::string_view message);
    virtual void connection_opened() noexcept {}
    virtual void connection_closed() noexcept {}
    // A request was refused before it became a stream.
    virtual void refused(int status) noexcept { (void)status; }
};

// 0 means no limit.
struct ServerLimits {
    HeadLimits head;
    std::chrono::milliseconds header{10000};       // first to last byte of a head, else 408
    std::chrono::milliseconds body{60000};         // between reads of a body
    std::chrono::milliseconds client_idle{75000};  // between requests, and before the first
    std::chrono::milliseconds send_stall{75000};   // the client takes no byte of a response
    std::size_t max_connections = 0;               // per server; more wait in the backlog
};

// Written by the server's loop, read anywhere.
struct ServerCounters {
    std::atomic<std::uint64_t> accepted{0};
    std::atomic<std::uint64_t> accept_pauses{0};  // out of descriptors
    std::atomic<std::uint64_t> connections{0};    // open now
    std::atomic<std::uint64_t> exchanges{0};      // requests being handled now
    std::atomic<std::uint64_t> requests{0};
    std::atomic<std::uint64_t> refused{0};   // broken heads and the like
    std::atomic<std::uint64_t> departed{0};  // clients that left during an exchange
};

class Server {
public:
    struct Impl;  // shared with the connections

    // Listens and starts accepting. Code::Unavailable when the address cannot be bound.
    static Result<std::unique_ptr<Server>> listen(net::Loop& loop, const net::Address& at,
                                                  Handler& handler, const ServerLimits& limits,
                                                  const net::ListenOptions& options = {});
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    net::Address local() const noexcept;
    // For requests from now on.
    void set_limits(const ServerLimits& limits) noexcept;
    const ServerCounters& counters() const noexcept;

    // Stops listening; open connections go on.
    void stop_accepting() noexcept;
    // Also ends idle connections at once, and live ones after their response, which says so.
    void drain() noexcept;
    bool is_draining() const noexcept;
    // Clients are treated as gone: departure() of every exchange fires, connections end.
    void abort_all() noexcept;
    // Ok when no connection is left.
    net::Task<Status> closed(net::Wait wait = {});

private:
    explicit Server(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::http
