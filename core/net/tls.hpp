// TLS 1.2 and 1.3 as a client, on a connected Socket. OpenSSL sees memory only: the loop moves the
// bytes.
//
// A peer's certificate is not checked here: whoever needs to know who answers must not use this.
// Health probes do not: they ask whether something answers, and tell it nothing.
//
// Threads: the socket's loop. A TlsClient is shared by all streams of a loop.
// Errors:  those of Socket; Protocol with OpenSSL's reason when the peer's TLS is wrong; Closed
//          when the connection ends without the peer's close_notify.
// Limits:  a TLS record, 16 KiB, each way, beside what OpenSSL keeps.
// Owns:    TlsStream the socket.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/net/loop.hpp"
#include "core/net/socket.hpp"

struct ssl_ctx_st;
struct ssl_st;

namespace sluice::net {

// What all streams of one kind share: versions, protocols offered.
class TlsClient {
public:
    static Result<TlsClient> create();

private:
    friend class TlsStream;
    struct Free {
        void operator()(ssl_ctx_st* context) const noexcept;
    };
    std::unique_ptr<ssl_ctx_st, Free> context_;
};

class TlsStream {
public:
    // `server_name` is sent as SNI; empty sends none. `protocol` is offered by ALPN, e.g.
    // "http/1.1"; empty offers none.
    static Result<TlsStream> create(const TlsClient& client, Socket socket,
                                    const std::string& server_name, std::string_view protocol);

    Task<Status> handshake(Wait wait);
    // At least 1 byte, or 0 when the peer said close_notify.
    Task<Result<std::size_t>> recv(std::span<char> into, Wait wait);
    Task<Status> send(std::string_view bytes, Wait wait);
    // Says close_notify as far as that needs no waiting; the peer's is not waited for.
    void end() noexcept;

    Socket& socket() noexcept { return socket_; }

private:
    struct Free {
        void operator()(ssl_st* ssl) const noexcept;
    };

    // What an OpenSSL call that returned `result` wants next.
    enum class Want { Nothing, Bytes, Ended, Failed };
    Want want(int result);
    Error failure() const;
    // Sends what OpenSSL has to say.
    Task<Status> flush(Wait wait);
    // Waits for bytes and hands them to OpenSSL.
    Task<Status> fill(Wait wait);

    Socket socket_;
    std::unique_ptr<ssl_st, Free> ssl_;
    std::string reason_;  // of the last failure
};

}  // namespace sluice::net
