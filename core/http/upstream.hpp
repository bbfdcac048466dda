// The engine side of the data plane: pooled connections and one exchange on each.
//
//   auto leased = co_await pool.acquire(endpoint, {.deadline_us = d, .cancel =
//   &client.departure()}); UpstreamStream& up = leased.value(); co_await up.send(head_text, parts,
//   wait); auto head = co_await up.read_head(wait); for (;;) {
//       auto part = co_await up.read_body(wait);
//       ... part->bytes, part->last
//   }
//
// A stream that saw a complete keep-alive exchange gives its connection back to the pool when it is
// destroyed; in every other case the connection is closed, which is how an engine learns that the
// request is over.
//
// Threads: the pool's loop.
// Errors:  Unavailable (refused, unreachable), Timeout, Cancelled, Closed (the engine ended too
//          early: a truncated body is never success), Protocol (unreadable answer), Io.
// Limits:  UpstreamOptions; response heads HeadLimits.
// Source:  idle time-out 5.0 s of vLLM's server (uvicorn), hence 4 s here.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/base/result.hpp"
#include "core/http/message.hpp"
#include "core/net/loop.hpp"

namespace sluice::http {

struct UpstreamOptions {
    std::chrono::milliseconds idle{4000};
    std::size_t max_idle_per_endpoint = 256;
    std::size_t max_idle = 2048;
};

struct UpstreamStats {
    std::uint64_t connects = 0;
    std::uint64_t connect_failures = 0;
    std::uint64_t reuses = 0;
    std::uint64_t idle_expired = 0;  // closed by us, after UpstreamOptions::idle
    std::uint64_t idle_dropped = 0;  // the engine closed or spoke out of turn
    std::uint64_t idle = 0;          // pooled now
    std::uint64_t active = 0;        // leased now
};

struct BodyPart {
    std::string_view bytes;  // payload, framing removed; may be empty when last
    bool last = false;       // the body is complete with these bytes
};

class UpstreamStream;

class UpstreamPool {
public:
    struct Impl;  // shared with the streams

    explicit UpstreamPool(net::Loop& loop, const UpstreamOptions& options = {});
    ~UpstreamPool();  // after its streams
    UpstreamPool(const UpstreamPool&) = delete;
    UpstreamPool& operator=(const UpstreamPool&) = delete;

    // A pooled connection if there is one that was idle for less than `most_idle_us`, else a
    // new one. `wait` bounds the connect.
    net::Task<Result<UpstreamStream>> acquire(net::Address to, net::Wait wait,
                                              std::uint64_t most_idle_us = UINT64_MAX);
    // Always a new one: for the replay of a request that met a stale connection.
    net::Task<Result<UpstreamStream>> acquire_fresh(net::Address to, net::Wait wait);
    // The endpoint is gone or changed: closes its idle connections and keeps none of the busy ones.
    void purge(const net::Address& endpoint) noexcept;
    const UpstreamStats& stats() const noexcept;
    net::Loop& loop() const noexcept;

private:
    std::unique_ptr<Impl> impl_;
};

class UpstreamStream {
public:
    struct Connection;

    UpstreamStream() noexcept;
    UpstreamStream(UpstreamStream&& other) noexcept;
    UpstreamStream& operator=(UpstreamStream&& other) noexcept;
    ~UpstreamStream();

    // Sends head and body in one write, without copying. If the engine answers before it has taken
    // everything, sending ends with ok and the connection will not be reused.
    net::Task<Status> send(std::string_view head, std::span<const std::string_view> body,
                           net::Wait wait);
    net::Task<Status> send(std::string_view head, std::string_view body, net::Wait wait);

    // The head of the final response; interim ones are skipped. Valid until read_body(). After a
    // time-out, of read_body() too, it may be called again.
    net::Task<Result<ResponseHead>> read_head(net::Wait wait);
    // The request's Connection-style field of the response, for is_hop_by_hop().
    std::string_view connection_value() const noexcept;
    // How the response body is framed; for the client's framing. Valid after read_head().
    Framing framing() const noexcept;

    // What is there of the body, as soon as anything is: all of one read, in one piece, never
    // waiting for more. Valid until the next call. Not to be called after `last`.
    net::Task<Result<BodyPart>> read_body(net::Wait wait);

    // read_body() would not wait: bytes came with the head, or the body is complete. If not, send
    // the client's head before waiting.
    bool has_body_at_hand() const noexcept;

    // TCP keepalive of the connection, which stays so when it is pooled: what a rule asks for holds
    // until another asks for something else. 0 changes nothing.
    void keep_alive_every(std::uint32_t seconds) noexcept;

    bool is_open() const noexcept;
    bool is_complete() const noexcept;  // the whole response was read
    bool is_reused() const noexcept;
    std::uint64_t bytes_received() const noexcept;
    std::uint64_t bytes_sent() const noexcept;
    // A failed send() or read_head() met a pooled connection the engine had already closed: nothing
    // of a response came, and the request may be sent once more on a fresh connection.
    bool not_accepted() const noexcept;
    const net::Address& endpoint() const noexcept;
    // Ends the exchange now: back to the pool if complete, else closed.
    void close() noexcept;

private:
    friend class UpstreamPool;
    explicit UpstreamStream(std::unique_ptr<Connection> connection) noexcept;
    std::unique_ptr<Connection> connection_;
};

}  // namespace sluice::http
