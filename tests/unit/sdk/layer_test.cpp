// The C++ layer: barrier, rows, edits, owners of timers, calls and sockets.
#include <doctest/doctest.h>

#include <array>
#include <stdexcept>

#include "sluice/sdk_testing.hpp"

using namespace sluice;
using sluice::testing::FakeHost;
using sluice::testing::HttpReply;

namespace {

// The members of a flat JSON object, as the gateway would list them.
struct Body {
    explicit Body(std::string json) : text(std::move(json)) {
        std::size_t at = text.find('{') + 1;
        while ((at = text.find('"', at)) != std::string::npos) {
            sluice_field f{};
            f.size = sizeof f;
            f.at = at;
            const std::size_t name_end = skip_string(at);
            names.push_back(std::make_unique<std::string>(text.substr(at + 1, name_end - at - 2)));
            f.name = borrow(*names.back());
            f.value_at = text.find_first_not_of(" \n", text.find(':', name_end) + 1);
            const std::size_t end = value_end(f.value_at);
            f.value_bytes = end - f.value_at;
            fields.push_back(f);
            at = end;
        }
    }
    std::size_t skip_string(std::size_t at) const {
        do {
            ++at;
            at += text[at] == '\\' ? 1 : 0;
        } while (text[at] != '"');
        return at + 1;
    }
    std::size_t value_end(std::size_t at) const {
        int depth = 0;
        for (; at < text.size(); ++at) {
            const char c = text[at];
            if (c == '"') {
                at = skip_string(at) - 1;
            } else if (c == '{' || c == '[') {
                ++depth;
            } else if (c == '}' || c == ']') {
                if (depth == 0) {
                    return at;
                }
                --depth;
            } else if (depth == 0 && (c == ',' || c == ' ' || c == '\n')) {
                return at;
            }
        }
        return at;
    }
    sluice_array array() const { return array_of(std::span<const sluice_field>(fields)); }
    std::string apply(const Edits& edits) const {
        std::string out;
        std::uint64_t done = 0;
        for (const Edits::Span& s : edits.spans()) {
            REQUIRE(s.at >= done);
            out += text.substr(done, s.at - done) + s.data;
            done = s.at + s.erase;
        }
        return out + text.substr(done);
    }
    std::string text;
    std::vector<std::unique_ptr<std::string>> names;
    std::vector<sluice_field> fields;
};

}  // namespace

TEST_SUITE("sdk/core") {
    TEST_CASE("every exception becomes a status, and its text reaches the caller") {
        sluice_error err = make_error();
        CHECK(guard(&err, []() -> sluice_status {
                  throw Failure(SLUICE_E_CONFIG, "kvBlockSize: no");
              }) == SLUICE_E_CONFIG);
        CHECK(view(err) == "kvBlockSize: no");
        CHECK(err.code == SLUICE_E_CONFIG);
        CHECK(guard(&err, []() -> sluice_status { throw std::bad_alloc(); }) == SLUICE_E_NO_MEMORY);
        CHECK(guard(&err, []() -> sluice_status { throw std::runtime_error("x"); }) ==
              SLUICE_E_INTERNAL);
        CHECK(guard(&err, []() -> sluice_status { throw 7; }) == SLUICE_E_INTERNAL);
        CHECK(guard(nullptr, []() -> sluice_status { throw 7; }) == SLUICE_E_INTERNAL);
        sluice_error untouched = make_error();
        CHECK(guard(&untouched, []() -> sluice_status { return SLUICE_PASS; }) == SLUICE_PASS);
        CHECK(untouched.len == 0);
    }

    TEST_CASE("a long text is cut between characters, a shorter error struct is left alone") {
        sluice_error err = make_error();
        std::string text(243, 'a');
        text += "ü and more";
        report(&err, SLUICE_E_INVALID, text);
        CHECK(view(err) == std::string(243, 'a'));
        sluice_error old{};
        old.size = 8;
        CHECK(report(&old, SLUICE_E_INVALID, "x") == SLUICE_E_INVALID);
        CHECK(old.len == 0);
    }

    TEST_CASE("rows of a newer host are walked by its stride") {
        struct Longer {
            sluice_pair pair;
            char tail[24];
        };
        std::array<Longer, 3> rows{};
        for (std::size_t i = 0; i < rows.size(); ++i) {
            rows[i].pair.key.len = i + 1;
        }
        const Rows<sluice_pair> view_of({rows.data(), 3, sizeof(Longer)});
        std::size_t sum = 0;
        for (const sluice_pair& p : view_of) {
            sum = sum * 10 + p.key.len;
        }
        CHECK(sum == 123);
        CHECK(view_of[2].key.len == 3);
        CHECK(Rows<sluice_pair>({nullptr, 0, 0}).empty());
    }
}

