#include "core/flow/reply_head.hpp"

#include <charconv>

namespace sluice::flow {
namespace {

bool is_framing_field(std::string_view name) noexcept {
    return http::equals_ignore_case(name, "content-length") ||
           http::equals_ignore_case(name, "transfer-encoding");
}

}  // namespace

void ReplyHead::assign(const http::ResponseHead& head, std::string_view connection,
                       http::Framing framing) {
    clear();
    std::size_t bytes = head.reason.size() + connection.size();
    for (const http::Header& h : head.headers) {
        bytes += h.name.size() + h.value.size();
    }
    text_.reserve(bytes);  // from here on the views stay where they are
    const auto keep = [this](std::string_view s) {
        const std::size_t at = text_.size();
        text_.append(s);
        return std::string_view(text_).substr(at, s.size());
    };
    reason_ = keep(head.reason);
    connection_ = keep(connection);
    for (const http::Header& h : head.headers) {
        const std::string_view name = keep(h.name);
        headers_.push_back({name, keep(h.value)});
    }
    framing_ = framing;
    status_ = head.status;
}

void ReplyHead::clear() {
    text_.clear();
    headers_.clear();
    client_fields_.clear();
    reason_ = {};
    connection_ = {};
    framing_ = {};
    status_ = 0;
    comes_later_ = false;
}

http::HeaderSpan ReplyHead::for_client(std::string_view request_id, bool keeps_id) {
    client_fields_.clear();
    bool has_id = false;
    for (const http::Header& h : headers_) {
        if (is_framing_field(h.name) || http::is_hop_by_hop(h.name, connection_)) {
            continue;
        }
        if (http::equals_ignore_case(h.name, "x-request-id")) {
            if (!keeps_id) {
                continue;
            }
            has_id = true;
        }
        client_fields_.push_back(h);
    }
    if (!has_id) {
        client_fields_.push_back({"X-Request-Id", request_id});
    }
    if (comes_later_) {
        client_fields_.push_back({"Retry-After", "1"});
    }
    return client_fields_;
}

http::Framing ReplyHead::client_framing(bool is_head_request) const noexcept {
    if (is_head_request) {
        const std::string_view text = header("Content-Length");
        std::uint64_t length = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
        const bool is_said =
            !text.empty() && error == std::errc() && end == text.data() + text.size();
        return is_said ? http::Framing::of_length(length) : http::Framing::none();
    }
    return framing_.kind == http::BodyKind::UntilClose ? http::Framing::chunked() : framing_;
}

}  // namespace sluice::flow
