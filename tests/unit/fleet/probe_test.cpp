#include "core/fleet/probe.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "tests/unit/fleet/servers.hpp"

using namespace sluice;
using fleet::Prober;
using fleet::ProbeStatePtr;
using rules::ProbeSpec;
using test::Conversation;
using test::Loopback;
using Kind = ProbeSpec::Kind;

namespace {

constexpr const char* kHealthy = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
constexpr const char* kSick = "HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n";

ProbeSpec spec_of(Kind kind, std::uint16_t port, std::uint32_t retries = 1) {
    ProbeSpec out;
    out.kind = kind;
    out.address = "127.0.0.1";
    out.port = port;
    out.retries = retries;
    return out;
}

// Ends as soon as it is so; a test fails after 20 s.
template <class Condition>
bool becomes(const Condition& condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > limit) {
            return false;
        }
        std::this_thread::yield();
    }
    return true;
}

}  // namespace

TEST_SUITE("fleet/probe") {
    TEST_CASE("the first try is made at once, and counts") {
        const Loopback server(SOCK_STREAM, 4);
        Prober prober;
        REQUIRE(prober.start());
        const ProbeStatePtr state = prober.probe(spec_of(Kind::Http, server.port()));
        CHECK(state->is_up());
        Conversation peer(server);
        peer.until("\r\n\r\n");
        CHECK(state->is_up());  // eligible until there is a result
        peer.say(kSick);
        CHECK(becomes([&] { return !state->is_up(); }));
        CHECK(state->reason() == "probe: status 500");
        CHECK(state->changed_us() != 0);
        CHECK(state->delays().tries == 0);
    }

    TEST_CASE("one failure of several allowed ones changes the reason only") {
        const Loopback server(SOCK_STREAM, 4);
        Prober prober;
        REQUIRE(prober.start());
        const ProbeStatePtr state = prober.probe(spec_of(Kind::Http, server.port(), 2));
        Conversation peer(server);
        peer.until("\r\n\r\n");
        peer.say(kSick);
        CHECK(becomes([&] { return !state->reason().empty(); }));
        CHECK(state->is_up());
    }

    TEST_CASE("a new probe of an endpoint that was down waits for a success") {
        const Loopback server(SOCK_STREAM, 4);
        Prober prober;
        REQUIRE(prober.start());
        const ProbeStatePtr down = prober.probe(spec_of(Kind::Http, server.port()));
        {
            Conversation peer(server);
            peer.until("\r\n\r\n");
            peer.say(kSick);
        }
        REQUIRE(becomes([&] { return !down->is_up(); }));
        ProbeSpec other = spec_of(Kind::Http, server.port());
        other.interval_sec = 30;
        const ProbeStatePtr next = prober.probe(other, down.get());
        CHECK_FALSE(next->is_up());
        CHECK(next->reason() == "probe: status 500");
        Conversation peer(server);
        peer.until("\r\n\r\n");
        peer.say(kHealthy);
        CHECK(becomes([&] { return next->is_up(); }));
        CHECK(next->reason().empty());
        CHECK(next->delays().tries == 1);
    }

    TEST_CASE("what is the same is one probe, what differs in anything is another") {
        const Loopback server(SOCK_STREAM, 64);
        Prober prober;
        REQUIRE(prober.start());
        const ProbeSpec spec = spec_of(Kind::Http, server.port());
        const ProbeStatePtr state = prober.probe(spec);
        CHECK(prober.probe(spec) == state);
        std::set<ProbeStatePtr> all{state};
        const auto other = [&](auto change) {
            ProbeSpec changed = spec;
            change(changed);
            all.insert(prober.probe(changed));
        };
        other([](ProbeSpec& s) { s.kind = Kind::Tcp; });
        other([](ProbeSpec& s) { s.address = "127.0.0.2"; });
        other([](ProbeSpec& s) { s.method = "HEAD"; });
        other([](ProbeSpec& s) { s.path = "/a"; });
        other([](ProbeSpec& s) { s.codes = "204"; });
        other([](ProbeSpec& s) { s.version = "1.0"; });
        other([](ProbeSpec& s) { s.domain = "a.example"; });
        other([](ProbeSpec& s) { s.reply = "a"; });
        other([](ProbeSpec& s) { s.interval_sec = 9; });
        other([](ProbeSpec& s) { s.retries = 9; });
        CHECK(all.size() == 11);
        CHECK(prober.probe(spec_of(Kind::None, 1)) == nullptr);
    }

    TEST_CASE("the same question is asked once at a time, whoever asks") {
        const Loopback server(SOCK_STREAM, 4);
        Prober prober;
        REQUIRE(prober.start());
        ProbeSpec patient = spec_of(Kind::Http, server.port());
        ProbeSpec picky = patient;
        picky.codes = "200,204";
        picky.interval_sec = 30;
        const ProbeStatePtr first = prober.probe(patient);
        const ProbeStatePtr second = prober.probe(picky);
        {
            Conversation peer(server);
            peer.until("\r\n\r\n");
            // Something else asked of the same address comes through meanwhile.
            ProbeSpec path = patient;
            path.path = "/other";
            const ProbeStatePtr third = prober.probe(path);
            Conversation other(server);
            CHECK(other.until("\r\n\r\n").starts_with("GET /other "));
            other.say(kHealthy);
            REQUIRE(becomes([&] { return third->delays().tries == 1; }));
            CHECK_FALSE(test::is_readable(server.fd(), 0));
            CHECK(second->delays().tries == 0);
            peer.say(kHealthy);
        }
        REQUIRE(becomes([&] { return first->delays().tries == 1; }));
        Conversation peer(server);
        peer.until("\r\n\r\n");
        peer.say(kHealthy);
        CHECK(becomes([&] { return second->delays().tries == 1; }));
    }

    TEST_CASE("a probe that nobody wants any more ends in the midst of its try") {
        const Loopback server(SOCK_STREAM, 4);
        Prober prober;
        REQUIRE(prober.start());
        const ProbeStatePtr state = prober.probe(spec_of(Kind::Http, server.port()));
        Conversation peer(server);
        peer.until("\r\n\r\n");
        prober.retain({});
        CHECK(peer.has_ended());
        CHECK(state->is_up());
        // Asked for again, it is another probe, and it starts at once.
        const ProbeStatePtr again = prober.probe(state->spec());
        CHECK(again != state);
        Conversation next(server);
        CHECK(next.until("\r\n\r\n").starts_with("GET / "));
    }

    TEST_CASE("what this side cannot do takes no endpoint out") {
        ProbeSpec spec = spec_of(Kind::Sctp, 9);
        Prober prober;
        REQUIRE(prober.start());
        const ProbeStatePtr state = prober.probe(spec);
        REQUIRE(becomes([&] { return !state->reason().empty(); }));
        CHECK(state->is_up() == !fleet::can_probe(spec).ok());
    }
}