TEST_SUITE("sdk/edits") {
    TEST_CASE("members are set and dropped with the right commas, the rest stays byte for byte") {
        struct Row {
            const char* name;
            const char* body;
            void (*edit)(Edits&);
            const char* want;
        };
        for (const Row& row : {
                 Row{"nothing", R"({ "a" : 1.0e0 })", [](Edits&) {}, R"({ "a" : 1.0e0 })"},
                 Row{"set", R"({"a":1,"b": 2 })", [](Edits& e) { e.set("b", "3"); },
                     R"({"a":1,"b": 3 })"},
                 Row{"add", R"({"a":1})", [](Edits& e) { e.set("b", "2").set("c", "3"); },
                     R"({"a":1,"b":2,"c":3})"},
                 Row{"add to nothing", R"({ })", [](Edits& e) { e.set("b", "2").set("c", "3"); },
                     R"({"b":2,"c":3 })"},
                 Row{"drop first", R"({"a":1, "b":2})", [](Edits& e) { e.erase("a"); },
                     R"({"b":2})"},
                 Row{"drop last", R"({"a":1, "b":2})", [](Edits& e) { e.erase("b"); },
                     R"({"a":1})"},
                 Row{"drop middle", R"({"a":1,"b":2,"c":3})", [](Edits& e) { e.erase("b"); },
                     R"({"a":1,"c":3})"},
                 Row{"drop ends", R"({"a":1,"b":2,"c":3})",
                     [](Edits& e) { e.erase("a").erase("c"); }, R"({"b":2})"},
                 Row{"drop two in front", R"({"a":1,"b":2,"c":3})",
                     [](Edits& e) { e.erase("b").erase("a"); }, R"({"c":3})"},
                 Row{"drop all", R"({"a":1,"b":2})", [](Edits& e) { e.erase("a").erase("b"); },
                     R"({})"},
                 Row{"drop all, add", R"({"a":1,"b":2})",
                     [](Edits& e) { e.erase("a").erase("b").set("c", "3"); }, R"({"c":3})"},
                 Row{"drop last, add", R"({"a":1,"b":2})",
                     [](Edits& e) { e.erase("b").set("c", "3"); }, R"({"a":1,"c":3})"},
                 Row{"a name that is not there", R"({"a":1})", [](Edits& e) { e.erase("x"); },
                     R"({"a":1})"},
                 Row{"twice the same name", R"({"a":1,"b":2,"a":3})",
                     [](Edits& e) { e.set("a", "9"); }, R"({"a":9,"b":2})"},
                 Row{"last word counts", R"({"a":1})",
                     [](Edits& e) { e.set("a", "2").set("a", "3").set("b", "4").set("b", "5"); },
                     R"({"a":3,"b":5})"},
                 Row{"set after erase", R"({"a":1,"b":2})",
                     [](Edits& e) { e.erase("a").set("a", "7"); }, R"({"a":7,"b":2})"},
                 Row{"nested values", R"({"a":{"x":[1,{"y":"},"}]},"b":2})",
                     [](Edits& e) { e.erase("a"); }, R"({"b":2})"},
                 Row{"a name to escape", R"({})", [](Edits& e) { e.set("q\"\n", "1"); },
                     "{\"q\\\"\\u000a\":1}"},
             }) {
            CAPTURE(row.name);
            const Body body(row.body);
            Edits edits(borrow_bytes(body.text), body.array());
            row.edit(edits);
            CHECK(body.apply(edits) == row.want);
        }
    }

    TEST_CASE("a member is found as the client wrote it") {
        const Body body(R"({"stream":true,"max_tokens":1.50e1})");
        const Edits edits(borrow_bytes(body.text), body.array());
        REQUIRE(edits.find("max_tokens") != nullptr);
        CHECK(edits.value(*edits.find("max_tokens")) == "1.50e1");
        CHECK_FALSE(edits.has("max"));
    }

    TEST_CASE("emit passes the sink's refusal on") {
        const Body body(R"({"a":1})");
        Edits edits(borrow_bytes(body.text), body.array());
        edits.erase("a");
        sluice_leg_out out{};
        out.size = sizeof out;
        out.edit = [](void*, std::uint64_t, std::uint64_t, const void*,
                      std::size_t) -> sluice_status {
            return SLUICE_E_LIMIT;
        };
        CHECK(edits.emit(out) == SLUICE_E_LIMIT);
    }
}

