#include "core/http/head_parser.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace sluice;
using namespace sluice::http;

namespace {

// Feeds `text` in two pieces, the second time at another address, as a growing buffer does.
Parse feed_split(RequestParser& parser, const std::string& text, std::size_t split,
                 std::string& storage) {
    storage = text.substr(0, split);
    Parse p = storage.empty() ? Parse::NeedMore : parser.feed(storage);
    if (p == Parse::NeedMore) {
        std::string moved(text.size() + 4096, '\0');
        moved.assign(text);
        storage.swap(moved);
        p = parser.feed(storage);
    }
    return p;
}

const std::string kRequest =
    "POST /v1/chat/completions?trace=1 HTTP/1.1\r\n"
    "Host: gateway:8080\r\n"
    "content-type: application/json\r\n"
    "X-Empty:\r\n"
    "X-Blank: \t a b \t\r\n"
    "Connection: keep-alive, X-Hop\r\n"
    "Connection: x-second\r\n"
    "Content-Length: 12\r\n"
    "Expect: 100-continue\r\n"
    "X-High: caf\xC3\xA9\r\n"
    "\r\n";

void check_request(const RequestParser& parser, const std::string& storage) {
    const RequestHead& head = parser.head();
    CHECK(head.method == "POST");
    CHECK(head.target == "/v1/chat/completions?trace=1");
    CHECK(head.path == "/v1/chat/completions");
    CHECK(head.query == "trace=1");
    CHECK(head.authority == "gateway:8080");
    CHECK(head.version_minor == 1);
    CHECK(head.headers.size() == 9);
    CHECK(head.header("CONTENT-TYPE") == "application/json");
    CHECK(head.header("x-empty").empty());
    CHECK(head.find("x-empty") != nullptr);
    CHECK(head.find("x-none") == nullptr);
    CHECK(head.header("x-blank") == "a b");
    CHECK(head.header("x-high") == "caf\xC3\xA9");
    CHECK(parser.framing() == Framing::of_length(12));
    CHECK(parser.keep_alive());
    CHECK(parser.expects_continue());
    CHECK(parser.connection() == "keep-alive, X-Hop, x-second");
    CHECK(parser.head_bytes() == kRequest.size());
    for (const Header& header : head.headers) {
        CHECK(header.name.data() >= storage.data());
        CHECK(header.value.data() + header.value.size() <= storage.data() + storage.size());
    }
}

}  // namespace

