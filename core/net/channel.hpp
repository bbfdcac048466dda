// What a loop knows of one descriptor. Private to core/net.
//
// Threads: its loop's.
// Owns:    the descriptor. Freed by the loop one turn after it was closed, because events of the
//          present turn may still name it.
#pragma once
#include "core/net/socket.hpp"

namespace sluice::net {

struct Channel {
    int fd = -1;
    bool readable = false;  // a receive may succeed: set by an edge, cleared by a short read
    bool writable = false;  // a send may succeed: set by an edge, cleared when the kernel is full
    bool is_stream = true;  // a short receive has emptied it
    bool hung_up = false;   // FIN, RST or an error was seen
    IoOp* reader = nullptr;
    IoOp* writer = nullptr;
    SocketWatcher* watcher = nullptr;
    Channel* next = nullptr;  // list of the closed, list of the free
};

}  // namespace sluice::net
