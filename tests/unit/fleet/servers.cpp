#include "tests/unit/fleet/servers.hpp"

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <vector>

namespace sluice::test {
namespace {

// Signed by itself, for a day, for nobody.
void use_own_certificate(SSL_CTX* context) {
    EVP_PKEY* const key = EVP_EC_gen("P-256");
    X509* const certificate = X509_new();
    REQUIRE(key != nullptr);
    REQUIRE(certificate != nullptr);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 24L * 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME* const name = X509_get_subject_name(certificate);
    const auto* const text = reinterpret_cast<const unsigned char*>("probe target");
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    REQUIRE(X509_sign(certificate, key, EVP_sha256()) > 0);
    REQUIRE(SSL_CTX_use_certificate(context, certificate) == 1);
    REQUIRE(SSL_CTX_use_PrivateKey(context, key) == 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

int note_protocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                  unsigned size, void* server) {
    if (size == 0) {
        return SSL_TLSEXT_ERR_NOACK;
    }
    *out = in + 1;
    *out_size = in[0];
    static_cast<TlsServer*>(server)->protocol.assign(reinterpret_cast<const char*>(*out),
                                                     *out_size);
    return SSL_TLSEXT_ERR_OK;
}

}  // namespace

TlsServer::TlsServer() : context_(SSL_CTX_new(TLS_server_method())) {
    use_own_certificate(context_);
    SSL_CTX_set_alpn_select_cb(context_, note_protocol, this);
}

TlsServer::~TlsServer() {
    SSL_CTX_free(context_);
}

void TlsServer::serve(int fd, std::string_view answer, bool is_polite) {
    const timeval limit{20, 0};
    (void)::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    SSL* const ssl = SSL_new(context_);
    SSL_set_fd(ssl, fd);
    is_shaken = SSL_accept(ssl) == 1;
    if (const char* name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name); name != nullptr) {
        server_name = name;
    }
    std::vector<char> step(16384);
    while (is_shaken && !answer.empty() && request.find("\r\n\r\n") == std::string::npos) {
        const int n = SSL_read(ssl, step.data(), static_cast<int>(step.size()));
        if (n <= 0) {
            break;
        }
        request.append(step.data(), static_cast<std::size_t>(n));
    }
    if (is_shaken && !answer.empty()) {
        (void)SSL_write(ssl, answer.data(), static_cast<int>(answer.size()));
    }
    if (is_shaken && is_polite) {
        (void)SSL_shutdown(ssl);
    }
    SSL_free(ssl);
}

}  // namespace sluice::test
