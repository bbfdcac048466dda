#include "core/net/tls.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <vector>

namespace sluice::net {
namespace {

// One TLS record with its overhead fits.
constexpr std::size_t kStep = 17 * 1024;

// The oldest reason in the queue; the later ones are its consequences.
std::string openssl_reason() {
    const unsigned long code = ERR_peek_error();
    const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
    std::string out = reason == nullptr ? "no reason given" : reason;
    ERR_clear_error();
    return out;
}

}  // namespace

void TlsClient::Free::operator()(ssl_ctx_st* context) const noexcept {
    SSL_CTX_free(context);
}

void TlsStream::Free::operator()(ssl_st* ssl) const noexcept {
    SSL_free(ssl);  // and its two memory BIOs
}

Result<TlsClient> TlsClient::create() {
    ERR_clear_error();
    TlsClient out;
    out.context_.reset(SSL_CTX_new(TLS_client_method()));
    SSL_CTX* const context = out.context_.get();
    if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) {
        return Error{Code::Internal, "TLS: " + openssl_reason()};
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    // Idle streams give their record buffers back.
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    return out;
}

Result<TlsStream> TlsStream::create(const TlsClient& client, Socket socket,
                                    const std::string& server_name, std::string_view protocol) {
    ERR_clear_error();
    TlsStream out;
    out.socket_ = std::move(socket);
    out.ssl_.reset(SSL_new(client.context_.get()));
    BIO* const in = BIO_new(BIO_s_mem());
    BIO* const sent = BIO_new(BIO_s_mem());
    if (out.ssl_ == nullptr || in == nullptr || sent == nullptr) {
        BIO_free(in);
        BIO_free(sent);
        return Error{Code::Internal, "TLS: " + openssl_reason()};
    }
    // An empty BIO means "later", not the end of the data.
    BIO_set_mem_eof_return(in, -1);
    BIO_set_mem_eof_return(sent, -1);
    SSL_set_bio(out.ssl_.get(), in, sent);
    SSL_set_connect_state(out.ssl_.get());
    if (!server_name.empty() &&
        SSL_set_tlsext_host_name(out.ssl_.get(), server_name.c_str()) != 1) {
        return Error{Code::Invalid, "TLS: server name: " + openssl_reason()};
    }
    if (!protocol.empty()) {
        std::vector<unsigned char> list{static_cast<unsigned char>(protocol.size())};
        list.insert(list.end(), protocol.begin(), protocol.end());
        // Of all OpenSSL functions this one returns 0 for success.
        if (SSL_set_alpn_protos(out.ssl_.get(), list.data(), static_cast<unsigned>(list.size())) !=
            0) {
            return Error{Code::Internal, "TLS: " + openssl_reason()};
        }
    }
    return out;
}

TlsStream::Want TlsStream::want(int result) {
    if (result > 0) {
        return Want::Nothing;
    }
    switch (SSL_get_error(ssl_.get(), result)) {
        case SSL_ERROR_WANT_READ:
        case SSL_ERROR_WANT_WRITE:  // of memory: never full, so only for form
            return Want::Bytes;
        case SSL_ERROR_ZERO_RETURN:
            return Want::Ended;
        default:
            reason_ = openssl_reason();
            return Want::Failed;
    }
}

Error TlsStream::failure() const {
    return {Code::Protocol, "TLS: " + reason_};
}

Task<Status> TlsStream::flush(Wait wait) {
    BIO* const sent = SSL_get_wbio(ssl_.get());
    while (BIO_ctrl_pending(sent) > 0) {
        std::array<char, kStep> step;
        const int size = BIO_read(sent, step.data(), static_cast<int>(step.size()));
        if (size <= 0) {
            break;
        }
        iovec part{step.data(), static_cast<std::size_t>(size)};
        const auto moved = co_await socket_.send({&part, 1}, wait);
        if (!moved.ok()) {
            co_return moved.error();
        }
    }
    co_return Status{};
}

Task<Status> TlsStream::fill(Wait wait) {
    std::array<char, kStep> step;
    const auto got = co_await socket_.recv(step, wait);
    if (!got.ok()) {
        co_return got.error();
    }
    if (*got == 0) {
        co_return Error{Code::Closed, "TLS: the connection ended without a close_notify"};
    }
    if (BIO_write(SSL_get_rbio(ssl_.get()), step.data(), static_cast<int>(*got)) <= 0) {
        co_return Error{Code::Internal, "TLS: out of memory"};
    }
    co_return Status{};
}

Task<Status> TlsStream::handshake(Wait wait) {
    for (;;) {
        ERR_clear_error();
        const Want next = want(SSL_do_handshake(ssl_.get()));
        // Also after a failure: the peer is told by an alert.
        const Status sent = co_await flush(wait);
        if (next == Want::Nothing || next == Want::Failed || next == Want::Ended) {
            co_return next == Want::Nothing ? sent : Status(failure());
        }
        if (!sent.ok()) {
            co_return sent.error();
        }
        Status filled = co_await fill(wait);
        if (!filled.ok()) {
            co_return std::move(filled).error().at("handshake");
        }
    }
}

Task<Result<std::size_t>> TlsStream::recv(std::span<char> into, Wait wait) {
    for (;;) {
        ERR_clear_error();
        std::size_t got = 0;
        const int result = SSL_read_ex(ssl_.get(), into.data(), into.size(), &got);
        const Want next = want(result);
        if (next == Want::Nothing) {
            co_return got;
        }
        if (next == Want::Ended) {
            co_return std::size_t{0};
        }
        if (next == Want::Failed) {
            co_return failure();
        }
        // A key update asks for an answer.
        const Status sent = co_await flush(wait);
        if (!sent.ok()) {
            co_return sent.error();
        }
        const Status filled = co_await fill(wait);
        if (!filled.ok()) {
            co_return filled.error();
        }
    }
}

Task<Status> TlsStream::send(std::string_view bytes, Wait wait) {
    // The memory BIO takes everything, so that nothing is left to wait for but the socket.
    if (!bytes.empty()) {
        ERR_clear_error();
        std::size_t taken = 0;
        if (want(SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &taken)) != Want::Nothing) {
            co_return failure();
        }
    }
    co_return co_await flush(wait);
}

void TlsStream::end() noexcept {
    ERR_clear_error();
    // Only once the handshake is done; OpenSSL refuses it else, and there is nothing to end.
    (void)SSL_shutdown(ssl_.get());
    ERR_clear_error();
    std::array<char, 256> step;
    const int size = BIO_read(SSL_get_wbio(ssl_.get()), step.data(), static_cast<int>(step.size()));
    if (size > 0) {
        iovec part{step.data(), static_cast<std::size_t>(size)};
        (void)socket_.send_now({&part, 1});  // as far as it goes; the FIN follows anyway
    }
}

}  // namespace sluice::net
