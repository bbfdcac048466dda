// The insides of UpstreamPool and of the connections it keeps. Private to core/http.
//
// Threads: the pool's loop.
// Owns:    idle connections belong to the pool, busy ones to their stream.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "core/http/body_decoder.hpp"
#include "core/http/head_parser.hpp"
#include "core/http/upstream.hpp"

namespace sluice::http {

// What the pool knows of one endpoint; there while it has idle or busy connections.
struct UpstreamBucket {
    UpstreamStream::Connection* newest = nullptr;  // idle, last given back first
    std::size_t idle = 0;
    std::size_t busy = 0;
    std::uint64_t generation = 0;  // connections of older ones are not kept
};

struct UpstreamStream::Connection final : public net::SocketWatcher {
    Connection(UpstreamPool::Impl& owner, const net::Address& to, UpstreamBucket& in_bucket,
               net::Socket connected)
        : pool(owner),
          endpoint(to),
          bucket(in_bucket),
          generation(in_bucket.generation),
          socket(std::move(connected)) {}

    // Only while idle: the engine closed, or spoke out of turn.
    void on_hangup() noexcept override;
    void on_readable() noexcept override { on_hangup(); }

    void begin(std::string_view request_head);
    Result<std::size_t> receive();
    net::Task<Status> send(net::Wait wait);
    net::Task<Result<ResponseHead>> read_head(net::Wait wait);
    net::Task<Result<BodyPart>> read_body(net::Wait wait);
    Status head_done();
    Error failed(Error error) noexcept;
    bool may_be_kept() const noexcept;

    UpstreamPool::Impl& pool;
    net::Address endpoint;
    UpstreamBucket& bucket;
    std::uint64_t generation;
    net::Socket socket;

    net::Buffer in;
    std::size_t at = 0;  // start of what was not decoded yet
    std::size_t wanted = net::kBufferBytes;
    ResponseParser parser;
    BodyDecoder decoder;
    Framing framing;
    std::vector<iovec> parts;
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    int interim = 0;                  // responses of this exchange
    std::uint32_t keepalive_sec = 0;  // 0 = as every socket
    bool is_reused = false;
    bool is_head_request = false;
    bool has_head = false;
    bool is_complete = false;
    bool is_spoiled = false;  // failed, answered early, or not to be kept
    bool was_closed = false;  // the engine had closed before it answered

    // Lists of the idle: of the endpoint, and of all in the order they came back.
    Connection* newer = nullptr;
    Connection* older = nullptr;
    Connection* idle_next = nullptr;
    Connection* idle_prev = nullptr;
    std::uint64_t idle_since_us = 0;
};

struct UpstreamPool::Impl final : public net::Timer {
    using Connection = UpstreamStream::Connection;

    Impl(net::Loop& on, const UpstreamOptions& with) : loop(on), options(with) {}
    ~Impl() override;

    // Closes those idle too long, and waits for the next.
    void expired() noexcept override;

    UpstreamBucket& bucket(const net::Address& endpoint) { return buckets[endpoint]; }
    void forget_if_unused(const net::Address& endpoint) noexcept;
    std::unique_ptr<Connection> take_idle(const net::Address& endpoint,
                                          std::uint64_t most_idle_us) noexcept;
    // A busy connection ends: kept if it may be, else closed.
    void give_back(std::unique_ptr<Connection> connection) noexcept;
    std::unique_ptr<Connection> unlink_idle(Connection& connection) noexcept;
    void drop_idle(Connection& connection) noexcept;

    net::Loop& loop;
    UpstreamOptions options;
    UpstreamStats stats;
    std::unordered_map<net::Address, UpstreamBucket> buckets;  // nodes do not move
    Connection* oldest = nullptr;
    Connection* latest = nullptr;
};

}  // namespace sluice::http
