// Requests as a server reads them: head, then body, then the next request. Whatever the bytes and
// however they are cut, the outcome is the same, views stay inside the input, and nothing is eaten
// twice.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/http/body_decoder.hpp"
#include "core/http/head_parser.hpp"
#include "core/http/head_writer.hpp"

using namespace sluice::http;

namespace {

void require(bool is_true) {
    if (!is_true) {
        std::abort();
    }
}

struct Outcome {
    std::string text;      // what was understood, in a comparable form
    std::size_t used = 0;  // bytes of whole messages
    friend bool operator==(const Outcome&, const Outcome&) = default;
};

bool is_inside(std::string_view view, std::string_view bytes) {
    return view.data() >= bytes.data() && view.data() + view.size() <= bytes.data() + bytes.size();
}

void check_views(const RequestParser& parser, std::string_view bytes) {
    const RequestHead& head = parser.head();
    require(is_inside(head.method, bytes) && is_inside(head.target, bytes));
    require(head.path == "/" || is_inside(head.path, bytes));
    require(head.query.empty() || is_inside(head.query, bytes));
    for (const Header& h : head.headers) {
        require(is_inside(h.name, bytes) && !h.name.empty());
        require(h.value.empty() || is_inside(h.value, bytes));
        require(h.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos);
    }
    require(parser.head_bytes() <= bytes.size());
}

// Feeds the bytes in pieces of `step`, as a connection would.
Outcome read_all(std::string_view input, std::size_t step) {
    Outcome out;
    RequestParser parser;
    while (out.used < input.size()) {
        parser.reset();
        const std::string_view rest = input.substr(out.used);
        std::string buffer;
        Parse parsed = Parse::NeedMore;
        while (parsed == Parse::NeedMore && buffer.size() < rest.size()) {
            // A fresh copy each time: the bytes move as in a growing buffer.
            buffer = std::string(rest.substr(0, buffer.size() + step));
            parsed = parser.feed(buffer);
        }
        if (parsed == Parse::NeedMore) {
            out.text += "|more";
            return out;
        }
        if (parsed == Parse::Failed) {
            require(parser.error_status() >= 400 && parser.error_text()[0] != '\0');
            out.text += "|failed " + std::to_string(parser.error_status()) + parser.error_text();
            return out;
        }
        check_views(parser, buffer);
        const RequestHead& head = parser.head();
        out.text.append("|").append(head.method).append(head.path).append(head.query);
        out.text.append(head.authority).append(parser.connection());
        out.text += std::to_string(head.headers.size()) + (parser.keep_alive() ? "k" : "c");

        BodyDecoder decoder(parser.framing());
        std::size_t at = out.used + parser.head_bytes();
        while (decoder.state() == BodyDecoder::State::More && at < input.size()) {
            std::string piece(input.substr(at, step));
            std::size_t used = 0;
            const std::size_t kept = decoder.compact(piece, used);
            require(kept <= used && used <= piece.size());
            require(used == piece.size() || decoder.state() != BodyDecoder::State::More);
            out.text.append(piece, 0, kept);
            at += used;
        }
        if (decoder.state() != BodyDecoder::State::Done) {
            out.text += decoder.state() == BodyDecoder::State::Failed ? "|broken" : "|cut";
            return out;
        }
        out.used = at;
    }
    return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size > 4096) {
        return 0;
    }
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const Outcome whole = read_all(input, size + 1);
    require(whole == read_all(input, 1));
    require(whole == read_all(input, 7));

    // What we write of a request we accepted is a request again, with the same meaning.
    RequestParser parser;
    if (parser.feed(input) == Parse::Done) {
        std::string text;
        RequestWriter writer(text, parser.head().method, parser.head().target, "engine");
        std::size_t forwarded = 0;
        for (const Header& h : parser.head().headers) {
            if (RequestWriter::forwards(h, parser.connection())) {
                writer.header(h.name, h.value);
                ++forwarded;
            }
        }
        writer.finish(Framing::of_length(3));
        RequestParser again;
        require(again.feed(text) == Parse::Done && again.head_bytes() == text.size());
        require(again.head().target == parser.head().target);
        require(again.framing() == Framing::of_length(3));
        require(again.head().headers.size() == forwarded + 2);
    }
    return 0;
}
