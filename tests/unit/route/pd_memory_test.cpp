// What a P/D rule remembers: sessions, prefixes, hand-offs, transfer ids.
#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/net/buffer.hpp"
#include "core/route/handoffs.hpp"
#include "core/route/prefixes.hpp"
#include "core/route/sessions.hpp"
#include "core/route/transfer_ids.hpp"

using namespace sluice;

namespace {

constexpr std::uint64_t kSecond = 1'000'000;

std::uint64_t session(const std::vector<http::Header>& headers, std::string body = {}) {
    json::BodyReader reader;
    if (body.empty()) {
        return route::session_of(headers, nullptr, nullptr);
    }
    body.reserve(body.size() + json::kSlack);
    const auto parsed = reader.parse(body);
    REQUIRE(parsed);
    return route::session_of(headers, *parsed, &reader);
}

route::Chain chain_of(const std::string& text, std::uint64_t root = 1) {
    route::Chain out;
    out.assign(root, text);
    return out;
}

bool anybody(std::uint64_t) {
    return true;
}

}  // namespace

TEST_SUITE("route/sessions") {
    TEST_CASE("a session is the conversation id, else the user, and never the request's own id") {
        const auto conversation = session({{"X-Conversation-ID", "c1"}});
        CHECK(conversation != 0);
        CHECK(conversation == session({{"x-conversation-id", "c1"}, {"X-Session-ID", "s"}}));
        CHECK(session({{"X-Session-ID", "s"}}) != 0);
        CHECK(session({{"X-Request-Id", "r"}, {"X-Trace-ID", "t"}}) == 0);
        CHECK(session({{"X-Conversation-ID", "auto-17"}}) == 0);
        CHECK(session({}, R"({"user":"bob"})") != 0);
        CHECK(session({}, R"({"user":"c1"})") != conversation);
        CHECK(session({}, R"({"prompt":"\"user\": \"bob\"","metadata":{"user":"bob"}})") == 0);
        CHECK(session({{"X-Conversation-ID", "c1"}}, R"({"user":"bob"})") == conversation);
    }

    TEST_CASE("a session ends when it was not used for its time, and never by time with 0") {
        route::Sessions sessions;
        sessions.learn(7, {1, 2}, 10 * kSecond);
        REQUIRE(sessions.find(7, 20 * kSecond, 10 * kSecond));
        CHECK(sessions.find(7, 20 * kSecond, 10 * kSecond)->decode == 2);
        CHECK(sessions.find(7, 1000 * kSecond, 0));
        CHECK_FALSE(sessions.find(7, 20 * kSecond + 1, 10 * kSecond));
        CHECK(sessions.size() == 0);
    }

    TEST_CASE("the session used longest ago makes room") {
        route::Sessions sessions;
        for (std::uint64_t i = 1; i <= route::Sessions::kMost; ++i) {
            sessions.learn(i, {1, 2}, 0);
        }
        sessions.learn(1, {1, 2}, 0);
        sessions.learn(99999, {1, 2}, 0);
        CHECK(sessions.size() == route::Sessions::kMost);
        CHECK(sessions.find(1, 0, 0));
        CHECK_FALSE(sessions.find(2, 0, 0));
    }

    TEST_CASE("sessions go with either of their endpoints") {
        route::Sessions sessions;
        sessions.learn(1, {10, 20}, 0);
        sessions.learn(2, {11, 20}, 0);
        sessions.learn(3, {11, 21}, 0);
        sessions.retain([](std::uint64_t id) { return id != 10 && id != 21; });
        CHECK_FALSE(sessions.find(1, 0, 0));
        CHECK(sessions.find(2, 0, 0));
        CHECK_FALSE(sessions.find(3, 0, 0));
    }
}

