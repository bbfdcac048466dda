#include "core/net/keepalive.hpp"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "core/net/loop.hpp"

using namespace sluice;

namespace {

int option(int fd, int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    REQUIRE(::getsockopt(fd, level, name, &value, &size) == 0);
    return value;
}

}  // namespace

TEST_SUITE("net/keepalive") {
    TEST_CASE("a silent peer is asked as often as is said, as far as the kernel goes") {
        const auto loop = net::Loop::create().value();
        const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        REQUIRE(fd >= 0);
        auto socket = net::Socket::adopt(*loop, fd).value();
        struct Row {
            std::chrono::seconds asked;
            int got;
        };
        for (const Row& row : {Row{std::chrono::seconds(7), 7}, Row{std::chrono::seconds(1), 1},
                               Row{std::chrono::seconds(86'400), 32'767}}) {
            CAPTURE(row.got);
            net::keep_alive_every(socket, row.asked);
            CHECK(option(fd, SOL_SOCKET, SO_KEEPALIVE) == 1);
            CHECK(option(fd, IPPROTO_TCP, TCP_KEEPIDLE) == row.got);
            CHECK(option(fd, IPPROTO_TCP, TCP_KEEPINTVL) == row.got);
            CHECK(option(fd, IPPROTO_TCP, TCP_KEEPCNT) == 3);
        }
    }
}