TEST_SUITE("http/head_parser") {
    TEST_CASE("a request head is the same however its bytes arrive") {
        for (std::size_t split = 0; split <= kRequest.size(); ++split) {
            CAPTURE(split);
            RequestParser parser;
            std::string storage;
            REQUIRE(feed_split(parser, kRequest, split, storage) == Parse::Done);
            check_request(parser, storage);
        }
        RequestParser parser;
        std::string grown;
        grown.reserve(kRequest.size());
        Parse p = Parse::NeedMore;
        for (const char c : kRequest) {
            CHECK(p == Parse::NeedMore);
            grown.push_back(c);
            p = parser.feed(grown);
        }
        REQUIRE(p == Parse::Done);
        check_request(parser, grown);
        parser.reset();
        REQUIRE(parser.feed(kRequest) == Parse::Done);
        check_request(parser, kRequest);
    }

    TEST_CASE("bytes behind the head are left alone") {
        RequestParser parser;
        REQUIRE(parser.feed(kRequest + "GARBAGE\n\n") == Parse::Done);
        CHECK(parser.head_bytes() == kRequest.size());
    }

    TEST_CASE("every form of target has its path, query and authority") {
        struct Row {
            const char* line;
            const char* path;
            const char* query;
            const char* authority;
        };
        for (const Row& row :
             {Row{"GET / HTTP/1.1", "/", "", "h"},
              Row{"GET /a/b?c=d?e HTTP/1.1", "/a/b", "c=d?e", "h"},
              Row{"GET /a? HTTP/1.1", "/a", "", "h"}, Row{"OPTIONS * HTTP/1.1", "*", "", "h"},
              Row{"GET http://o:80/x?y HTTP/1.1", "/x", "y", "o:80"},
              Row{"GET HTTPS://o?y HTTP/1.1", "/", "y", "o"},
              Row{"GET http://o HTTP/1.1", "/", "", "o"}, Row{"GET / HTTP/1.0", "/", "", "h"}}) {
            CAPTURE(row.line);
            const std::string text = std::string(row.line) + "\r\nHost: h\r\n\r\n";
            for (std::size_t split = 0; split < text.size(); ++split) {
                RequestParser parser;
                std::string storage;
                REQUIRE(feed_split(parser, text, split, storage) == Parse::Done);
                CHECK(parser.head().path == row.path);
                CHECK(parser.head().query == row.query);
                CHECK(parser.head().authority == row.authority);
            }
        }
    }

    TEST_CASE("malformed and ambiguous heads are refused with a status, at every split") {
        struct Row {
            const char* name;
            std::string text;
            int status;
        };
        const std::string ok = "POST / HTTP/1.1\r\nHost: h\r\n";
        const std::vector<Row> rows = {
            {"length and chunked", ok + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
             400},
            {"chunked and length", ok + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
             400},
            {"differing lengths", ok + "Content-Length: 3\r\nContent-Length: 4\r\n\r\n", 400},
            {"length list", ok + "Content-Length: 3, 3\r\n\r\n", 400},
            {"signed length", ok + "Content-Length: +3\r\n\r\n", 400},
            {"negative length", ok + "Content-Length: -3\r\n\r\n", 400},
            {"hex length", ok + "Content-Length: 0x3\r\n\r\n", 400},
            {"empty length", ok + "Content-Length:\r\n\r\n", 400},
            {"huge length", ok + "Content-Length: 99999999999999999999\r\n\r\n", 400},
            {"chunked not last", ok + "Transfer-Encoding: chunked, identity\r\n\r\n", 400},
            {"chunked twice",
             ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
            {"empty coding", ok + "Transfer-Encoding: \r\n\r\n", 400},
            {"foreign coding", ok + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
            {"foreign coding alone", ok + "Transfer-Encoding: xchunked\r\n\r\n", 501},
            {"quoted coding", ok + "Transfer-Encoding: \"chunked\"\r\n\r\n", 501},
            {"coding in 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
            {"folded line", ok + "X: a\r\n b\r\n\r\n", 400},
            {"first line folded", "GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400},
            {"blank before colon", ok + "X : a\r\n\r\n", 400},
            {"tab in name", ok + "X\tY: a\r\n\r\n", 400},
            {"no colon", ok + "X\r\n\r\n", 400},
            {"empty name", ok + ": a\r\n\r\n", 400},
            {"bare line feed", "GET / HTTP/1.1\nHost: h\n\n", 400},
            {"bare line feed in a field", ok + "X: a\nY: b\r\n\r\n", 400},
            {"bare carriage return", ok + "X: a\rb\r\n\r\n", 400},
            {"double carriage return", ok + "X: a\r\r\n\r\n", 400},
            {"NUL in value", ok + "X: a" + std::string(1, '\0') + "b\r\n\r\n", 400},
            {"NUL in name", ok + "X" + std::string(1, '\0') + ": b\r\n\r\n", 400},
            {"DEL in value", ok + "X: a\x7F\r\n\r\n", 400},
            {"control late in a long value",
             ok + "X: " + std::string(61, 'v') +
                 "\x01"
                 "w\r\n\r\n",
             400},
            {"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
            {"two Hosts", ok + "Host: h\r\n\r\n", 400},
            {"Host with a path", "GET / HTTP/1.1\r\nHost: h/x\r\n\r\n", 400},
            {"Host with a user", "GET / HTTP/1.1\r\nHost: u@h\r\n\r\n", 400},
            {"unknown expectation", ok + "Expect: 200-ok\r\n\r\n", 417},
            {"no version", "GET /\r\nHost: h\r\n\r\n", 400},
            {"lower-case version", "GET / http/1.1\r\nHost: h\r\n\r\n", 400},
            {"long version", "GET / HTTP/1.10\r\nHost: h\r\n\r\n", 400},
            {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
            {"HTTP/2 version", "GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505},
            {"two blanks", "GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
            {"blank in the target", "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", 400},
            {"control in the target", "GET /a\x01 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
            {"fragment", "GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n", 400},
            {"relative target", "GET a/b HTTP/1.1\r\nHost: h\r\n\r\n", 400},
            {"empty authority", "GET http:///x HTTP/1.1\r\nHost: h\r\n\r\n", 400},
            {"asterisk for GET", "GET * HTTP/1.1\r\nHost: h\r\n\r\n", 400},
            {"CONNECT", "CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n", 501},
            {"no method", " / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
            {"TLS", "\x16\x03\x01\x02", 400},
            {"empty lines only", "\r\n\r\n\r\n\r\n\r\n\r\n", 400},
            {"too many headers",
             [&] {
                 std::string t = ok;
                 for (int i = 0; i < 128; ++i) {
                     t += "A: b\r\n";
                 }
                 return t + "\r\n";
             }(),
             431},
            {"head too large", ok + "X: " + std::string(65536, 'v') + "\r\n\r\n", 431},
        };
        for (const Row& row : rows) {
            CAPTURE(row.name);
            const std::size_t step = row.text.size() > 2000 ? 997 : 1;
            for (std::size_t split = 0; split <= row.text.size(); split += step) {
                CAPTURE(split);
                RequestParser parser;
                std::string storage;
                CHECK(feed_split(parser, row.text, split, storage) == Parse::Failed);
                CHECK(parser.error_status() == row.status);
                CHECK(std::string_view(parser.error_text()) != "");
                CHECK(parser.feed(storage) == Parse::Failed);
            }
        }
    }

    TEST_CASE("a head that never ends is refused at its limit, not beyond") {
        RequestParser parser(HeadLimits{.max_bytes = 200, .max_headers = 10});
        std::string text = "GET / HTTP/1.1\r\nHost: h\r\nX: ";
        Parse p = Parse::NeedMore;
        while (p == Parse::NeedMore) {
            REQUIRE(text.size() <= 201);
            text.push_back('v');
            p = parser.feed(text);
        }
        CHECK(parser.error_status() == 431);
    }

    TEST_CASE("harmless variants are accepted") {
        for (const char* text :
             {"\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", "GET / HTTP/1.1\r\nHost:\r\n\r\n",
              "GET / HTTP/1.1\r\nhost: [::1]:80\r\nContent-Length: 0\r\n\r\n",
              "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\n",
              "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n",
              "GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.9\r\nHost: h\r\n\r\n"}) {
            CAPTURE(text);
            RequestParser parser;
            CHECK(parser.feed(text) == Parse::Done);
        }
    }

    TEST_CASE("the connection goes on unless a side says otherwise") {
        struct Row {
            const char* text;
            bool keep;
        };
        for (const Row& row :
             {Row{"GET / HTTP/1.1\r\nHost: h\r\n\r\n", true},
              Row{"GET / HTTP/1.1\r\nHost: h\r\nConnection: CLOSE\r\n\r\n", false},
              Row{"GET / HTTP/1.1\r\nHost: h\r\nConnection: a, close\r\n\r\n", false},
              Row{"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false}}) {
            CAPTURE(row.text);
            RequestParser parser;
            REQUIRE(parser.feed(row.text) == Parse::Done);
            CHECK(parser.keep_alive() == row.keep);
        }
    }

    TEST_CASE("response heads parse at every split") {
        const std::string text =
            "HTTP/1.1 200 OK then\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
            "Transfer-Encoding: chunked\r\nKeep-Alive: timeout=5\r\n\r\n";
        for (std::size_t split = 0; split <= text.size(); ++split) {
            CAPTURE(split);
            ResponseParser parser;
            std::string first = text.substr(0, split);
            Parse p = first.empty() ? Parse::NeedMore : parser.feed(first);
            std::string moved(text);
            if (p == Parse::NeedMore) {
                p = parser.feed(moved);
            }
            REQUIRE(p == Parse::Done);
            CHECK(parser.head().status == 200);
            CHECK(parser.head().reason == "OK then");
            CHECK(parser.head().header("Content-Type") == "text/event-stream; charset=utf-8");
            CHECK(parser.framing(false) == Framing::chunked());
            CHECK(parser.framing(true) == Framing::none());
            CHECK(parser.keep_alive());
            CHECK_FALSE(parser.is_interim());
            CHECK(parser.head_bytes() == text.size());
        }
    }

    TEST_CASE("a response's framing follows status, method and fields") {
        struct Row {
            const char* text;
            Framing want;
            bool keep;
        };
        for (const Row& row :
             {Row{"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", Framing::of_length(7), true},
              Row{"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", Framing::of_length(0), true},
              Row{"HTTP/1.1 200 \r\n\r\n", Framing::until_close(), true},
              Row{"HTTP/1.0 200 OK\r\n\r\n", Framing::until_close(), false},
              Row{"HTTP/1.1 204 No\r\nContent-Length: 7\r\n\r\n", Framing::none(), true},
              Row{"HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n", Framing::none(), true},
              Row{"HTTP/1.1 100 Continue\r\n\r\n", Framing::none(), true},
              Row{"HTTP/1.1 500 X\r\nConnection: close\r\nContent-Length: 1\r\n\r\n",
                  Framing::of_length(1), false}}) {
            CAPTURE(row.text);
            ResponseParser parser;
            REQUIRE(parser.feed(row.text) == Parse::Done);
            CHECK(parser.framing(false) == row.want);
            CHECK(parser.keep_alive() == row.keep);
        }
    }

    TEST_CASE("unreadable responses are refused") {
        for (const std::string& text :
             {std::string("SSH-2.0-OpenSSH\r\n"), std::string("HTTP/2 200 OK\r\n\r\n"),
              std::string("HTTP/1.1 20 OK\r\n\r\n"), std::string("HTTP/1.1 2000 OK\r\n\r\n"),
              std::string("HTTP/1.1 099 OK\r\n\r\n"), std::string("HTTP/1.1  200 OK\r\n\r\n"),
              std::string("HTTP/1.1 200 OK\n\n"), std::string("HTTP/1.1 200 O\x01K\r\n\r\n"),
              std::string(
                  "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
              std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"),
              std::string("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
              std::string("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
              std::string("HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n"), std::string("x")}) {
            CAPTURE(text);
            for (std::size_t split = 0; split <= text.size(); ++split) {
                ResponseParser parser;
                const std::string first = text.substr(0, split);
                Parse p = first.empty() ? Parse::NeedMore : parser.feed(first);
                if (p == Parse::NeedMore) {
                    p = parser.feed(text);
                }
                CHECK(p == Parse::Failed);
            }
        }
    }

    TEST_CASE("hop-by-hop fields and those Connection names are told apart from the others") {
        for (const char* name :
             {"Connection", "keep-alive", "TE", "Trailer", "Upgrade", "Transfer-Encoding",
              "Proxy-Connection", "Proxy-Authorization", "Foo", "bar"}) {
            CAPTURE(name);
            CHECK(is_hop_by_hop(name, "foo , Bar,close"));
        }
        for (const char* name : {"Host", "Content-Type", "Authorization", "fo", "Content-Length"}) {
            CAPTURE(name);
            CHECK_FALSE(is_hop_by_hop(name, "foo , Bar,close"));
        }
    }
}
