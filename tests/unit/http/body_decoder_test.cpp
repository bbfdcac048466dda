#include "core/http/body_decoder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace sluice;
using namespace sluice::http;
using State = BodyDecoder::State;

namespace {

struct Outcome {
    std::string payload;
    std::size_t used = 0;
    State state = State::More;
};

// Decodes `text` cut into pieces at the given sizes, in place as a connection does.
Outcome decode(Framing framing, const std::string& text, std::size_t piece) {
    BodyDecoder decoder(framing);
    Outcome out;
    while (out.used < text.size() && decoder.state() == State::More) {
        std::string bytes = text.substr(out.used, piece);
        std::size_t used = 0;
        const std::size_t kept = decoder.compact(bytes, used);
        out.payload.append(bytes, 0, kept);
        out.used += used;
        if (used < bytes.size()) {
            break;
        }
    }
    out.state = decoder.state();
    return out;
}

const std::string kChunked =
    "5\r\nhello\r\n"
    "1;name=value;q=\"a\"\r\n \r\n"
    "00A  \r\nwide world\r\n"
    "0;last\r\n"
    "X-Trailer: dropped\r\n"
    "Y: too\r\n"
    "\r\n";

}  // namespace

TEST_SUITE("http/body_decoder") {
    TEST_CASE("a chunked body is the same however its bytes arrive") {
        for (std::size_t piece = 1; piece <= kChunked.size() + 6; ++piece) {
            CAPTURE(piece);
            const Outcome got = decode(Framing::chunked(), kChunked + "GET / ", piece);
            CHECK(got.state == State::Done);
            CHECK(got.payload == "hello wide world");
            CHECK(got.used == kChunked.size());
        }
        for (std::size_t split = 0; split <= kChunked.size(); ++split) {
            BodyDecoder decoder(Framing::chunked());
            std::string payload;
            for (std::string part : {kChunked.substr(0, split), kChunked.substr(split)}) {
                std::string_view in(part);
                while (!in.empty()) {
                    payload.append(decoder.next(in));
                }
            }
            CHECK(decoder.done());
            CHECK(payload == "hello wide world");
        }
    }

    TEST_CASE("a body of known length ends there") {
        for (std::size_t piece = 1; piece < 12; ++piece) {
            const Outcome got = decode(Framing::of_length(5), "helloGET /", piece);
            CHECK(got.state == State::Done);
            CHECK(got.payload == "hello");
            CHECK(got.used == 5);
        }
        CHECK(BodyDecoder(Framing::of_length(0)).done());
        CHECK(BodyDecoder(Framing::none()).done());
    }

    TEST_CASE("only a body that runs to the close may end with the input") {
        BodyDecoder until_close(Framing::until_close());
        std::string_view in = "all of it";
        CHECK(until_close.next(in) == "all of it");
        CHECK(until_close.end_of_input() == State::Done);

        BodyDecoder length(Framing::of_length(5));
        in = "hell";
        CHECK(length.next(in) == "hell");
        CHECK(length.end_of_input() == State::Failed);

        for (std::size_t cut = 0; cut < kChunked.size(); ++cut) {
            BodyDecoder chunked(Framing::chunked());
            std::string bytes = kChunked.substr(0, cut);
            std::size_t used = 0;
            (void)chunked.compact(bytes, used);
            CHECK(used == cut);
            CHECK(chunked.end_of_input() == State::Failed);
        }
    }

    TEST_CASE("broken chunk framing is refused at every split") {
        for (const std::string& text :
             {std::string("g\r\n"),
              std::string("\r\n"),
              std::string(";x\r\n"),
              std::string("-1\r\n"),
              std::string("0x5\r\nhello\r\n"),
              std::string("5\nhello\r\n"),
              std::string("5\rXhello\r\n"),
              std::string("5\r\nhelloX\r\n"),
              std::string("5\r\nhello\n0\r\n\r\n"),
              std::string("5\r\nhello\rX"),
              std::string("10000000000000000\r\n"),
              std::string("fffffffffffffffff\r\n"),
              std::string(40, '0') + "\r\n",
              std::string("5;a\nb\r\nhello\r\n"),
              std::string("5;") + std::string(1, '\0') + "\r\n",
              std::string("0\r\nX: a\nY: b\r\n\r\n"),
              std::string("0\r\nX: a\rY"),
              std::string("0\r\n\rX"),
              std::string("5;") + std::string(5000, 'e') + "\r\nhello\r\n",
              std::string("0\r\n") + std::string(17000, 't') + "\r\n\r\n"}) {
            CAPTURE(text.substr(0, 40));
            for (const std::size_t piece :
                 {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{7}, text.size()}) {
                CHECK(decode(Framing::chunked(), text, piece).state == State::Failed);
            }
        }
    }

    TEST_CASE("a chunk's payload is a slice of the input, not a copy") {
        const std::string text = "5\r\nhello\r\n3\r\nabc\r\n";
        BodyDecoder decoder(Framing::chunked());
        std::string_view in(text);
        const std::string_view first = decoder.next(in);
        CHECK(first == "hello");
        CHECK(first.data() == text.data() + 3);
        CHECK(decoder.next(in) == "abc");
    }

    TEST_CASE("very large chunks are followed by their bytes only") {
        BodyDecoder decoder(Framing::chunked());
        std::string_view in = "ffffffffffffff\r\nab";
        CHECK(decoder.next(in) == "ab");
        CHECK(decoder.remaining() == 0xffffffffffffffU - 2);
        CHECK(decoder.state() == State::More);
    }
}
