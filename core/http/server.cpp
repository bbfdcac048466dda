#include "core/http/server.hpp"

#include "core/base/log.hpp"
#include "core/http/respond.hpp"
#include "core/http/server_connection.hpp"
#include "core/http/server_impl.hpp"

namespace sluice::http {
namespace {

std::string_view code_for(int status) noexcept {
    switch (status) {
        case 408:
            return "request_timeout";
        case 413:
            return "body_too_large";
        case 417:
            return "expectation_failed";
        case 431:
            return "headers_too_large";
        case 500:
            return "internal_error";
        case 501:
            return "not_implemented";
        case 505:
            return "http_version_not_supported";
        default:
            return "bad_request";
    }
}

net::Task<void> serve(Server::Impl& server, net::Accepted accepted);

}  // namespace

std::string Handler::error_body(int status, std::string_view message) {
    return error_json(message, status >= 500 ? "server_error" : "invalid_request_error",
                      code_for(status));
}

void Server::Impl::connection_begins(Http1Connection& connection) noexcept {
    connection.next = first;
    if (first != nullptr) {
        first->previous = &connection;
    }
    first = &connection;
    empty.reset();
    add(counters.accepted, 1);
    add(counters.connections, 1);
    if (limits.max_connections != 0 && counters.connections.load() >= limits.max_connections) {
        room.reset();
    }
    handler.connection_opened();
}

void Server::Impl::connection_ends(Http1Connection& connection) noexcept {
    (connection.previous != nullptr ? connection.previous->next : first) = connection.next;
    if (connection.next != nullptr) {
        connection.next->previous = connection.previous;
    }
    add(counters.connections, ~std::uint64_t{0});
    room.set();
    if (first == nullptr) {
        empty.set();
    }
    handler.connection_closed();
}

net::Task<void> Server::Impl::accept_all() {
    room.set();
    while (listener.is_open()) {
        const net::Wait wait{.deadline_us = net::kNever, .cancel = &stop_accepting};
        const Status has_room = co_await room.wait(wait);
        if (!has_room.ok()) {
            break;
        }
        auto accepted = co_await listener.accept(wait);
        counters.accept_pauses.store(listener.stats().refused_no_descriptor,
                                     std::memory_order_relaxed);
        if (!accepted.ok()) {
            const Code why = accepted.error().code;
            if (why != Code::Cancelled && why != Code::Closed) {
                log::error("accepting stopped", {{"why", accepted.error().what}});
            }
            break;
        }
        tasks.spawn(serve(*this, std::move(accepted).value()));
    }
}

namespace {

net::Task<void> serve(Server::Impl& server, net::Accepted accepted) {
    Http1Connection connection(server, std::move(accepted));
    co_await connection.run();
}

}  // namespace

Server::Server(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}

Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::listen(net::Loop& loop, const net::Address& at,
                                               Handler& handler, const ServerLimits& limits,
                                               const net::ListenOptions& options) {
    auto listener = net::Listener::open(loop, at, options);
    if (!listener.ok()) {
        return std::move(listener).error();
    }
    auto impl = std::make_unique<Impl>(loop, std::move(listener).value(), handler, limits);
    Impl& shared = *impl;
    std::unique_ptr<Server> server(new Server(std::move(impl)));
    shared.tasks.spawn(shared.accept_all());
    return server;
}

net::Address Server::local() const noexcept {
    return impl_->listener.local();
}

void Server::set_limits(const ServerLimits& limits) noexcept {
    impl_->limits = limits;
    const auto now = impl_->counters.connections.load(std::memory_order_relaxed);
    if (limits.max_connections == 0 || now < limits.max_connections) {
        impl_->room.set();
    }
}

const ServerCounters& Server::counters() const noexcept {
    return impl_->counters;
}

void Server::stop_accepting() noexcept {
    impl_->stop_accepting.fire();
    impl_->listener.close();
}

void Server::drain() noexcept {
    impl_->is_draining = true;
    stop_accepting();
    impl_->idle.fire();
}

bool Server::is_draining() const noexcept {
    return impl_->is_draining;
}

void Server::abort_all() noexcept {
    for (Http1Connection* c = impl_->first; c != nullptr; c = c->next) {
        c->end_now();
    }
}

net::Task<Status> Server::closed(net::Wait wait) {
    co_return co_await impl_->empty.wait(wait);
}

}  // namespace sluice::http