TEST_SUITE("route/prefixes") {
    TEST_CASE("the deepest common beginning wins, whoever saw the shorter one") {
        route::Prefixes prefixes;
        const std::string system(640, 's');
        prefixes.learn(chain_of(system + std::string(200, 'a')), 1);
        prefixes.learn(chain_of(system + std::string(200, 'b')), 2);
        const auto a = prefixes.find(chain_of(system + std::string(200, 'a') + "more"), anybody);
        REQUIRE(a);
        CHECK(a->endpoint == 1);
        CHECK(a->length >= 640 + 128);
        const auto neither = prefixes.find(chain_of(system + std::string(200, 'c')), anybody);
        REQUIRE(neither);
        CHECK(neither->endpoint == 2);  // saw the common part last
        CHECK(neither->length == 640);
        CHECK_FALSE(prefixes.find(chain_of(std::string(640, 'x')), anybody));
    }

    TEST_CASE("an endpoint that may not serve leaves the shallower one that may") {
        route::Prefixes prefixes;
        const std::string system(640, 's');
        prefixes.learn(chain_of(system + std::string(64, 'a')), 1);
        prefixes.learn(chain_of(system), 2);
        const auto found = prefixes.find(chain_of(system + std::string(64, 'a')),
                                         [](std::uint64_t id) { return id == 2; });
        REQUIRE(found);
        CHECK(found->endpoint == 2);
        CHECK(found->length == 640);
    }

    TEST_CASE("a short prompt is known when it comes again") {
        route::Prefixes prefixes;
        prefixes.learn(chain_of("hello"), 3);
        const auto found = prefixes.find(chain_of("hello"), anybody);
        REQUIRE(found);
        CHECK(found->length == 5);
        CHECK_FALSE(prefixes.find(chain_of("hello there"), anybody));
    }

    TEST_CASE("other models, salts, tools and kinds of text do not meet") {
        std::set<std::uint64_t> roots;
        for (const char kind : {'t', 'j'}) {
            for (const char* model : {"", "m"}) {
                for (const char* salt : {"", "m"}) {
                    for (const char* tools : {"", "m"}) {
                        roots.insert(route::chain_root(kind, model, salt, tools));
                    }
                }
            }
        }
        CHECK(roots.size() == 16);
    }

    TEST_CASE("the memory has a bound, and a chain loses its end first") {
        route::Prefixes prefixes;
        const std::string first = "first" + std::string(60, ' ') + std::string(64, 'x');
        for (std::uint32_t i = 0; prefixes.size() < route::Prefixes::kMost; ++i) {
            prefixes.learn(chain_of(std::string(1 << 20, 'p'), i + 10), 1);
        }
        prefixes.learn(chain_of(first), 2);
        CHECK(prefixes.size() == route::Prefixes::kMost);
        CHECK(prefixes.find(chain_of(first), anybody)->endpoint == 2);
        prefixes.retain([](std::uint64_t id) { return id == 2; });
        CHECK(prefixes.size() == chain_of(first).pieces().size());
    }

    TEST_CASE("a prompt of any length has a bounded chain") {
        CHECK(chain_of(std::string(80U << 20U, 'x')).pieces().size() < route::Chain::kMaxPieces);
        CHECK(chain_of(std::string(80U << 20U, 'x')).size() == 80U << 20U);
    }
}

