#include "core/http/head_parser.hpp"

#include <algorithm>
#include <cstring>

#include "core/http/characters.hpp"

namespace sluice::http {
namespace {

constexpr std::size_t kUsualFields = 16;
constexpr std::size_t kKeptFields = 32;  // beyond that a quiet connection gives the memory back

}  // namespace

namespace detail {

FieldParser::FieldParser(const HeadLimits& limits) : limits_(limits) {
    fields_.reserve(kUsualFields);
}

void FieldParser::reset() {
    fields_.clear();
    if (fields_.capacity() > kKeptFields) {
        std::vector<Header>().swap(fields_);
        fields_.reserve(kUsualFields);
    }
    base_ = nullptr;
    at_ = scanned_ = 0;
    content_length_ = 0;
    connection_ = host_ = expect_ = {};
    joined_connection_.clear();
    error_text_ = "";
    error_status_ = 0;
    hosts_ = 0;
    has_length_ = has_start_line_ = chunked_ = foreign_coding_ = broken_coding_ = false;
    close_ = keep_alive_ = false;
}

Parse FieldParser::fail(int status, const char* text) noexcept {
    error_status_ = status;
    error_text_ = text;
    return Parse::Failed;
}

void FieldParser::rebase(std::string_view bytes) noexcept {
    if (base_ == bytes.data()) {
        return;
    }
    if (base_ != nullptr) {
        const std::ptrdiff_t by = bytes.data() - base_;
        for (Header& field : fields_) {
            move_view(field.name, by);
            move_view(field.value, by);
        }
        if (joined_connection_.empty()) {
            move_view(connection_, by);
        }
        move_view(host_, by);
        move_view(expect_, by);
        rebase_start_line(by);
    }
    base_ = bytes.data();
}

Parse FieldParser::next_line(std::string_view bytes, std::string_view& line) noexcept {
    scanned_ = std::max(scanned_, at_);
    const void* found = bytes.size() > scanned_
                            ? std::memchr(bytes.data() + scanned_, '\n', bytes.size() - scanned_)
                            : nullptr;
    if (found == nullptr) {
        scanned_ = bytes.size();
        return bytes.size() > limits_.max_bytes ? fail(431, "head too large") : Parse::NeedMore;
    }
    const auto lf = static_cast<std::size_t>(static_cast<const char*>(found) - bytes.data());
    if (lf >= limits_.max_bytes) {
        return fail(431, "head too large");
    }
    if (lf == at_ || bytes[lf - 1] != '\r') {
        return fail(400, "line feed without carriage return in the head");
    }
    line = bytes.substr(at_, lf - 1 - at_);
    at_ = scanned_ = lf + 1;
    return Parse::Done;
}

Parse FieldParser::field_line(std::string_view line) {
    const char* const first = line.data();
    const char* const end = first + line.size();
    const char* colon = first;
    while (is_token_char(*colon)) {  // the CR behind the line ends this at the latest
        ++colon;
    }
    if (colon == first || *colon != ':') {
        return fail(
            400, *first == ' ' || *first == '\t' ? "folded header line" : "malformed header name");
    }
    const char* value = colon + 1;
    const char* value_end = end;
    while (value < value_end && (*value == ' ' || *value == '\t')) {
        ++value;
    }
    while (value < value_end && (value_end[-1] == ' ' || value_end[-1] == '\t')) {
        --value_end;
    }
    const Header field{{first, static_cast<std::size_t>(colon - first)},
                       {value, static_cast<std::size_t>(value_end - value)}};
    if (!is_field_value(field.value)) {
        return fail(400, "control character in a header value");
    }
    if (fields_.size() == limits_.max_headers) {
        return fail(431, "too many headers");
    }
    fields_.push_back(field);
    return known_field(field.name, field.value);
}

Parse FieldParser::known_field(std::string_view name, std::string_view value) {
    switch (name.size()) {
        case 4:
            if (equals_ignore_case(name, "host")) {
                ++hosts_;
                host_ = value;
            }
            break;
        case 6:
            if (equals_ignore_case(name, "expect")) {
                expect_ = value;
            }
            break;
        case 10:
            if (equals_ignore_case(name, "connection")) {
                note_connection(value);
            }
            break;
        case 14:
            if (equals_ignore_case(name, "content-length")) {
                return note_length(value);
            }
            break;
        case 17:
            if (equals_ignore_case(name, "transfer-encoding")) {
                note_coding(value);
            }
            break;
        default:
            break;
    }
    return Parse::Done;
}

void FieldParser::note_connection(std::string_view value) {
    bool names_fields = false;
    std::string_view rest = value;
    while (!rest.empty()) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        const std::string_view item = trim_blanks(rest.substr(0, comma));
        rest.remove_prefix(std::min(comma + 1, rest.size()));
        if (equals_ignore_case(item, "close")) {
            close_ = true;
        } else if (equals_ignore_case(item, "keep-alive")) {
            keep_alive_ = true;
        } else {
            names_fields = names_fields || !item.empty();
        }
    }
    // What only says close or keep-alive names no field to drop, which spares every look-up.
    if (!names_fields) {
        return;
    }
    if (connection_.empty()) {
        connection_ = value;
        return;
    }
    std::string joined(connection_);
    joined.append(", ").append(value);
    joined_connection_.swap(joined);
    connection_ = joined_connection_;
}

Parse FieldParser::note_length(std::string_view value) noexcept {
    // 18 digits are an exabyte; more is nobody's body and could overflow.
    if (value.empty() || value.size() > 18 ||
        !std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; })) {
        return fail(400, "malformed Content-Length");
    }
    std::uint64_t length = 0;
    for (const char c : value) {
        length = length * 10 + static_cast<std::uint64_t>(c - '0');
    }
    if (has_length_ && length != content_length_) {
        return fail(400, "Content-Length headers differ");
    }
    has_length_ = true;
    content_length_ = length;
    return Parse::Done;
}

