#include "core/flow/upstream_head.hpp"

#include <algorithm>
#include <array>

namespace sluice::flow {
namespace {

// Written by us, or no business of the engine's.
constexpr std::array<std::string_view, 7> kReplaced = {
    "host",   "content-length",  "transfer-encoding", "x-request-id",
    "expect", "x-forwarded-for", "x-forwarded-proto"};

bool starts_with_ignore_case(std::string_view text, std::string_view prefix) noexcept {
    return text.size() >= prefix.size() &&
           http::equals_ignore_case(text.substr(0, prefix.size()), prefix);
}

bool is_replaced(std::string_view name) noexcept {
    return std::any_of(kReplaced.begin(), kReplaced.end(), [&](std::string_view other) {
        return name.size() == other.size() && http::equals_ignore_case(name, other);
    });
}

void field(std::string& out, std::string_view name, std::string_view value) {
    out.append(name).append(": ").append(value).append("\r\n");
}

bool is_ours_alone(std::string_view name) noexcept {
    return http::equals_ignore_case(name, "host") ||
           http::equals_ignore_case(name, "content-length") ||
           http::equals_ignore_case(name, "transfer-encoding") ||
           http::equals_ignore_case(name, "connection");
}

}  // namespace

std::string_view usable_request_id(const http::RequestHead& head) noexcept {
    const std::string_view id = head.header("X-Request-Id");
    const bool is_plain =
        std::all_of(id.begin(), id.end(), [](char c) { return c > 0x20 && c < 0x7F; });
    return !id.empty() && id.size() <= 128 && is_plain ? id : std::string_view();
}

void write_upstream_head(const UpstreamHead& in, std::string& out) {
    out.clear();
    // Origin form, whatever form the client used.
    out.append(in.client.method).append(" ").append(in.client.path);
    if (!in.client.query.empty()) {
        out.append("?").append(in.client.query);
    }
    out.append(" HTTP/1.1\r\n");
    field(out, "Host", in.host);
    std::string_view forwarded;
    for (const http::Header& header : in.client.headers) {
        if (is_replaced(header.name)) {
            if (http::equals_ignore_case(header.name, "x-forwarded-for")) {
                forwarded = header.value;
            }
            continue;
        }
        // What a body is read by is not for the client's Connection to take away.
        const bool is_type = http::equals_ignore_case(header.name, "content-type");
        if ((http::is_hop_by_hop(header.name, in.connection) && !is_type) ||
            starts_with_ignore_case(header.name, "x-sluice-") ||
            (!in.authorization.empty() && http::equals_ignore_case(header.name, "authorization")) ||
            http::find_header(in.replaced, header.name) != nullptr) {
            continue;
        }
        field(out, header.name, header.value);
    }
    out.append("X-Forwarded-For: ");
    if (!forwarded.empty()) {
        out.append(forwarded).append(", ");
    }
    out.append(in.client_ip).append("\r\n");
    field(out, "X-Forwarded-Proto", "http");
    if (http::find_header(in.replaced, "X-Request-Id") == nullptr) {
        field(out, "X-Request-Id", in.request_id);
    }
    for (const http::Header& header : in.replaced) {
        if (!header.value.empty() && !is_ours_alone(header.name)) {
            field(out, header.name, header.value);
        }
    }
    if (!in.authorization.empty()) {
        field(out, "Authorization", in.authorization);
    }
    if (in.attempt > 1) {
        field(out, "X-Sluice-Attempt", std::to_string(in.attempt));
    }
    if (in.body_bytes) {
        field(out, "Content-Length", std::to_string(*in.body_bytes));
    }
    out.append("\r\n");
}

}  // namespace sluice::flow
