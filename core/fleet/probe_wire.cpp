#include "core/fleet/probe_wire.hpp"

#include "core/rules/key.hpp"

namespace sluice::fleet {
namespace {

using Kind = rules::ProbeSpec::Kind;

// SNI holds names, never addresses (RFC 6066).
std::string server_name(const rules::ProbeSpec& spec) {
    std::string name(rules::host_name(spec.domain));
    const bool is_address = rules::canonical_ip(name) || name.starts_with('[');
    return is_address ? std::string() : name;
}

}  // namespace

Error opening_failed(Error error) {
    if (error.code == Code::Io || error.code == Code::Internal) {
        error.code = Code::Unsupported;
    }
    return error;
}

net::Task<Result<ProbeWire>> ProbeWire::open(net::Loop& loop, const net::TlsClient& tls,
                                             const rules::ProbeSpec& spec, net::Wait wait) {
    const auto to = net::Address::parse_ip(spec.address, spec.port);
    if (!to) {
        co_return to.error();
    }
    const auto transport = spec.kind == Kind::Sctp ? net::Transport::Sctp : net::Transport::Tcp;
    auto socket = co_await net::connect(loop, *to, wait, transport);
    if (!socket) {
        co_return opening_failed(std::move(socket).error());
    }
    ProbeWire out;
    if (spec.kind != Kind::Https && spec.kind != Kind::TlsHello) {
        out.plain_ = std::move(*socket);
        co_return out;
    }
    const std::string name = server_name(spec);
    const std::string_view protocol = spec.kind == Kind::Https ? "http/1.1" : "";
    auto stream = net::TlsStream::create(tls, std::move(*socket), name, protocol);
    if (!stream) {
        co_return opening_failed(std::move(stream).error());
    }
    out.tls_ = std::move(*stream);
    const Status shaken = co_await out.tls_->handshake(wait);
    if (!shaken) {
        co_return shaken.error();
    }
    co_return out;
}

net::Task<Status> ProbeWire::send(std::string_view bytes, net::Wait wait) {
    if (tls_) {
        co_return co_await tls_->send(bytes, wait);
    }
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    const auto moved = co_await plain_.send({&part, 1}, wait);
    if (!moved) {
        co_return moved.error();
    }
    co_return Status{};
}

net::Task<Result<std::size_t>> ProbeWire::recv(std::span<char> into, net::Wait wait) {
    if (!tls_) {
        co_return co_await plain_.recv(into, wait);
    }
    auto got = co_await tls_->recv(into, wait);
    if (!got && got.error().code == Code::Closed) {
        co_return std::size_t{0};
    }
    co_return got;
}

void ProbeWire::end() noexcept {
    if (tls_) {
        tls_->end();
    }
}

}  // namespace sluice::fleet
