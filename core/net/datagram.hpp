// Connected sockets of datagrams: UDP, and ICMP echo.
//
// They hear only from the address they are connected to. What ICMP says of it (a port nobody
// listens on) ends the next operation with Code::Unavailable.
//
// Threads: the loop's.
// Errors:  Unsupported when this process may not have such a socket, with what it would need; Io.
// Source:  Linux icmp(7), raw(7): an unprivileged echo socket needs the process's group within
//          net.ipv4.ping_group_range, a raw one CAP_NET_RAW.
#pragma once
#include "core/net/loop.hpp"
#include "core/net/socket.hpp"

namespace sluice::net {

Result<Socket> open_udp(Loop& loop, const Address& to);

struct EchoSocket {
    Socket socket;
    // It sees all ICMP from the address, IPv4 with the IP header in front; the kernel fills in
    // neither identifier nor (IPv4) checksum.
    bool is_raw = false;
};

// ICMP or ICMPv6, by the address; its port does not matter.
Result<EchoSocket> open_echo(Loop& loop, const Address& to);

// Whether this process can have such sockets, without a loop.
Status can_echo(bool is_v6);
Status can_sctp();

}  // namespace sluice::net
