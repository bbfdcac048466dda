// The parts of an HTTP message that every version has: header fields, request and response heads.
//
// Heads are views: they borrow from the buffer they were parsed from.
//
// Threads: any.
// Source:  RFC 9110 (fields, methods, status codes).
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace sluice::http {

struct Header {
    std::string_view name;
    std::string_view value;  // without surrounding blanks
};

using HeaderSpan = std::span<const Header>;

// ASCII only, as header names and tokens are.
bool equals_ignore_case(std::string_view a, std::string_view b) noexcept;
// The first field of that name, nullptr if there is none.
const Header* find_header(HeaderSpan headers, std::string_view name) noexcept;
// Its value, empty if there is none.
std::string_view header_value(HeaderSpan headers, std::string_view name) noexcept;
// `list` is a comma-separated field value, `token` is sought without regard to case.
bool list_contains(std::string_view list, std::string_view token) noexcept;
// Fields that end at this hop and must not be forwarded (RFC 9110 section 7.6.1): Connection and
// its kin, Transfer-Encoding, and what `connection`, the message's Connection value, names.
// Content-Length is not among them, but the framing of the next hop is its own writer's business.
bool is_hop_by_hop(std::string_view name, std::string_view connection) noexcept;
std::string_view reason_phrase(int status) noexcept;

struct RequestHead {
    std::string_view method;
    std::string_view target;     // as sent
    std::string_view path;       // the target without authority and query; "*" for OPTIONS *
    std::string_view query;      // without '?'
    std::string_view authority;  // of an absolute target, else the Host field
    HeaderSpan headers;
    int version_major = 1;
    int version_minor = 1;

    std::string_view header(std::string_view name) const noexcept {
        return header_value(headers, name);
    }
    const Header* find(std::string_view name) const noexcept { return find_header(headers, name); }
};

struct ResponseHead {
    int status = 0;
    std::string_view reason;
    HeaderSpan headers;
    int version_minor = 1;

    std::string_view header(std::string_view name) const noexcept {
        return header_value(headers, name);
    }
    const Header* find(std::string_view name) const noexcept { return find_header(headers, name); }
};

// How a body ends.
enum class BodyKind : std::uint8_t { None, Length, Chunked, UntilClose };

struct Framing {
    BodyKind kind = BodyKind::None;
    std::uint64_t length = 0;  // of Length

    static constexpr Framing none() noexcept { return {}; }
    static constexpr Framing of_length(std::uint64_t n) noexcept { return {BodyKind::Length, n}; }
    static constexpr Framing chunked() noexcept { return {BodyKind::Chunked, 0}; }
    static constexpr Framing until_close() noexcept { return {BodyKind::UntilClose, 0}; }
    friend bool operator==(const Framing&, const Framing&) = default;
};

}  // namespace sluice::http
