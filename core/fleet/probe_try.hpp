// One try of a health probe, of every kind.
//
//   tcp, sctp   a completed connect; what is to be sent is sent, and the answer read until it holds
//               what it must
//   udp         a datagram, empty when nothing is to be sent. Refused by ICMP is down. Without an
//               expected answer silence is up: it is all that most UDP services say to strangers
//   ping        an ICMP echo and its reply
//   http, https a request, the answer's status and body. Redirects are not followed: one could lead
//               anywhere; a status is expected or it is not
//   tls-hello   a completed TLS handshake
//
// Certificates are not checked: a probe asks whether something answers, and tells it nothing.
//
// Threads: the loop's.
// Errors:  Unsupported: this side could not ask (descriptors, permissions, no such transport here),
//          which says nothing about the endpoint. Anything else: the endpoint did not answer as it
//          should, with a text for people. Nothing an endpoint sent is part of a text.
// Limits:  kMaxAnswerBytes of an answer are read and searched.
// Source:  management contract, health probing (NEW column); RFC 792 and 4443 for echo.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "core/net/loop.hpp"
#include "core/net/tls.hpp"
#include "core/rules/probe_spec.hpp"

namespace sluice::fleet {

inline constexpr std::size_t kMaxAnswerBytes = std::size_t{64} * 1024;

// Silence: nothing came, and nothing had to.
enum class ProbeAnswer { Came, Silence };

// `spec` has an address; `wait` bounds the whole try.
net::Task<Result<ProbeAnswer>> try_probe(net::Loop& loop, const net::TlsClient& tls,
                                         const rules::ProbeSpec& spec, net::Wait wait);

// Whether this machine and process can probe so at all: Unsupported with what is lacking. Looked at
// once.
Status can_probe(const rules::ProbeSpec& spec);

// Incremental search in an answer that is not kept.
class AnswerSearch {
public:
    explicit AnswerSearch(std::string_view wanted) : wanted_(wanted) {}
    void feed(std::string_view bytes);
    bool is_found() const noexcept { return wanted_.empty() || is_found_; }
    bool is_full() const noexcept { return seen_ >= kMaxAnswerBytes; }

private:
    const std::string_view wanted_;
    std::string tail_;  // may be the start of what is wanted
    std::size_t seen_ = 0;
    bool is_found_ = false;
};

}  // namespace sluice::fleet
