// What a server and its connections share. Private to core/http.
//
// Threads: the server's loop; counters may be read anywhere.
// Owns:    the listener and the connections' tasks.
#pragma once
#include "core/http/server.hpp"
#include "core/net/event.hpp"

namespace sluice::http {

class Http1Connection;

struct Server::Impl {
    Impl(net::Loop& on, net::Listener listening, Handler& handling, const ServerLimits& at_most)
        : loop(on),
          handler(handling),
          limits(at_most),
          listener(std::move(listening)),
          room(on),
          empty(on) {
        empty.set();
    }

    // Counters have one writer, so this need not be one atomic step.
    static void add(std::atomic<std::uint64_t>& counter, std::uint64_t n) noexcept {
        counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
    void connection_begins(Http1Connection& connection) noexcept;
    void connection_ends(Http1Connection& connection) noexcept;
    net::Task<void> accept_all();

    net::Loop& loop;
    Handler& handler;
    ServerLimits limits;
    ServerCounters counters;
    net::Listener listener;
    net::Cancel stop_accepting;
    net::Cancel idle;  // fired to end idle connections
    net::Event room;   // set while another connection may be accepted
    net::Event empty;  // set while there is no connection
    Http1Connection* first = nullptr;
    bool is_draining = false;
    net::TaskGroup tasks;  // goes first: its tasks use the rest
};

}  // namespace sluice::http
