#include "core/http/head_writer.hpp"

#include <doctest/doctest.h>

#include <string>

#include "core/http/respond.hpp"

using namespace sluice;
using namespace sluice::http;

TEST_SUITE("http/head_writer") {
    TEST_CASE("a request head has our framing and host, and no field of the hop before") {
        const Header fields[] = {
            {"Host", "gateway"},        {"Content-Length", "99"},      {"Transfer-Encoding", "x"},
            {"Expect", "100-continue"}, {"Connection", "close, foo"},  {"Foo", "1"},
            {"TE", "trailers"},         {"Authorization", "Bearer k"}, {"X-A", "b"}};
        std::string out;
        RequestWriter writer(out, "POST", "/v1/completions", "10.0.0.5:8000");
        for (const Header& field : fields) {
            if (RequestWriter::forwards(field, "close, foo")) {
                writer.header(field.name, field.value);
            }
        }
        writer.finish(Framing::of_length(12));
        CHECK(out ==
              "POST /v1/completions HTTP/1.1\r\nHost: 10.0.0.5:8000\r\nAuthorization: Bearer k\r\n"
              "X-A: b\r\nContent-Length: 12\r\n\r\n");
    }

    TEST_CASE("a request without a body says so only where a body is usual") {
        std::string get;
        RequestWriter(get, "GET", "/", "h").finish(Framing::none());
        CHECK(get == "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        std::string post;
        RequestWriter(post, "POST", "/", "h").finish(Framing::none());
        CHECK(post == "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    }

    TEST_CASE("a response head owns its framing and connection fields") {
        const Header fields[] = {{"Content-Length", "5"},
                                 {"Connection", "keep-alive"},
                                 {"Content-Type", "text/plain"},
                                 {"Transfer-Encoding", "chunked"}};
        std::string out;
        write_response_head(out, 200, "Fine", fields, Framing::chunked(), true);
        CHECK(out ==
              "HTTP/1.1 200 Fine\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n"
              "Connection: close\r\n\r\n");
        out.clear();
        write_response_head(out, 404, {}, {}, Framing::of_length(0), false);
        CHECK(out == "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        out.clear();
        write_response_head(out, 299, "bad\r\nX: y", {}, Framing::none(), false);
        CHECK(out == "HTTP/1.1 299 Status\r\n\r\n");
    }

    TEST_CASE("a field that could split the message is left out") {
        std::string out;
        append_header(out, "X", "a\r\nY: b");
        append_header(out, "X\r\nY", "b");
        append_header(out, "X", std::string_view("a\0b", 3));
        CHECK(out.empty());
        append_header(out, "X", "tab\tand caf\xC3\xA9");
        CHECK(out == "X: tab\tand caf\xC3\xA9\r\n");
    }

    TEST_CASE("chunk lines are lower-case hexadecimal") {
        std::array<char, 18> room{};
        CHECK(chunk_line(room, 1) == "1\r\n");
        CHECK(chunk_line(room, 190) == "be\r\n");
        CHECK(chunk_line(room, SIZE_MAX) == "ffffffffffffffff\r\n");
    }

    TEST_CASE("error bodies are JSON whatever the text holds") {
        CHECK(error_json("no \"model\"\n", "invalid_request_error", "model_unavailable", "model",
                         "r1") ==
              "{\"error\":{\"message\":\"no "
              "\\\"model\\\"\\u000a\",\"type\":\"invalid_request_error\","
              "\"code\":\"model_unavailable\",\"param\":\"model\",\"request_id\":\"r1\"}}");
        std::string out;
        append_json_escaped(out,
                            "\xE5\x8C\x97 \xF0\x9F\x99\x82 \xFF \xC0\x80 \xED\xA0\x80 \xE5\x8C");
        CHECK(out == "\xE5\x8C\x97 \xF0\x9F\x99\x82 ? ?? ??? ??");
    }
}
