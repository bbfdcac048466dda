// Takes the framing off a message body, in place and at any split.
//
// Threads: any; one decoder a body.
// Errors:  broken chunk framing: Failed, and error_text() says what. Extensions and trailers are
//          read over and dropped.
// Limits:  a chunk-size line kMaxLineBytes, all trailers together kMaxTrailerBytes.
// Source:  RFC 9112 sections 6 and 7.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/http/message.hpp"

namespace sluice::http {

class BodyDecoder {
public:
    static constexpr std::size_t kMaxLineBytes = 4096;
    static constexpr std::size_t kMaxTrailerBytes = 16384;

    enum class State : std::uint8_t { More, Done, Failed };

    BodyDecoder() = default;
    explicit BodyDecoder(Framing framing) noexcept;

    // Eats from the front of `in` up to the end of `in`, the end of the body or the next whole
    // piece of payload, which it returns (a part of `in`, empty if there is none). `in` becomes
    // what is left: after Done, the start of the next message.
    std::string_view next(std::string_view& in) noexcept;

    // The same for a writable buffer, all at once: payload is moved together at the front of `in`.
    // Returns the payload bytes; `used` the bytes eaten from `in`.
    std::size_t compact(std::span<char> in, std::size_t& used) noexcept;

    // The peer ended its data. Done for an until-close body, else Failed unless already Done.
    State end_of_input() noexcept;

    State state() const noexcept { return state_; }
    bool done() const noexcept { return state_ == State::Done; }
    const char* error_text() const noexcept { return error_text_; }
    // Of a Length body: what is still to come. Of a chunk begun: the rest of it.
    std::uint64_t remaining() const noexcept { return remaining_; }

private:
    enum class At : std::uint8_t {
        Size,
        Extension,
        SizeLf,
        Data,
        DataCr,
        DataLf,
        Trailer,
        TrailerLine,
        TrailerLf,
        LastLf
    };

    void skip_plain_line(std::string_view& in) noexcept;
    void size_byte(char c) noexcept;
    void framing_byte(char c) noexcept;
    void fail(const char* text) noexcept;

    Framing framing_;
    std::uint64_t remaining_ = 0;
    std::size_t line_bytes_ = 0;
    std::size_t trailer_bytes_ = 0;
    const char* error_text_ = "";
    State state_ = State::Done;
    At at_ = At::Size;
    std::uint8_t digits_ = 0;
};

}  // namespace sluice::http
