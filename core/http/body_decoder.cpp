#include "core/http/body_decoder.hpp"

#include <algorithm>
#include <cstring>

namespace sluice::http {

BodyDecoder::BodyDecoder(Framing framing) noexcept : framing_(framing) {
    switch (framing.kind) {
        case BodyKind::None:
            break;
        case BodyKind::Length:
            remaining_ = framing.length;
            state_ = framing.length == 0 ? State::Done : State::More;
            break;
        case BodyKind::Chunked:
        case BodyKind::UntilClose:
            state_ = State::More;
            break;
    }
}

void BodyDecoder::fail(const char* text) noexcept {
    state_ = State::Failed;
    error_text_ = text;
}

void BodyDecoder::size_byte(char c) noexcept {
    unsigned digit = 0;
    if (c >= '0' && c <= '9') {
        digit = static_cast<unsigned>(c - '0');
    } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
        digit = static_cast<unsigned>((c | 0x20) - 'a') + 10;
    } else if (digits_ == 0) {
        return fail("chunk without a size");
    } else if (c == '\r') {
        at_ = At::SizeLf;
        return;
    } else if (c == ';' || c == ' ' || c == '\t') {
        at_ = At::Extension;
        return;
    } else {
        return fail("malformed chunk size");
    }
    if (remaining_ >> 56U != 0 || ++digits_ > 32) {  // zeros in front count too
        return fail("chunk size too large");
    }
    remaining_ = remaining_ << 4U | digit;
}

void BodyDecoder::framing_byte(char c) noexcept {
    switch (at_) {
        case At::Size:
            size_byte(c);
            break;
        case At::Extension:
            if (c == '\r') {
                at_ = At::SizeLf;
            } else if (c == '\n' || c == '\0') {
                fail("malformed chunk extension");
            } else if (++line_bytes_ > kMaxLineBytes) {
                fail("chunk extension too long");
            }
            break;
        case At::SizeLf:
            if (c != '\n') {
                return fail("malformed chunk size line");
            }
            line_bytes_ = 0;
            digits_ = 0;
            at_ = remaining_ == 0 ? At::Trailer : At::Data;
            break;
        case At::DataCr:
            if (c != '\r') {
                return fail("chunk longer than its size");
            }
            at_ = At::DataLf;
            break;
        case At::DataLf:
            if (c != '\n') {
                return fail("chunk longer than its size");
            }
            at_ = At::Size;
            break;
        case At::Trailer:
            at_ = c == '\r' ? At::LastLf : At::TrailerLine;
            [[fallthrough]];
        case At::TrailerLine:
            if (at_ == At::LastLf) {
                break;
            }
            if (c == '\r') {
                at_ = At::TrailerLf;
            } else if (c == '\n' || c == '\0') {
                fail("malformed trailer");
            } else if (++trailer_bytes_ > kMaxTrailerBytes) {
                fail("trailers too large");
            }
            break;
        case At::TrailerLf:
            if (c != '\n') {
                return fail("malformed trailer");
            }
            at_ = At::Trailer;
            break;
        case At::LastLf:
            if (c != '\n') {
                return fail("malformed end of the body");
            }
            state_ = State::Done;
            break;
        case At::Data:
            break;
    }
}

// Steps over a whole "\r\n", a whole plain size line or both at the front of `in`: what nearly
// every chunk begins with. Anything else is left to framing_byte().
void BodyDecoder::skip_plain_line(std::string_view& in) noexcept {
    if (at_ == At::DataCr && in.size() >= 2 && in[0] == '\r' && in[1] == '\n') {
        in.remove_prefix(2);
        at_ = At::Size;
    }
    if (at_ != At::Size || digits_ != 0) {
        return;
    }
    std::uint64_t size = 0;
    std::size_t i = 0;
    for (; i < in.size() && i < 8; ++i) {
        const char c = in[i];
        if (c >= '0' && c <= '9') {
            size = size << 4U | static_cast<unsigned>(c - '0');
        } else if (const int letter = c | 0x20; letter >= 'a' && letter <= 'f') {
            size = size << 4U | static_cast<unsigned>(letter - 'a' + 10);
        } else {
            break;
        }
    }
    if (i == 0 || i + 2 > in.size() || in[i] != '\r' || in[i + 1] != '\n') {
        return;
    }
    in.remove_prefix(i + 2);
    remaining_ = size;
    at_ = size == 0 ? At::Trailer : At::Data;
}

std::string_view BodyDecoder::next(std::string_view& in) noexcept {
    if (state_ != State::More || in.empty()) {
        return {};
    }
    if (framing_.kind == BodyKind::UntilClose) {
        const std::string_view all = in;
        in.remove_prefix(in.size());
        return all;
    }
    if (framing_.kind == BodyKind::Chunked && at_ != At::Data) {
        skip_plain_line(in);
    }
    while (framing_.kind == BodyKind::Chunked && at_ != At::Data) {
        if (in.empty()) {
            return {};
        }
        framing_byte(in.front());
        in.remove_prefix(1);
        if (state_ != State::More) {
            return {};
        }
    }
    const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(remaining_, in.size()));
    const std::string_view piece = in.substr(0, take);
    in.remove_prefix(take);
    remaining_ -= take;
    if (remaining_ == 0) {
        if (framing_.kind == BodyKind::Chunked) {
            at_ = At::DataCr;
        } else {
            state_ = State::Done;
        }
    }
    return piece;
}

std::size_t BodyDecoder::compact(std::span<char> in, std::size_t& used) noexcept {
    std::string_view rest(in.data(), in.size());
    std::size_t kept = 0;
    while (!rest.empty() && state_ == State::More) {
        const std::string_view piece = next(rest);
        if (!piece.empty()) {
            char* to = in.data() + kept;
            if (to != piece.data()) {
                std::memmove(to, piece.data(), piece.size());
            }
            kept += piece.size();
        }
    }
    used = in.size() - rest.size();
    return kept;
}

BodyDecoder::State BodyDecoder::end_of_input() noexcept {
    if (state_ == State::More) {
        if (framing_.kind == BodyKind::UntilClose) {
            state_ = State::Done;
        } else {
            fail("the body ended early");
        }
    }
    return state_;
}

}  // namespace sluice::http
