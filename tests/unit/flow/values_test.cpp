#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/flow/flow_ring.hpp"
#include "core/flow/observer.hpp"
#include "core/flow/reply.hpp"
#include "core/flow/reply_head.hpp"
#include "core/flow/upstream_head.hpp"

using namespace sluice;
using flow::Observer;

TEST_SUITE("flow/observer") {
    const std::string kStream =
        "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"usage\\\":{ "
        "\xE5\x8C\x97\xE4\xBA\xAC\"}}],\"usage\":null}\n\n"
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":221,\"total_tokens\":225,"
        "\"completion_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":208}}}\n\n"
        "data: [DONE]\n\n";

    TEST_CASE("usage is found however the stream is cut") {
        for (std::size_t cut = 1; cut < kStream.size(); ++cut) {
            Observer o;
            o.begin(Observer::Kind::Events);
            o.see(std::string_view(kStream).substr(0, cut));
            o.see(std::string_view(kStream).substr(cut));
            REQUIRE(o.usage().cached_tokens == 208);
            REQUIRE(o.usage().prompt_tokens == 221);
            REQUIRE(o.usage().completion_tokens == 4);
            REQUIRE(o.is_done());
            REQUIRE(o.has_events());
        }
    }

    TEST_CASE("all line ends and a missing space are understood") {
        for (const char* end : {"\n", "\r\n", "\r"}) {
            std::string text = std::string("data:{\"usage\":{\"prompt_tokens\":7}}") + end + end +
                               "data: [DONE]" + end + end;
            for (std::size_t step = 1; step < 9; ++step) {
                CAPTURE(step);
                Observer o;
                o.begin(Observer::Kind::Events);
                for (std::size_t at = 0; at < text.size(); at += step) {
                    o.see(std::string_view(text).substr(at, step));
                }
                o.see("\n");
                CHECK(o.usage().prompt_tokens == 7);
                CHECK(o.is_done());
            }
        }
    }

    TEST_CASE("an error that a stream begins with is known by its whole line") {
        for (const std::string begin : {"data: ", "data:"}) {
            const std::string line = begin + R"({"error":{"message":"x","code":500}})";
            for (std::size_t cut = 0; cut <= line.size(); ++cut) {
                CAPTURE(cut);
                CHECK(flow::may_become_error(std::string_view(line).substr(0, cut)));
            }
            CHECK_FALSE(flow::may_become_error(line + "\n"));
            CHECK_FALSE(flow::may_become_error(line + "\r"));
            CHECK(flow::leading_error(line + "\n\n") == line.substr(begin.size()));
        }
        for (const char* other :
             {"data: {\"id\"", "data: [", "data:  ", "data: \n", "event: x", ": "}) {
            CAPTURE(other);
            CHECK_FALSE(flow::may_become_error(other));
            CHECK(flow::leading_error(other).empty());
        }
    }

    TEST_CASE("an event may be added wherever the stream was cut") {
        for (const char* end : {"\n", "\r\n", "\r"}) {
            const std::string event = std::string("data: {}") + end + end;
            for (std::size_t cut = 0; cut <= event.size(); ++cut) {
                CAPTURE(cut);
                Observer o;
                o.begin(Observer::Kind::Events);
                o.see(std::string("data: 1") + end + end);
                o.see(event.substr(0, cut));
                // Begins at a line of its own behind an empty one, whatever went before.
                const std::string seen = event.substr(0, cut) + std::string(o.event_gap());
                const bool is_apart = cut == 0 || cut == event.size() || seen.ends_with("\n\n") ||
                                      seen.ends_with("\n\r") || seen.ends_with("\r\r");
                CHECK(is_apart);
                if (cut == 0) {
                    CHECK(o.event_gap().empty());
                }
            }
        }
    }

    TEST_CASE("a line without end is not kept") {
        Observer o;
        o.begin(Observer::Kind::Events);
        const std::string piece(100'000, 'x');
        for (int i = 0; i < 50; ++i) {
            o.see(piece);
        }
        o.see("\n\ndata: [DONE]\n\n");
        CHECK(o.is_done());
    }

    TEST_CASE("a plain answer's usage stands at its end, text that looks like it does not count") {
        Observer o;
        o.begin(Observer::kind_of("application/json; charset=utf-8"));
        const std::string text =
            "{\"choices\":[{\"text\":\"\\\"usage\\\":{\\\"prompt_tokens\\\":1}" +
            std::string(40'000, 'y') +
            "\"}],\"usage\":{\"prompt_tokens\":9,\"prompt_tokens_details\":null},\"kv_transfer_"
            "params\":null}";
        for (std::size_t at = 0; at < text.size(); at += 777) {
            o.see(std::string_view(text).substr(at, 777));
        }
        CHECK(o.usage().prompt_tokens == 9);
        CHECK(!o.usage().cached_tokens);
    }

    TEST_CASE("usage is seen where it stands far before the end, whatever the parts") {
        const std::string text =
            "{\"choices\":[],\"usage\":{\"prompt_tokens\":1800,\"prompt_tokens_details\":{\"cached_"
            "tokens\":1792}},\"prompt_token_ids\":[" +
            std::string(90'000, '7') + "]}";
        for (const std::size_t step :
             {std::size_t{1}, std::size_t{50}, std::size_t{5000}, text.size()}) {
            CAPTURE(step);
            Observer o;
            o.begin(Observer::Kind::Json);
            for (std::size_t at = 0; at < text.size(); at += step) {
                o.see(std::string_view(text).substr(at, step));
            }
            CHECK(o.usage().prompt_tokens == 1800);
            CHECK(o.usage().cached_tokens == 1792);
        }
    }

    TEST_CASE("other content is not looked at") {
        CHECK(Observer::kind_of("text/plain") == Observer::Kind::Other);
        CHECK(Observer::kind_of("text/event-stream; charset=utf-8") == Observer::Kind::Events);
        CHECK(Observer::kind_of("") == Observer::Kind::Other);
    }
}

TEST_SUITE("flow/upstream_head") {
    TEST_CASE("a rule's own key stands in the place of the client's") {
        const std::vector<http::Header> fields = {{"authorization", "Bearer of-the-client"},
                                                  {"AUTHORIZATION", "Basic again"},
                                                  {"X-Api-Key", "stays"}};
        http::RequestHead head;
        head.method = "GET";
        head.path = "/v1/models";
        head.headers = fields;
        const auto written = [&](std::string_view authorization) {
            std::string out;
            flow::write_upstream_head({.client = head,
                                       .connection = {},
                                       .host = "h",
                                       .request_id = "i",
                                       .client_ip = "127.0.0.1",
                                       .authorization = authorization,
                                       .attempt = 1,
                                       .body_bytes = {}},
                                      out);
            return out;
        };
        const std::string with = written("Bearer of-the-rule");
        CHECK(with.find("\r\nAuthorization: Bearer of-the-rule\r\n") != std::string::npos);
        CHECK(with.find("of-the-client") == std::string::npos);
        CHECK(with.find("again") == std::string::npos);
        CHECK(with.find("X-Api-Key: stays") != std::string::npos);
        const std::string without = written({});
        CHECK(without.find("authorization: Bearer of-the-client\r\n") != std::string::npos);
    }

    TEST_CASE("what ends at this hop does not go on, what the client may not say neither") {
        const std::vector<http::Header> fields = {{"Host", "gw:8080"},
                                                  {"Connection", "close, X-Private"},
                                                  {"X-Private", "1"},
                                                  {"TE", "trailers"},
                                                  {"Proxy-Authorization", "p"},
                                                  {"Authorization", "Bearer k"},
                                                  {"Content-Length", "5"},
                                                  {"Transfer-Encoding", "chunked"},
                                                  {"X-Sluice-Attempt", "9"},
                                                  {"x-request-id", "mine"},
                                                  {"X-Forwarded-For", "203.0.113.9"},
                                                  {"Expect", "100-continue"},
                                                  {"Content-Type", "application/json"}};
        http::RequestHead head;
        head.method = "POST";
        head.path = "/v1/completions";
        head.query = "a=1";
        head.headers = fields;
        std::string out = "left over";
        flow::write_upstream_head({.client = head,
                                   .connection = "close, X-Private",
                                   .host = "10.0.0.7:8000",
                                   .request_id = "mine",
                                   .client_ip = "198.51.100.4",
                                   .authorization = {},
                                   .attempt = 2,
                                   .body_bytes = 12},
                                  out);
        CHECK(out ==
              "POST /v1/completions?a=1 HTTP/1.1\r\nHost: 10.0.0.7:8000\r\nAuthorization: Bearer "
              "k\r\n"
              "Content-Type: application/json\r\nX-Forwarded-For: 203.0.113.9, 198.51.100.4\r\n"
              "X-Forwarded-Proto: http\r\nX-Request-Id: mine\r\nX-Sluice-Attempt: "
              "2\r\nContent-Length: 12\r\n\r\n");
    }

    TEST_CASE("a client's request id is taken over only when it is harmless") {
        const auto id_of = [](std::string_view value) {
            const http::Header field{"X-Request-Id", value};
            http::RequestHead head;
            head.headers = http::HeaderSpan(&field, 1);
            return std::string(flow::usable_request_id(head));
        };
        CHECK(id_of("abc-1") == "abc-1");
        CHECK(id_of("") == "");
        CHECK(id_of("a b") == "");
        CHECK(id_of(std::string(129, 'a')) == "");
    }
}

TEST_SUITE("flow/reply_head") {
    TEST_CASE("a kept head outlives its buffer and loses what belongs to the hop") {
        flow::ReplyHead kept;
        {
            std::string buffer = "okContent-Typetext/plainKeep-Alivetimeout=5Content-Length3";
            const std::string_view v(buffer);
            const std::vector<http::Header> fields = {{v.substr(2, 12), v.substr(14, 10)},
                                                      {v.substr(24, 10), v.substr(34, 9)},
                                                      {v.substr(43, 14), v.substr(57, 1)}};
            http::ResponseHead head;
            head.status = 200;
            head.reason = v.substr(0, 2);
            head.headers = fields;
            kept.assign(head, "keep-alive", http::Framing::of_length(3));
            std::fill(buffer.begin(), buffer.end(), '#');
        }
        const auto fields = kept.for_client("id-1");
        REQUIRE(fields.size() == 2);
        CHECK(fields[0].name == "Content-Type");
        CHECK(fields[0].value == "text/plain");
        CHECK(fields[1].value == "id-1");
        CHECK(kept.client_framing(false) == http::Framing::of_length(3));
        CHECK(kept.client_framing(true) == http::Framing::of_length(3));
    }
}

TEST_SUITE("flow/reply") {
    TEST_CASE("an error body is JSON with the client's words escaped") {
        const std::string body = flow::error_body(
            {503, "model_unavailable", "no \"pool\"", "model", "api_error"}, "r1", "a\"b");
        CHECK(
            body ==
            R"({"error":{"message":"no \"pool\"","type":"api_error","code":"model_unavailable","param":"model","request_id":"r1","model":"a\"b"}})");
        CHECK(flow::error_event("stream_truncated", "m", "r").starts_with("data: {\"error\":{"));
        CHECK(flow::error_event("stream_truncated", "m", "r").ends_with("}\n\n"));
    }
}

TEST_SUITE("flow/ring") {
    TEST_CASE("the newest come first, filters apply, old ones are overwritten") {
        flow::FlowRing ring;
        route::Receipt r;
        for (std::size_t i = 0; i < flow::FlowRing::kSlots + 10; ++i) {
            r.id = std::to_string(i);
            r.model = i % 2 == 0 ? "even" : "odd";
            r.outcome = i % 3 == 0 ? route::Outcome::Refused : route::Outcome::Ok;
            ring.push(r);
            REQUIRE(r.id.empty());
        }
        CHECK(ring.pushed() == flow::FlowRing::kSlots + 10);
        const std::string last = std::to_string(flow::FlowRing::kSlots + 9);
        CHECK(ring.to_json({{}, {}, {}, 1}).find("\"id\":\"" + last + "\"") != std::string::npos);
        const std::string even = ring.to_json({{}, "even", "refused", 5000});
        CHECK(even.find("\"odd\"") == std::string::npos);
        CHECK(even.find("\"ok\"") == std::string::npos);
        CHECK(even.find("\"id\":\"0\"") == std::string::npos);
        CHECK(ring.to_json({"nobody", {}, {}, 10}) == "[]");
    }
}