TEST_SUITE("sdk/io") {
    TEST_CASE("a timer fires at its time; destroying it ends it, also from inside its callback") {
        FakeHost fake;
        const Host host(fake.raw());
        int fired = 0;
        auto timer = std::make_unique<Timer>();
        REQUIRE(timer->start(host, 100, 50, [&] {
            if (++fired == 3) {
                timer.reset();
            }
        }));
        fake.advance(99);
        CHECK(fired == 0);
        fake.advance(1);
        CHECK(fired == 1);
        fake.advance(1000);
        CHECK(fired == 3);
        CHECK(fake.leftovers().empty());
    }

    TEST_CASE("a one-shot timer gives its handle back and can be started again") {
        FakeHost fake;
        const Host host(fake.raw());
        int fired = 0;
        Timer timer;
        std::function<void()> again = [&] {
            if (++fired < 3) {
                REQUIRE(timer.start(host, 10, 0, again));
            }
        };
        REQUIRE(timer.start(host, 10, 0, again));
        fake.advance(100);
        CHECK(fired == 3);
        CHECK(fake.leftovers().empty());
        CHECK_FALSE(timer.running());
    }

    TEST_CASE("a call is answered once; cancelling it means no answer") {
        FakeHost fake;
        const Host host(fake.raw());
        int answers = 0;
        HttpCall call;
        HttpAsk ask;
        ask.endpoint = 3;
        ask.target = "/x";
        REQUIRE(call.start(host, ask, [&](const sluice_http_result& r) {
            answers += static_cast<int>(r.http_code);
        }));
        CHECK(call.running());
        fake.run();
        CHECK(answers == 0);
        fake.answer("/x", HttpReply{SLUICE_OK, 201, "", {}});
        fake.run();
        CHECK(answers == 201);
        CHECK_FALSE(call.running());
        fake.hold("/x");
        REQUIRE(call.start(host, ask, [&](const sluice_http_result&) { answers = -1; }));
        call.cancel();
        fake.answer("/x", HttpReply{});
        fake.run();
        CHECK(answers == 201);
        CHECK(fake.leftovers().empty());
    }

    TEST_CASE("a call may start the next one from its own answer") {
        FakeHost fake;
        const Host host(fake.raw());
        fake.answer("/x", HttpReply{});
        HttpCall call;
        int answers = 0;
        std::function<void(const sluice_http_result&)> next = [&](const sluice_http_result&) {
            if (++answers < 3) {
                REQUIRE(call.start(host, {.target = "/x"}, next));
            }
        };
        REQUIRE(call.start(host, {.target = "/x"}, next));
        fake.run();
        CHECK(answers == 3);
        CHECK(fake.leftovers().empty());
    }

    TEST_CASE("a socket may be closed from its own message") {
        FakeHost fake;
        const Host host(fake.raw());
        ZmqSocket socket;
        int messages = 0;
        REQUIRE(socket.open(host, {.address = "tcp://127.0.0.1:1"},
                            [&](std::span<const sluice_bytes> frames) {
                                messages += static_cast<int>(frames.size());
                                socket.close();
                            }));
        const auto raw = fake.sockets.back();
        fake.feed(*raw, {"a", "b"});
        fake.feed(*raw, {"c"});
        CHECK(messages == 2);
        CHECK(socket.send({}) == SLUICE_E_STATE);
        CHECK(fake.leftovers().empty());
    }

    TEST_CASE("what a callback throws is logged and goes no further") {
        FakeHost fake;
        const Host host(fake.raw());
        Timer timer;
        REQUIRE(timer.start(host, 1, 0, [] { throw std::runtime_error("boom"); }));
        fake.advance(5);
        REQUIRE(fake.logs().size() == 1);
        CHECK(fake.logs()[0].level == SLUICE_LOG_ERROR);
        CHECK(fake.logs()[0].fields.at("error") == "boom");
    }

    TEST_CASE("a service the host does not have is an answer, not a crash") {
        FakeHost fake;
        for (const char* id : {SLUICE_SVC_LOG, SLUICE_SVC_METRICS, SLUICE_SVC_EVENT,
                               SLUICE_SVC_HTTP, SLUICE_SVC_ZMQ, SLUICE_SVC_FLEET, SLUICE_SVC_KV}) {
            fake.withhold(id);
        }
        const Host host(fake.raw());
        host.warn("x", {{"n", 1}, {"f", 1.5}, {"b", true}, {"s", "t"}});
        CHECK(host.declare(SLUICE_METRIC_COUNTER, "m", "", "h") == nullptr);
        host.record(nullptr, 1);
        host.load({});
        host.facts({});
        host.models(1, {});
        host.health(1, SLUICE_HEALTH_READY, "");
        host.report({});
        host.reset(1, 0);
        CHECK(host.apply({}).code == SLUICE_E_UNSUPPORTED);
        CHECK(host.post(nullptr, nullptr) == SLUICE_E_UNSUPPORTED);
        CHECK(Timer().start(host, 1, 1, [] {}).code == SLUICE_E_UNSUPPORTED);
        CHECK(HttpCall().start(host, {}, {}).code == SLUICE_E_UNSUPPORTED);
        CHECK(ZmqSocket().open(host, {}, {}).code == SLUICE_E_UNSUPPORTED);
        CHECK_FALSE(Timer().start(Host(), 1, 1, [] {}));
    }

    TEST_CASE("log fields and metrics reach the host") {
        FakeHost fake;
        const Host host(fake.raw());
        host.info("kv gap", {{"rank", 3U}, {"name", std::string("a:1")}, {"ok", false}});
        REQUIRE(fake.logs().size() == 1);
        CHECK(fake.logs()[0].fields.at("rank") == "3");
        CHECK(fake.logs()[0].fields.at("name") == "a:1");
        CHECK(fake.logs()[0].fields.at("ok") == "false");
        constexpr std::string_view kLabels[] = {"rank"};
        sluice_metric* metric =
            host.declare(SLUICE_METRIC_COUNTER, "batches", "", "Batches.", kLabels);
        host.record(metric, 2, {"0"});
        host.record(metric, 3, {"0"});
        CHECK(fake.metrics.at("batches|0") == 5);
    }
}
