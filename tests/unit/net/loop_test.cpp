#include "core/net/loop.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>

#include "core/net/event.hpp"

using namespace sluice;
using namespace sluice::net;
using namespace std::chrono_literals;

namespace {

const Address kLoopback = Address::parse("127.0.0.1:0").value();

struct Pair {
    Socket a;
    Socket b;
};

Pair make_pair(Loop& loop) {
    int fds[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    return {Socket::adopt(loop, fds[0]).value(), Socket::adopt(loop, fds[1]).value()};
}

// A TCP connection over the loopback: both ends.
Task<Pair> make_tcp_pair(Loop& loop, Address at) {
    Listener listener = Listener::open(loop, at).value();
    auto to = co_await connect(loop, listener.local());
    auto from = co_await listener.accept();
    co_return Pair{std::move(to).value(), std::move(from).value().socket};
}

Task<Status> send_text(Socket& socket, std::string_view text, Wait wait = {}) {
    iovec part{const_cast<char*>(text.data()), text.size()};
    const auto sent = co_await socket.send({&part, 1}, wait);
    if (!sent.ok()) {
        co_return sent.error();
    }
    co_return Status{};
}

Task<std::string> recv_text(Socket& socket) {
    char bytes[256];
    const auto got = co_await socket.recv(bytes);
    co_return got.ok() ? std::string(bytes, *got) : "error: " + got.error().what;
}

}  // namespace

TEST_SUITE("net/loop") {
    TEST_CASE("bytes go through a TCP connection on IPv4 and IPv6") {
        for (const char* at : {"127.0.0.1:0", "[::1]:0"}) {
            CAPTURE(at);
            auto loop = Loop::create().value();
            auto body = [](Loop& l, Address where) -> Task<std::string> {
                Pair pair = co_await make_tcp_pair(l, where);
                CHECK(pair.a.peer() == pair.b.local());
                CHECK(pair.b.peer().format() == pair.a.local().format());
                const Status sent = co_await send_text(pair.a, "hello");
                CHECK(sent.ok());
                co_return co_await recv_text(pair.b);
            };
            CHECK(run_task(*loop, body(*loop, Address::parse(at).value())) == "hello");
        }
    }

    TEST_CASE("the end of the peer's data is read as 0 bytes, after the data") {
        auto loop = Loop::create().value();
        auto body = [](Loop& l) -> Task<void> {
            Pair pair = co_await make_tcp_pair(l, kLoopback);
            const Status sent = co_await send_text(pair.a, "bye");
            CHECK(sent.ok());
            pair.a.close();
            char bytes[2];
            std::string all;
            for (;;) {
                const auto got = co_await pair.b.recv(bytes);
                REQUIRE(got.ok());
                if (*got == 0) {
                    break;
                }
                all.append(bytes, *got);
            }
            CHECK(all == "bye");
        };
        run_task(*loop, body(*loop));
    }

    TEST_CASE("a wait ends at its deadline, and not before") {
        auto loop = Loop::create().value();
        auto body = [](Loop& l) -> Task<void> {
            Pair pair = make_pair(l);
            char bytes[8];
            const std::uint64_t deadline_us = l.after(3ms);
            const auto got = co_await pair.a.recv(bytes, {.deadline_us = deadline_us});
            CHECK(got.error().code == Code::Timeout);
            CHECK(l.now_us() >= deadline_us);
            const std::uint64_t wake_us = l.after(2ms);
            const Status slept = co_await l.sleep_until(wake_us);
            CHECK(slept.ok());
            CHECK(l.now_us() >= wake_us);
        };
        run_task(*loop, body(*loop));
    }

    TEST_CASE("a deadline in the past ends what would wait, but not what is there") {
        auto loop = Loop::create().value();
        auto body = [](Loop& l) -> Task<void> {
            Pair pair = make_pair(l);
            char bytes[8];
            const auto late = co_await pair.a.recv(bytes, {.deadline_us = 1});
            CHECK(late.error().code == Code::Timeout);
            const Status sent = co_await send_text(pair.b, "x", {.deadline_us = 1});
            CHECK(sent.ok());
            const Status ready = co_await pair.a.readable();
            CHECK(ready.ok());
            const auto there = co_await pair.a.recv(bytes, {.deadline_us = 1});
            CHECK(there.ok());
        };
        run_task(*loop, body(*loop));
    }

    TEST_CASE("a cancel ends every wait that was given it, and what begins later") {
        auto loop = Loop::create().value();
        auto body = [](Loop& l) -> Task<void> {
            Pair pair = make_pair(l);
            Cancel parent;
            Cancel child(parent);
            int cancelled = 0;
            auto waiter = [](Socket& s, Cancel& c, int& count) -> Task<void> {
                char bytes[8];
                const auto got = co_await s.recv(bytes, {.cancel = &c});
                count += !got.ok() && got.error().code == Code::Cancelled ? 1 : 0;
            };
            TaskGroup group;
            group.spawn(waiter(pair.a, parent, cancelled));
            group.spawn(waiter(pair.b, child, cancelled));
            CHECK(group.size() == 2);
            parent.fire();
            CHECK(cancelled == 0);  // queued, not resumed by fire()
            const Status slept = co_await l.sleep_until(l.after(1ms));
            CHECK(slept.ok());
            CHECK(cancelled == 2);
            CHECK(group.size() == 0);
            const Status sent = co_await send_text(pair.a, "x", {.cancel = &child});
            CHECK(sent.error().code == Code::Cancelled);
            child.reset();
            const Status again = co_await send_text(pair.a, "x", {.cancel = &child});
            CHECK(again.ok());
        };
        run_task(*loop, body(*loop));
    }

    TEST_CASE("closing a socket ends what is pending on it") {
        auto loop = Loop::create().value();
        auto body = [](Loop& l) -> Task<void> {
            Pair pair = make_pair(l);
            Code code = Code::Internal;
            auto waiter = [](Socket& s, Code& out) -> Task<void> {
                char bytes[8];
                const auto got = co_await s.recv(bytes);
                out = got.ok() ? Code::Internal : got.error().code;
            };
            TaskGroup group;
            group.spawn(waiter(pair.a, code));
            pair.a.close();
            const Status slept = co_await l.sleep_until(l.after(1ms));
            CHECK(slept.ok());
            CHECK(code == Code::Closed);
            char bytes[8];
            const auto got = co_await pair.a.recv(bytes);
            CHECK(got.error().code == Code::Closed);
        };
        run_task(*loop, body(*loop));
    }

    TEST_CASE("frames may be destroyed while they wait, queued ones too") {
        auto loop = Loop::create().value();
        auto body = [](Loop& l) -> Task<void> {
            Pair pair = make_pair(l);
            Event event(l);
            bool resumed = false;
            auto on_socket = [](Socket& s, bool& flag) -> Task<void> {
                char bytes[8];
                (void)co_await s.recv(bytes, {.deadline_us = 1'000'000'000'000});
                flag = true;
            };
            auto on_event = [](Event& e, bool& flag) -> Task<void> {
                (void)co_await e.wait();
                flag = true;
            };
            {
                TaskGroup group;
                group.spawn(on_socket(pair.a, resumed));
                group.spawn(on_event(event, resumed));
                group.spawn(on_event(event, resumed));
                event.set();  // both are queued now
            }
            const Status sent = co_await send_text(pair.b, "x");
            CHECK(sent.ok());
            const Status slept = co_await l.sleep_until(l.after(1ms));
            CHECK(slept.ok());
            CHECK_FALSE(resumed);
        };
        run_task(*loop, body(*loop));
    }

    TEST_CASE("a large send goes on as the reader makes room") {
        auto loop = Loop::create().value();
        auto body = [](Loop& l) -> Task<void> {
            Pair pair = co_await make_tcp_pair(l, kLoopback);
            const std::string text(16'000'000, 'x');
            auto sender = [](Socket& s, const std::string& what, bool& done) -> Task<void> {
                std::string_view all(what);
                iovec parts[3] = {{const_cast<char*>(all.data()), 10},
                                  {nullptr, 0},
                                  {const_cast<char*>(all.data()) + 10, all.size() - 10}};
                const auto sent = co_await s.send(parts);
                done = sent.ok() && *sent == all.size();
                s.shutdown_send();
            };
            bool done = false;
            TaskGroup group;
            group.spawn(sender(pair.a, text, done));
            CHECK_FALSE(done);
            std::size_t total = 0;
            std::string bytes(65536, '\0');
            for (;;) {
                const auto got = co_await pair.b.recv(bytes);
                REQUIRE(got.ok());
                if (*got == 0) {
                    break;
                }
                total += *got;
            }
            CHECK(done);
            CHECK(total == text.size());
        };
        run_task(*loop, body(*loop));
    }

    TEST_CASE("a send that may be interrupted ends when an answer arrives") {
        auto loop = Loop::create().value();
        auto body = [](Loop& l) -> Task<void> {
            Pair pair = co_await make_tcp_pair(l, kLoopback);
            const std::string text(8'000'000, 'x');
            auto answer = [](Loop& on, Socket& s) -> Task<void> {
                const Status slept = co_await on.sleep_until(on.after(1ms));
                CHECK(slept.ok());
                const Status sent = co_await send_text(s, "enough");
                CHECK(sent.ok());
            };
            TaskGroup group;
            group.spawn(answer(l, pair.b));
            iovec part{const_cast<char*>(text.data()), text.size()};
            const auto sent = co_await pair.a.send({&part, 1}, {}, true);
            REQUIRE(sent.ok());
            CHECK(*sent < text.size());
            CHECK(part.iov_len == text.size() - *sent);
        };
        run_task(*loop, body(*loop));
    }

    TEST_CASE("a hang-up is heard while bytes are still unread") {
        auto loop = Loop::create().value();
        struct Watcher final : SocketWatcher {
            void on_hangup() noexcept override {
                ++hangups;
                heard.fire();
            }
            void on_readable() noexcept override { ++reads; }
            int hangups = 0;
            int reads = 0;
            Cancel heard;
        };
        auto body = [](Loop& l) -> Task<void> {
            for (const int how : {0, 1, 2}) {
                CAPTURE(how);
                Watcher watcher;
                Pair pair = co_await make_tcp_pair(l, kLoopback);
                pair.b.watch(&watcher);
                const Status sent = co_await send_text(pair.a, "pipelined");
                CHECK(sent.ok());
                if (how == 0) {
                    pair.a.shutdown_send();  // a half-close
                } else if (how == 1) {
                    pair.a.close();
                } else {
                    pair.a.close_reset();
                }
                const Status waited = co_await l.sleep_until(l.after(20s), &watcher.heard);
                CHECK(waited.error().code == Code::Cancelled);
                CHECK(watcher.hangups == 1);
                CHECK(pair.b.is_hung_up());
                Watcher late;
                pair.b.watch(&late);
                CHECK(late.hangups == 1);
            }
        };
        run_task(*loop, body(*loop));
    }

    TEST_CASE("connecting to a closed port is refused, and a cancel ends connecting") {
        auto loop = Loop::create().value();
        auto body = [](Loop& l) -> Task<void> {
            Listener listener = Listener::open(l, kLoopback).value();
            const Address gone = listener.local();
            listener.close();
            const auto refused = co_await connect(l, gone);
            CHECK(refused.error().code == Code::Unavailable);
            Cancel cancel;
            cancel.fire();
            const auto cancelled = co_await connect(l, gone, {.cancel = &cancel});
            CHECK_FALSE(cancelled.ok());
        };
        run_task(*loop, body(*loop));
    }

    TEST_CASE("an address in use by another owner of the port cannot be bound") {
        auto loop = Loop::create().value();
        Listener first = Listener::open(*loop, kLoopback, {.reuse_port = false}).value();
        const auto second = Listener::open(*loop, first.local(), {.reuse_port = false});
        CHECK(second.error().code == Code::Unavailable);
        Listener shared = Listener::open(*loop, kLoopback).value();
        CHECK(Listener::open(*loop, shared.local()).ok());
    }

    TEST_CASE("a listener out of descriptors rests, counts it and goes on") {
        auto loop = Loop::create().value();
        auto body = [](Loop& l) -> Task<void> {
            Listener listener = Listener::open(l, kLoopback).value();
            auto client = co_await connect(l, listener.local());
            CHECK(client.ok());
            rlimit before{};
            REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
            rlimit none = before;
            none.rlim_cur = 3;
            REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
            const auto none_left = co_await listener.accept({.deadline_us = l.after(20ms)});
            CHECK_FALSE(none_left.ok());
            REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
            CHECK(listener.stats().refused_no_descriptor == 1);
            const auto accepted = co_await listener.accept({.deadline_us = l.after(20s)});
            REQUIRE(accepted.ok());
            CHECK(accepted->peer == client->local());
            CHECK(listener.stats().accepted == 1);
        };
        run_task(*loop, body(*loop));
    }

    TEST_CASE("work posted by other threads runs on the loop, in order") {
        auto loop = Loop::create().value();
        std::vector<int> seen;
        std::jthread other([&] {
            for (int i = 0; i < 100; ++i) {
                loop->post([&seen, i] { seen.push_back(i); });
            }
            loop->post([&] { loop->stop(); });
        });
        loop->run();
        CHECK(seen.size() == 100);
        CHECK(std::is_sorted(seen.begin(), seen.end()));
    }

    TEST_CASE("what a task throws reaches whoever runs it, and the loop stops") {
        auto loop = Loop::create().value();
        auto body = [](Loop& l) -> Task<int> {
            (void)co_await l.sleep_until(l.after(1ms));
            throw std::runtime_error("broken");
        };
        CHECK_THROWS_WITH(run_task(*loop, body(*loop)), "broken");
    }

    TEST_CASE("a task that never waits does not starve the others") {
        auto loop = Loop::create().value();
        auto body = [](Loop& l) -> Task<void> {
            Event set(l);
            set.set();
            bool stop = false;
            auto greedy = [](Event& e, bool& end) -> Task<void> {
                while (!end) {
                    (void)co_await e.wait();
                }
            };
            TaskGroup group;
            group.spawn(greedy(set, stop));
            const Status slept = co_await l.sleep_until(l.after(1ms));
            CHECK(slept.ok());
            stop = true;
            const Status again = co_await l.sleep_until(l.after(1ms));
            CHECK(again.ok());
            CHECK(group.size() == 0);
        };
        run_task(*loop, body(*loop));
    }

    TEST_CASE("tasks left over are destroyed with their loop") {
        struct Flag {
            bool& gone;
            ~Flag() { gone = true; }
        };
        bool gone = false;
        {
            auto loop = Loop::create().value();
            auto forever = [](Loop& l, bool& out) -> Task<void> {
                const Flag flag{out};
                Pair pair = make_pair(l);
                (void)co_await pair.a.readable();
            };
            loop->spawn(forever(*loop, gone));
            CHECK(loop->spawned() == 1);
        }
        CHECK(gone);
    }
}
