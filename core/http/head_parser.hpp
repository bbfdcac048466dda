// Incremental parsers of HTTP/1.x heads. They do no I/O and copy nothing.
//
// feed() takes all bytes from the start of the message on, again and longer each time; lines seen
// before are not looked at again, and the bytes may have moved. The head() views point into the
// bytes of the latest feed() and live as long as those.
//
// Threads: any; one parser a message stream.
// Errors:  a request: the status to answer (400, 417, 431, 501, 505) and a constant text. A
// response:
//          the same text, to be reported as Code::Protocol. After an error only reset() helps.
// Limits:  HeadLimits; the defaults fit clients and engines met so far.
// Source:  RFC 9112. Refused beyond its MUSTs: bare CR or LF, NUL, blanks before the colon, folded
//          lines, length with chunked coding, differing lengths, several or no Host on HTTP/1.1,
//          any coding but exactly "chunked".
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/http/message.hpp"

namespace sluice::http {

struct HeadLimits {
    std::size_t max_bytes = 65536;
    std::size_t max_headers = 128;
};

enum class Parse : std::uint8_t { NeedMore, Done, Failed };

namespace detail {

// What request and response heads have in common: lines, fields and the fields that frame.
class FieldParser {
public:
    explicit FieldParser(const HeadLimits& limits);

    // Of the whole head, once Done.
    std::size_t head_bytes() const noexcept { return at_; }
    int error_status() const noexcept { return error_status_; }
    const char* error_text() const noexcept { return error_text_; }
    // Ready for the next message; capacity is kept.
    void reset();

protected:
    // The next complete line without its CRLF; NeedMore leaves everything as it was.
    Parse next_line(std::string_view bytes, std::string_view& line) noexcept;
    Parse field_line(std::string_view line);
    Parse fail(int status, const char* text) noexcept;
    static void move_view(std::string_view& view, std::ptrdiff_t by) noexcept {
        if (view.data() != nullptr) {
            view = {view.data() + by, view.size()};
        }
    }
    // Views follow when the bytes have moved.
    void rebase(std::string_view bytes) noexcept;
    virtual void rebase_start_line(std::ptrdiff_t by) noexcept = 0;
    virtual ~FieldParser() = default;

    HeadLimits limits_;
    std::vector<Header> fields_;
    const char* base_ = nullptr;
    std::size_t at_ = 0;       // start of the first line not yet parsed
    std::size_t scanned_ = 0;  // no LF before this, from at_ on
    std::uint64_t content_length_ = 0;
    std::string_view connection_;    // empty if it names no fields
    std::string joined_connection_;  // of several Connection fields
    std::string_view host_;
    std::string_view expect_;
    const char* error_text_ = "";
    int error_status_ = 0;
    unsigned hosts_ = 0;
    bool has_length_ = false;
    bool has_start_line_ = false;
    bool chunked_ = false;
    bool foreign_coding_ = false;  // a coding we do not speak
    bool broken_coding_ = false;   // chunked is not the last, or twice
    bool close_ = false;
    bool keep_alive_ = false;

private:
    Parse known_field(std::string_view name, std::string_view value);
    void note_connection(std::string_view value);
    Parse note_length(std::string_view value) noexcept;
    void note_coding(std::string_view value) noexcept;
};

}  // namespace detail

class RequestParser final : public detail::FieldParser {
public:
    explicit RequestParser(const HeadLimits& limits = {}) : FieldParser(limits) {}

    Parse feed(std::string_view bytes);
    void reset();

    // Valid once Done.
    const RequestHead& head() const noexcept { return head_; }
    Framing framing() const noexcept;
    // The client wants the connection to go on (HTTP/1.1 without "close"; 1.0 never).
    bool keep_alive() const noexcept;
    bool expects_continue() const noexcept { return expects_continue_; }
    // The Connection field if it names other fields, for is_hop_by_hop().
    std::string_view connection() const noexcept { return connection_; }

private:
    Parse start_line(std::string_view line);
    Parse split_target() noexcept;
    Parse finish();
    void rebase_start_line(std::ptrdiff_t by) noexcept override;

    RequestHead head_;
    std::string_view target_authority_;
    bool expects_continue_ = false;
};

class ResponseParser final : public detail::FieldParser {
public:
    explicit ResponseParser(const HeadLimits& limits = {}) : FieldParser(limits) {}

    // Interim (1xx) heads come out like others: the caller drops them, resets and feeds the rest.
    Parse feed(std::string_view bytes);
    void reset();

    const ResponseHead& head() const noexcept { return head_; }
    bool is_interim() const noexcept { return head_.status < 200 && head_.status != 101; }
    // `to_head`: the request was HEAD.
    Framing framing(bool to_head) const noexcept;
    bool keep_alive() const noexcept;
    std::string_view connection() const noexcept { return connection_; }

private:
    Parse status_line(std::string_view line);
    Parse finish();
    void rebase_start_line(std::ptrdiff_t by) noexcept override;

    ResponseHead head_;
};

}  // namespace sluice::http
