#include "core/http/head_parser.hpp"

#include <algorithm>

#include "core/http/characters.hpp"

namespace sluice::http {
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
