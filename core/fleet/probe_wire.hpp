// The connection of a probe: TCP, SCTP or TLS over TCP, for those who only send and receive.
//
// Threads: the loop's.
// Errors:  of opening: Unsupported when this side could not (probe_try.hpp). The end of the peer's
//          data is a receive of 0 bytes; over TLS also when it ends without close_notify, as many
//          servers do.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "core/net/loop.hpp"
#include "core/net/tls.hpp"
#include "core/rules/probe_spec.hpp"

namespace sluice::fleet {

class ProbeWire {
public:
    static net::Task<Result<ProbeWire>> open(net::Loop& loop, const net::TlsClient& tls,
                                             const rules::ProbeSpec& spec, net::Wait wait);
    net::Task<Status> send(std::string_view bytes, net::Wait wait);
    net::Task<Result<std::size_t>> recv(std::span<char> into, net::Wait wait);
    void end() noexcept;

private:
    net::Socket plain_;
    std::optional<net::TlsStream> tls_;
};

// An error of this side's system calls says nothing about the endpoint.
Error opening_failed(Error error);

}  // namespace sluice::fleet
