#include "core/admin/origins.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/admin/api_fixture.hpp"

TEST_SUITE_BEGIN("admin/origins");

using namespace sluice;
using namespace sluice::admin;
using test::ApiFixture;
using test::code_of;
using test::header_of;

namespace {

const std::string kCors = "/netlox/v1/config/cors";
const std::string kPage = "https://console.example";

Request from(const std::string& method, const std::string& origin, const std::string& host = "") {
    Request out;
    out.method = method;
    out.origin = origin;
    out.host = host;
    return out;
}

}  // namespace

TEST_CASE("an origin has a scheme, a host and nothing else") {
    struct Row {
        const char* text;
        const char* want;  // empty: not an origin
    };
    for (const Row& row : {Row{"https://a.example", "https://a.example"},
                           Row{"HTTPS://A.Example", "https://a.example"},
                           Row{"http://a.example:80", "http://a.example"},
                           Row{"https://a:443", "https://a"},
                           Row{"https://a:80", "https://a:80"},
                           Row{"http://127.0.0.1:8080", "http://127.0.0.1:8080"},
                           Row{"http://[::1]:3000", "http://[::1]:3000"},
                           Row{"*", ""},
                           Row{"null", ""},
                           Row{"", ""},
                           Row{"https://", ""},
                           Row{"https://a/", ""},
                           Row{"https://a/b", ""},
                           Row{"https://*.a", ""},
                           Row{"https://u@a", ""},
                           Row{"ftp://a", ""},
                           Row{"https://a:0", ""},
                           Row{"https://a:65536", ""},
                           Row{"https://a:", ""},
                           Row{"https://[::1", ""},
                           Row{"https://a b", ""},
                           Row{"https://a\r\nX: y", ""}}) {
        CAPTURE(std::string(row.text));
        CHECK(canonical_origin(row.text).value_or("") == row.want);
    }
    CHECK_FALSE(canonical_origin("https://" + std::string(kMaxOriginBytes, 'a')).has_value());
}

TEST_CASE_FIXTURE(ApiFixture, "without an origin that is allowed nothing speaks of CORS") {
    const Response read = ask(from("GET", kPage), kCors);
    CHECK(read.status == 200);
    CHECK(header_of(read, "Access-Control-Allow-Origin") == "");
    CHECK(ask(from("POST", kPage), "/netlox/v1/config/metrics").status == 403);
    Request preflight = from("OPTIONS", kPage);
    preflight.asked_method = "PATCH";
    const Response refused = ask(preflight, "/netlox/v1/config/loadbalancer");
    CHECK(refused.status == 403);
    CHECK(header_of(refused, "Access-Control-Allow-Methods") == "");
}

TEST_CASE_FIXTURE(ApiFixture, "an allowed origin is answered, others still are not") {
    CHECK(ask("POST", kCors, R"({"cors":["https://console.example"]})").status == 200);
    restart();
    Request preflight = from("OPTIONS", kPage);
    preflight.asked_method = "PATCH";
    const Response allowed = ask(preflight, "/netlox/v1/config/loadbalancer");
    CHECK(allowed.status == 204);
    CHECK(header_of(allowed, "Access-Control-Allow-Origin") == kPage);
    CHECK(header_of(allowed, "Access-Control-Allow-Methods").find("PATCH") != std::string::npos);
    CHECK(header_of(allowed, "Access-Control-Allow-Headers").find("Authorization") !=
          std::string::npos);
    CHECK(header_of(allowed, "Access-Control-Allow-Credentials") == "");
    CHECK(header_of(allowed, "Vary") == "Origin");
    // Browsers refuse an answer that says it twice.
    CHECK(std::count_if(allowed.headers.begin(), allowed.headers.end(), [](const auto& field) {
              return field.first == "Access-Control-Allow-Origin";
          }) == 1);

    const Response read = ask(from("GET", kPage), kCors);
    CHECK(header_of(read, "Access-Control-Allow-Origin") == kPage);
    CHECK(ask(from("DELETE", kPage), "/netlox/v1/config/metrics").status == 200);
    for (const char* other : {"http://console.example", "https://console.example.evil", "null",
                              "https://console.example:444"}) {
        CAPTURE(std::string(other));
        CHECK(ask(from("DELETE", other), "/netlox/v1/config/metrics").status == 403);
        CHECK(header_of(ask(from("GET", other), kCors), "Access-Control-Allow-Origin") == "");
    }
    CHECK(ask("DELETE", kCors + "/https%3A%2F%2Fconsole.example").status == 200);
    CHECK(ask(from("POST", kPage), "/netlox/v1/config/metrics").status == 403);
    CHECK(ask("DELETE", kCors + "/https%3A%2F%2Fconsole.example").status == 404);
}

TEST_CASE_FIXTURE(ApiFixture, "an origin that is allowed is no right to do anything") {
    CHECK(ask("POST", kCors, R"({"cors":["https://console.example"]})").status == 200);
    use_tokens("ann admin a");
    const Response denied = ask(from("DELETE", kPage), "/netlox/v1/config/metrics");
    CHECK(denied.status == 401);
    // The page may read why.
    CHECK(header_of(denied, "Access-Control-Allow-Origin") == kPage);
}

TEST_CASE_FIXTURE(ApiFixture, "configured origins cannot be taken away here") {
    knobs.cors_origins = {kPage};
    use_knobs();
    CHECK(ask(from("DELETE", kPage), "/netlox/v1/config/metrics").status == 200);
    CHECK(ask("GET", kCors).body == R"({"cors":["https://console.example"]})");
    CHECK(ask("DELETE", kCors + "/https%3A%2F%2Fconsole.example").status == 409);
}

TEST_CASE_FIXTURE(ApiFixture, "the list of origins is bounded, and a bad one adds none") {
    CHECK(code_of(ask("POST", kCors, R"({"cors":["https://a","*"]})")) == "\"bad_origin\"");
    CHECK(ask("GET", kCors).body == R"({"cors":[]})");
    for (std::size_t i = 0; i < kMaxOrigins; ++i) {
        CHECK(ask("POST", kCors, R"({"cors":["https://a)" + std::to_string(i) + R"("]})").status ==
              200);
    }
    CHECK(ask("POST", kCors, R"({"cors":["https://b"]})").status == 403);
    CHECK(stored_origins(book).size() == kMaxOrigins);
}

TEST_CASE_FIXTURE(ApiFixture, "a name that is made to point here is told off, reading too") {
    knobs.names = {"sluice.internal"};
    use_knobs();
    for (const char* ours :
         {"", "127.0.0.1", "127.0.0.1:11111", "[::1]:11111", "localhost", "LocalHost:11111",
          "localhost.", "10.0.0.1", "sluice.internal:1", "Sluice.Internal"}) {
        CAPTURE(std::string(ours));
        CHECK(ask(from("GET", "", ours), "/netlox/v1/version").status == 200);
    }
    for (const char* other :
         {"evil.example", "evil.example:11111", "localhost.evil.example", "127.0.0.1.evil.example",
          "sluice.internal.evil", "127.0.0.1x", "[::1].evil.example", "[::1]evil"}) {
        CAPTURE(std::string(other));
        const Response response = ask(from("GET", "", other), "/netlox/v1/version");
        CHECK(response.status == 421);
        CHECK(code_of(response) == "\"misdirected\"");
        CHECK(ask(from("DELETE", "", other), "/netlox/v1/config/metrics").status == 421);
    }
    // A page cannot know a token.
    use_tokens("ann admin a");
    CHECK(ask(from("GET", "", "sluice.example"), "/netlox/v1/version").status == 200);
}

TEST_SUITE_END();
