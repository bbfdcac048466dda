// The head of an engine's answer, kept beyond the buffer it was parsed from, so that the body can
// be looked at before the client is told anything.
//
// Threads: one exchange's; memory is reused from request to request.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/http/message.hpp"

namespace sluice::flow {

class ReplyHead {
public:
    // `connection` is the answer's Connection value, `framing` how its body is framed.
    void assign(const http::ResponseHead& head, std::string_view connection, http::Framing framing);
    void clear();

    int status() const noexcept { return status_; }
    std::string_view reason() const noexcept { return reason_; }
    http::HeaderSpan headers() const noexcept { return headers_; }
    std::string_view header(std::string_view name) const noexcept {
        return http::header_value(headers_, name);
    }
    http::Framing framing() const noexcept { return framing_; }

    // Says Retry-After to the client where the engine did not.
    void ask_to_come_later() noexcept { comes_later_ = true; }

    // The fields that go on to the client: without those of this hop and of framing, with
    // X-Request-Id added where the engine gave none, or where its own is not the client's. Valid
    // until the next assign().
    http::HeaderSpan for_client(std::string_view request_id, bool keeps_id = true);
    // How the client's body is framed; an answer to HEAD says the length its body would have.
    http::Framing client_framing(bool is_head_request) const noexcept;

private:
    std::string text_;  // owns what the views below point to
    std::vector<http::Header> headers_;
    std::vector<http::Header> client_fields_;
    std::string_view reason_;
    std::string_view connection_;
    http::Framing framing_;
    int status_ = 0;
    bool comes_later_ = false;
};

}  // namespace sluice::flow
