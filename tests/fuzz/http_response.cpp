// Responses as the upstream side reads them: interim heads, head, body. Whatever the bytes and
// however they are cut, the outcome is the same; a body that ended early is never complete.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

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

std::string read(std::string_view input, std::size_t step, bool to_head) {
    std::string out;
    ResponseParser parser;
    std::size_t start = 0;
    for (;;) {
        parser.reset();
        const std::string_view rest = input.substr(start);
        std::string buffer;
        Parse parsed = Parse::NeedMore;
        while (parsed == Parse::NeedMore && buffer.size() < rest.size()) {
            buffer = std::string(rest.substr(0, buffer.size() + step));
            parsed = parser.feed(buffer);
        }
        if (parsed != Parse::Done) {
            return out + (parsed == Parse::Failed ? parser.error_text() : "more");
        }
        out += std::to_string(parser.head().status);
        out.append(parser.head().reason);
        for (const Header& h : parser.head().headers) {
            out.append(h.name).append(h.value);
        }
        start += parser.head_bytes();
        if (!parser.is_interim()) {
            break;
        }
    }
    const Framing framing = parser.framing(to_head);
    BodyDecoder decoder(framing);
    // Slices, not compacted: both ways must give the same bytes.
    std::string sliced;
    while (decoder.state() == BodyDecoder::State::More && start < input.size()) {
        std::string_view piece = input.substr(start, step);
        const std::size_t before = piece.size();
        sliced.append(decoder.next(piece));
        start += before - piece.size();
    }
    if (decoder.end_of_input() == BodyDecoder::State::Done) {
        require(framing.kind != BodyKind::Length || sliced.size() == framing.length);
        out += "complete";
    }
    return out + sliced + std::to_string(start);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size > 4096) {
        return 0;
    }
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const std::string whole = read(input, size + 1, false);
    require(whole == read(input, 1, false));
    require(whole == read(input, 5, false));
    (void)read(input, size + 1, true);

    // A chunked body compacted in place equals its slices.
    std::string slices;
    BodyDecoder by_slice(Framing::chunked());
    std::string_view rest = input;
    while (!rest.empty() && by_slice.state() == BodyDecoder::State::More) {
        slices.append(by_slice.next(rest));
    }
    std::string bytes(input);
    BodyDecoder in_place(Framing::chunked());
    std::size_t used = 0;
    const std::size_t kept = in_place.compact(bytes, used);
    require(bytes.substr(0, kept) == slices);
    require(in_place.state() == by_slice.state() && used == input.size() - rest.size());
    return 0;
}
