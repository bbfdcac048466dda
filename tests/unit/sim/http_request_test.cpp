#include "tests/sim/support/http_request.hpp"

#include <doctest/doctest.h>

using namespace sluice::sim::http;

namespace {

Parsed last(RequestParser& p) {
    Parsed out = p.next();
    return out == Parsed::Head ? p.next() : out;
}

Parsed parse(std::string_view text) {
    RequestParser p;
    p.feed(text);
    return last(p);
}

}  // namespace

TEST_SUITE("sim/http_request") {
    TEST_CASE("a request is the same however its bytes arrive") {
        const std::string text =
            "POST /x?y=1 HTTP/1.1\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n"
            "3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nTrailer: t\r\n\r\nGET / HTTP/1.0\r\n\r\n";
        for (const std::size_t step : {std::size_t{1}, std::size_t{7}, text.size()}) {
            CAPTURE(step);
            RequestParser p;
            std::vector<Request> got;
            for (std::size_t i = 0; i < text.size(); i += step) {
                p.feed(std::string_view(text).substr(i, step));
                for (Parsed r = p.next(); r != Parsed::More; r = p.next()) {
                    REQUIRE(r != Parsed::Invalid);
                    if (r == Parsed::Request) {
                        got.push_back(std::move(p.request()));
                    }
                }
            }
            REQUIRE(got.size() == 2);
            CHECK(got[0].body == "abcde");
            CHECK(got[0].path == "/x");
            CHECK(got[0].query == "y=1");
            CHECK(*got[0].header("a") == "b");
            CHECK(got[1].is_http10);
            CHECK(got[1].wants_close());
        }
    }

    TEST_CASE("what uvicorn refuses is refused") {
        for (const char* text :
             {"GARBAGE\r\n\r\n", "PRI * HTTP/2.0\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n",
              "GET /a b HTTP/1.1\r\n\r\n",
              "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
              "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
              "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
              "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
            CAPTURE(text);
            CHECK(parse(text) == Parsed::Invalid);
        }
    }

    TEST_CASE("a head without end is refused at the limit") {
        RequestParser p;
        p.feed("GET / HTTP/1.1\r\nA: ");
        p.feed(std::string(RequestParser::kMaxHeadBytes, 'a'));
        CHECK(p.next() == Parsed::Invalid);
    }

    TEST_CASE("a request without Host is fine") {
        CHECK(parse("GET /version HTTP/1.1\r\n\r\n") == Parsed::Request);
    }
}