TEST_SUITE("route/handoffs") {
    TEST_CASE("an object is given once, and only in the first half of its lease") {
        const auto ledger = std::make_shared<route::Ledger>();
        auto fresh = ledger->open("{}", 1, 30 * kSecond, 100 * kSecond);
        CHECK(fresh.give(114 * kSecond) == "{}");
        CHECK_FALSE(fresh.give(114 * kSecond));
        auto old = ledger->open("{}", 1, 30 * kSecond, 100 * kSecond);
        CHECK_FALSE(old.give(115 * kSecond));
        CHECK_FALSE(old.is_good(115 * kSecond));
    }

    TEST_CASE("an object that never left may be given to another endpoint") {
        const auto ledger = std::make_shared<route::Ledger>();
        auto handoff = ledger->open("{}", 1, 30 * kSecond, 0);
        REQUIRE(handoff.give(1));
        handoff.take_back();
        CHECK(handoff.give(2));
        CHECK_FALSE(handoff.give(3));
    }

    TEST_CASE("a hand-off ends exactly once, and an abandoned one when its time has passed") {
        const auto ledger = std::make_shared<route::Ledger>();
        {
            auto read = ledger->open("{}", 1, 30 * kSecond, 0);
            auto released = ledger->open("{}", 1, 30 * kSecond, 0);
            auto abandoned = ledger->open("{}", 1, 30 * kSecond, 0);
            auto unknown = ledger->open("{}", 1, 0, 0);
            CHECK(ledger->outstanding(1, 1) == 4);
            CHECK(ledger->outstanding(2, 1) == 0);
            read.was_read();
            read.was_released();
            released.was_released();
            auto moved = std::move(abandoned);
        }
        CHECK(ledger->outstanding(1, 29 * kSecond) == 1);
        CHECK(ledger->counts(29 * kSecond).expired == 0);
        CHECK(ledger->outstanding(1, 30 * kSecond) == 0);
        const auto counts = ledger->counts(30 * kSecond);
        CHECK(counts.read == 1);
        CHECK(counts.released == 1);
        CHECK(counts.expired == 1);
        CHECK(counts.unused == 1);
    }

    TEST_CASE("what is abandoned has a bound") {
        const auto ledger = std::make_shared<route::Ledger>();
        for (std::size_t i = 0; i < route::Ledger::kMostAbandoned + 10; ++i) {
            (void)ledger->open("", 1, 30 * kSecond, 0);
        }
        CHECK(ledger->outstanding(1, 1) == route::Ledger::kMostAbandoned);
        CHECK(ledger->counts(1).expired == 10);
        ledger->forget(1);
        CHECK(ledger->outstanding(1, 1) == 0);
    }
}

TEST_SUITE("route/handoffs of another process") {
    TEST_CASE("what an earlier process gave is never good again, and ends at once") {
        const auto ledger = std::make_shared<route::Ledger>();
        {
            route::Handoff old = ledger->open("old", 1, 1000, 0);
            route::Handoff other = ledger->open("other", 2, 1000, 0);
            ledger->forget(1);
            CHECK(ledger->outstanding(1, 1) == 0);
            CHECK_FALSE(old.is_held());
            CHECK_FALSE(old.give(1));
            CHECK(other.give(1) == "other");
            // Of the process that is there now.
            route::Handoff fresh = ledger->open("fresh", 1, 1000, 1);
            CHECK(fresh.give(2) == "fresh");
            CHECK(ledger->outstanding(1, 2) == 1);
            old.abandon();
            CHECK(ledger->outstanding(1, 2) == 1);
            CHECK(ledger->counts(2).expired == 1);
            fresh.was_read();
            CHECK(ledger->outstanding(1, 2) == 0);
        }
        CHECK(ledger->counts(2).read == 1);
        CHECK(ledger->outstanding(2, 2) == 1);
    }

    TEST_CASE("one that was already given ends as it was told, and takes nobody's place") {
        const auto ledger = std::make_shared<route::Ledger>();
        route::Handoff old = ledger->open("old", 1, 1000, 0);
        CHECK(old.give(1) == "old");
        ledger->forget(1);
        ledger->forget(1);
        const route::Handoff fresh = ledger->open("fresh", 1, 1000, 2);
        old.was_read();
        CHECK(ledger->outstanding(1, 3) == 1);
        CHECK(ledger->counts(3).read == 1);
        CHECK(fresh.is_held());
    }
}

TEST_SUITE("route/transfer_ids") {
    TEST_CASE("ids are between 2^42 and 2^63 and do not repeat") {
        route::TransferIds ids;
        std::set<std::uint64_t> seen;
        for (const std::uint64_t at :
             {std::uint64_t{0}, std::uint64_t{1'800'000'000'000'000}, UINT64_MAX}) {
            for (int i = 0; i < 1000; ++i) {
                const std::uint64_t id = ids.next(at);
                CHECK(id >= std::uint64_t{1} << 42U);
                CHECK(id < std::uint64_t{1} << 63U);
                seen.insert(id);
            }
        }
        CHECK(seen.size() == 3000);
    }

    TEST_CASE("two gateways that start together go different ways") {
        route::TransferIds a(1, 3);
        route::TransferIds b(2, 5);
        std::set<std::uint64_t> seen;
        for (int i = 0; i < 100; ++i) {
            seen.insert(a.next(1'800'000'000'000'000));
            seen.insert(b.next(1'800'000'000'000'000));
        }
        CHECK(seen.size() > 150);
    }
}
