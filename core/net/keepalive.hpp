// How soon a vanished peer is noticed on a connection that carries nothing.
//
// Threads: the socket's loop.
// Errors:  none; best effort, as every socket option here.
// Limits:  the kernel takes at most kMaxKeepAlive seconds.
#pragma once
#include <chrono>

#include "core/net/socket.hpp"

namespace sluice::net {

inline constexpr std::chrono::seconds kMaxKeepAlive{32'767};

// The kernel asks a silent peer whether it is still there, so often; three questions without an
// answer end the connection. Every socket starts with 30 s, then each 10 s.
void keep_alive_every(const Socket& socket, std::chrono::seconds interval) noexcept;

}  // namespace sluice::net