void FieldParser::note_coding(std::string_view value) noexcept {
    if (value.empty()) {
        broken_coding_ = true;
    }
    while (!value.empty()) {
        const std::size_t comma = std::min(value.find(','), value.size());
        const std::string_view item = trim_blanks(value.substr(0, comma));
        value.remove_prefix(std::min(comma + 1, value.size()));
        broken_coding_ = broken_coding_ || chunked_ || item.empty();
        if (equals_ignore_case(item, "chunked")) {
            chunked_ = true;
        } else {
            foreign_coding_ = true;
        }
    }
}

}  // namespace detail

namespace {

// Reads "HTTP/1.x" and gives x; empty text on success.
const char* read_version(std::string_view text, int& major, int& minor) noexcept {
    const auto digit = [](char c) {
        return c >= '0' && c <= '9';
    };
    if (text.size() != 8 || text.substr(0, 5) != "HTTP/" || !digit(text[5]) || text[6] != '.' ||
        !digit(text[7])) {
        return "malformed HTTP version";
    }
    major = text[5] - '0';
    minor = text[7] - '0';
    return nullptr;
}

bool is_host(std::string_view host) noexcept {
    return std::all_of(host.begin(), host.end(), [](char c) {
        return c > ' ' && c < 0x7F && c != '/' && c != '?' && c != '#' && c != '@' && c != '\\' &&
               c != ',';
    });
}

bool is_prefix(std::string_view text, std::string_view prefix) noexcept {
    return text.size() >= prefix.size() &&
           equals_ignore_case(text.substr(0, prefix.size()), prefix);
}

}  // namespace

// -- requests

void RequestParser::reset() {
    FieldParser::reset();
    head_ = {};
    target_authority_ = {};
    expects_continue_ = false;
}

Parse RequestParser::feed(std::string_view bytes) {
    if (error_status_ != 0) {
        return Parse::Failed;
    }
    rebase(bytes);
    for (;;) {
        if (!has_start_line_ && at_ < bytes.size() && !is_token_char(bytes[at_]) &&
            bytes[at_] != '\r') {
            return fail(400, "malformed request line");  // TLS, say: not worth waiting for a line
        }
        std::string_view line;
        Parse p = next_line(bytes, line);
        if (p != Parse::Done) {
            return p;
        }
        if (has_start_line_) {
            if (line.empty()) {
                return finish();
            }
            p = field_line(line);
        } else if (!line.empty()) {
            p = start_line(line);
            has_start_line_ = true;
        } else if (at_ > 8) {  // a few empty lines after the last body are forgiven
            p = fail(400, "empty lines instead of a request");
        }
        if (p == Parse::Failed) {
            return p;
        }
    }
}

