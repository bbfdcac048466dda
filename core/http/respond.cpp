#include "core/http/respond.hpp"

#include <array>
#include <vector>

namespace sluice::http {
namespace {

// The bytes of the UTF-8 sequence at the front, 0 if it is none (RFC 3629).
std::size_t utf8_sequence(std::string_view text) noexcept {
    const auto at = [&](std::size_t i) {
        return static_cast<unsigned char>(text[i]);
    };
    const unsigned char lead = at(0);
    const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || text.size() < size) {
        return 0;
    }
    for (std::size_t i = 1; i < size; ++i) {
        if ((at(i) & 0xC0U) != 0x80) {
            return 0;
        }
    }
    const bool is_overlong = (lead == 0xE0 && at(1) < 0xA0) || (lead == 0xF0 && at(1) < 0x90);
    const bool is_no_scalar = (lead == 0xED && at(1) > 0x9F) || (lead == 0xF4 && at(1) > 0x8F);
    return is_overlong || is_no_scalar ? 0 : size;
}

}  // namespace

net::Task<Status> send_simple(ServerStream& stream, int status, std::string_view content_type,
                              std::string_view body, HeaderSpan extra) {
    if (stream.head_taken()) {
        co_return Error{Code::Exists, "a response has already begun"};
    }
    std::vector<Header> headers;
    headers.reserve(extra.size() + 1);
    if (!content_type.empty()) {
        headers.push_back({"Content-Type", content_type});
    }
    headers.insert(headers.end(), extra.begin(), extra.end());
    stream.send_head(status, headers, Framing::of_length(body.size()));
    co_return co_await stream.send_body(body, true);
}

void append_json_escaped(std::string& out, std::string_view text) {
    constexpr std::string_view hex = "0123456789abcdef";
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto c = static_cast<unsigned char>(text[i]);
        if (c == '"' || c == '\\') {
            out.push_back('\\');
            out.push_back(text[i]);
        } else if (c < 0x20 || c == 0x7F) {
            out.append("\\u00");
            out.push_back(hex[c >> 4U]);
            out.push_back(hex[c & 15U]);
        } else if (c < 0x80) {
            out.push_back(text[i]);
        } else {
            const std::size_t size = utf8_sequence(text.substr(i));
            if (size == 0) {
                out.push_back('?');
            } else {
                out.append(text.substr(i, size));
                i += size - 1;
            }
        }
    }
}

std::string error_json(std::string_view message, std::string_view type, std::string_view code,
                       std::string_view param, std::string_view request_id) {
    std::string out;
    out.reserve(message.size() + 128);
    const auto member = [&out](std::string_view name, std::string_view value, bool may_be_null) {
        out.append("\"").append(name).append("\":");
        if (may_be_null && value.empty()) {
            out.append("null");
            return;
        }
        out.append("\"");
        append_json_escaped(out, value);
        out.append("\"");
    };
    out.append("{\"error\":{");
    member("message", message, false);
    out.append(",");
    member("type", type, false);
    out.append(",");
    member("code", code, false);
    out.append(",");
    member("param", param, true);
    out.append(",");
    member("request_id", request_id, true);
    out.append("}}");
    return out;
}

}  // namespace sluice::http
