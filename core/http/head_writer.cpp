#include "core/http/head_writer.hpp"

#include <algorithm>
#include <charconv>

#include "core/http/characters.hpp"

namespace sluice::http {
namespace {

void append_number(std::string& out, std::uint64_t n, int base = 10) {
    std::array<char, 20> digits{};
    const auto [end, ec] = std::to_chars(digits.data(), digits.data() + digits.size(), n, base);
    (void)ec;  // 20 digits hold any 64-bit number
    out.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
}

void append_framing(std::string& out, Framing framing) {
    if (framing.kind == BodyKind::Length) {
        out.append("Content-Length: ");
        append_number(out, framing.length);
        out.append("\r\n");
    } else if (framing.kind == BodyKind::Chunked) {
        out.append("Transfer-Encoding: chunked\r\n");
    }
}

bool is_content_length(std::string_view name) noexcept {
    return name.size() == 14 && equals_ignore_case(name, "content-length");
}

}  // namespace

void append_header(std::string& out, std::string_view name, std::string_view value) {
    if (!is_field_value(value) || !is_field_value(name)) {
        return;
    }
    // One growth instead of four: heads are written for every request.
    const std::size_t at = out.size();
    out.resize(at + name.size() + value.size() + 4);
    char* to = out.data() + at;
    to = std::copy(name.begin(), name.end(), to);
    *to++ = ':';
    *to++ = ' ';
    to = std::copy(value.begin(), value.end(), to);
    *to++ = '\r';
    *to = '\n';
}

RequestWriter::RequestWriter(std::string& out, std::string_view method, std::string_view target,
                             std::string_view host)
    : out_(out),
      may_omit_length_(method == "GET" || method == "HEAD" || method == "OPTIONS" ||
                       method == "DELETE") {
    out_.append(method).append(" ").append(target).append(" HTTP/1.1\r\n");
    append_header(out_, "Host", host);
}

bool RequestWriter::forwards(const Header& header, std::string_view connection) noexcept {
    if (header.name.size() == 4 && equals_ignore_case(header.name, "host")) {
        return false;
    }
    if (header.name.size() == 6 && equals_ignore_case(header.name, "expect")) {
        return false;
    }
    return !is_content_length(header.name) && !is_hop_by_hop(header.name, connection);
}

void RequestWriter::finish(Framing framing) {
    if (framing.kind == BodyKind::None && !may_omit_length_) {
        framing = Framing::of_length(0);
    }
    if (framing.kind != BodyKind::Length || framing.length != 0 || !may_omit_length_) {
        append_framing(out_, framing);
    }
    out_.append("\r\n");
}

void write_response_head(std::string& out, int status, std::string_view reason, HeaderSpan headers,
                         Framing framing, bool close) {
    if (reason.empty() || !is_field_value(reason)) {
        reason = reason_phrase(status);
    }
    if (status == 200 && reason == "OK") {
        out.append("HTTP/1.1 200 OK\r\n");
    } else {
        out.append("HTTP/1.1 ");
        append_number(out, static_cast<std::uint64_t>(status));
        out.append(" ").append(reason).append("\r\n");
    }
    for (const Header& header : headers) {
        if (!is_content_length(header.name) && !is_hop_by_hop(header.name, {})) {
            append_header(out, header.name, header.value);
        }
    }
    append_framing(out, framing);
    if (close) {
        out.append("Connection: close\r\n");
    }
    out.append("\r\n");
}

std::string_view chunk_line(std::array<char, 18>& room, std::size_t bytes) noexcept {
    char* const first = room.data();
    char* end = std::to_chars(first, first + 16, bytes, 16).ptr;
    *end++ = '\r';
    *end++ = '\n';
    return {first, static_cast<std::size_t>(end - first)};
}

}  // namespace sluice::http