Parse RequestParser::start_line(std::string_view line) {
    std::size_t i = 0;
    while (i < line.size() && is_token_char(line[i])) {
        ++i;
    }
    const std::size_t last_space = line.rfind(' ');
    if (i == 0 || i == line.size() || line[i] != ' ' || last_space <= i + 1) {
        return fail(400, "malformed request line");
    }
    head_.method = line.substr(0, i);
    head_.target = line.substr(i + 1, last_space - i - 1);
    if (const char* why =
            read_version(line.substr(last_space + 1), head_.version_major, head_.version_minor);
        why != nullptr) {
        return fail(400, why);
    }
    if (head_.version_major != 1) {
        return fail(505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    }
    head_.version_minor = std::min(head_.version_minor, 1);
    return split_target();
}

Parse RequestParser::split_target() noexcept {
    const std::string_view target = head_.target;
    if (!std::all_of(target.begin(), target.end(),
                     [](char c) { return c > ' ' && c < 0x7F && c != '#'; })) {
        return fail(400, "malformed request target");
    }
    std::string_view rest = target;
    if (target.front() != '/') {
        if (target == "*" && head_.method == "OPTIONS") {
            head_.path = target;
            return Parse::Done;
        }
        if (head_.method == "CONNECT") {
            return fail(501, "CONNECT is not supported");
        }
        const std::size_t scheme = is_prefix(target, "http://")    ? 7
                                   : is_prefix(target, "https://") ? 8
                                                                   : 0;
        if (scheme == 0) {
            return fail(400, "malformed request target");
        }
        const std::size_t end = std::min(target.find_first_of("/?", scheme), target.size());
        target_authority_ = target.substr(scheme, end - scheme);
        if (target_authority_.empty() || !is_host(target_authority_)) {
            return fail(400, "malformed authority in the request target");
        }
        rest = target.substr(end);
    }
    const std::size_t mark = std::min(rest.find('?'), rest.size());
    head_.path = rest.substr(0, mark);
    head_.query = rest.substr(std::min(mark + 1, rest.size()));
    return Parse::Done;
}

Parse RequestParser::finish() {
    if (broken_coding_) {
        return fail(400, "malformed Transfer-Encoding");
    }
    if (foreign_coding_) {
        return fail(501, "only the transfer coding \"chunked\" is supported");
    }
    if (chunked_ && has_length_) {
        return fail(400, "Content-Length together with Transfer-Encoding");
    }
    if (chunked_ && head_.version_minor == 0) {
        return fail(400, "Transfer-Encoding in an HTTP/1.0 request");
    }
    if (hosts_ > 1 || !is_host(host_)) {
        return fail(400, "malformed or repeated Host");
    }
    if (hosts_ == 0 && head_.version_minor != 0) {
        return fail(400, "an HTTP/1.1 request without Host");
    }
    if (!expect_.empty() && head_.version_minor != 0) {
        if (!equals_ignore_case(expect_, "100-continue")) {
            return fail(417, "unknown expectation");
        }
        expects_continue_ = true;
    }
    head_.authority = target_authority_.empty() ? host_ : target_authority_;
    if (head_.path.empty()) {
        head_.path = "/";  // "http://host" or "http://host?query"
    }
    head_.headers = fields_;
    return Parse::Done;
}

Framing RequestParser::framing() const noexcept {
    if (chunked_) {
        return Framing::chunked();
    }
    return has_length_ && content_length_ != 0 ? Framing::of_length(content_length_)
                                               : Framing::none();
}

bool RequestParser::keep_alive() const noexcept {
    return head_.version_minor != 0 && !close_;
}

void RequestParser::rebase_start_line(std::ptrdiff_t by) noexcept {
    move_view(head_.method, by);
    move_view(head_.target, by);
    move_view(head_.path, by);
    move_view(head_.query, by);
    move_view(target_authority_, by);
}

// -- responses

void ResponseParser::reset() {
    FieldParser::reset();
    head_ = {};
}

Parse ResponseParser::feed(std::string_view bytes) {
    if (error_status_ != 0) {
        return Parse::Failed;
    }
    rebase(bytes);
    for (;;) {
        if (!has_start_line_ && at_ < bytes.size() && bytes[at_] != 'H') {
            return fail(502, "malformed status line");
        }
        std::string_view line;
        Parse p = next_line(bytes, line);
        if (p != Parse::Done) {
            return p;
        }
        if (!has_start_line_) {
            p = status_line(line);
            has_start_line_ = true;
        } else if (line.empty()) {
            return finish();
        } else {
            p = field_line(line);
        }
        if (p == Parse::Failed) {
            return p;
        }
    }
}

Parse ResponseParser::status_line(std::string_view line) {
    const auto digit = [](char c) {
        return c >= '0' && c <= '9';
    };
    int major = 0;
    if (line.size() < 12 || line[8] != ' ' ||
        read_version(line.substr(0, 8), major, head_.version_minor) != nullptr || major != 1 ||
        !digit(line[9]) || !digit(line[10]) || !digit(line[11]) || line[9] == '0' ||
        (line.size() > 12 && line[12] != ' ')) {
        return fail(502, "malformed status line");
    }
    head_.status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
    head_.reason = line.substr(std::min<std::size_t>(13, line.size()));
    head_.version_minor = std::min(head_.version_minor, 1);
    if (!is_field_value(head_.reason)) {
        return fail(502, "control character in the status line");
    }
    return Parse::Done;
}

Parse ResponseParser::finish() {
    if (broken_coding_ || foreign_coding_) {
        return fail(502, "unknown Transfer-Encoding");
    }
    if (chunked_ && has_length_) {
        return fail(502, "Content-Length together with Transfer-Encoding");
    }
    if (chunked_ && head_.version_minor == 0) {
        return fail(502, "Transfer-Encoding in an HTTP/1.0 response");
    }
    head_.headers = fields_;
    return Parse::Done;
}

Framing ResponseParser::framing(bool to_head) const noexcept {
    if (to_head || head_.status < 200 || head_.status == 204 || head_.status == 304) {
        return Framing::none();
    }
    if (chunked_) {
        return Framing::chunked();
    }
    return has_length_ ? Framing::of_length(content_length_) : Framing::until_close();
}

bool ResponseParser::keep_alive() const noexcept {
    return head_.version_minor != 0 && !close_;
}

void ResponseParser::rebase_start_line(std::ptrdiff_t by) noexcept {
    move_view(head_.reason, by);
}

}  // namespace sluice::http
