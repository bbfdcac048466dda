#include "tests/sim/support/http_request.hpp"

#include <algorithm>
#include <charconv>

namespace sluice::sim::http {
namespace {

char lower(char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

bool is_token(std::string_view s) noexcept {
    static constexpr std::string_view kExtra = "!#$%&'*+-.^_`|~";
    return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) {
        return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') ||
               kExtra.find(c) != std::string_view::npos;
    });
}

std::string_view trim(std::string_view s) noexcept {
    while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) {
        s.remove_prefix(1);
    }
    while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) {
        s.remove_suffix(1);
    }
    return s;
}

// A whole number in `base`; empty for anything else.
std::optional<std::size_t> number(std::string_view s, int base) noexcept {
    std::size_t n = 0;
    const auto r = std::from_chars(s.data(), s.data() + s.size(), n, base);
    if (s.empty() || r.ec != std::errc() || r.ptr != s.data() + s.size()) {
        return std::nullopt;
    }
    return n;
}

// Whether a comma-separated header value names `token`.
bool lists(std::string_view value, std::string_view token) noexcept {
    while (!value.empty()) {
        const std::size_t comma = value.find(',');
        if (equals_ignoring_case(trim(value.substr(0, comma)), token)) {
            return true;
        }
        value.remove_prefix(comma == std::string_view::npos ? value.size() : comma + 1);
    }
    return false;
}

}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](char x, char y) { return lower(x) == lower(y); });
}

const std::string* Request::header(std::string_view name) const noexcept {
    for (const auto& [key, value] : headers) {
        if (equals_ignoring_case(key, name)) {
            return &value;
        }
    }
    return nullptr;
}

// The engine closes after every HTTP/1.0 request, keep-alive or not (transport-http10-keepalive).
bool Request::wants_close() const noexcept {
    const std::string* c = header("connection");
    return is_http10 || (c != nullptr && lists(*c, "close"));
}

bool Request::expects_continue() const noexcept {
    const std::string* e = header("expect");
    return e != nullptr && equals_ignoring_case(*e, "100-continue");
}

Parsed RequestParser::next() {
    if (at_ == At::Broken) {
        return Parsed::Invalid;
    }
    const Parsed p = at_ == At::Head ? head() : body();
    if (p == Parsed::Invalid) {
        at_ = At::Broken;
    }
    return p;
}

Parsed RequestParser::head() {
    const std::size_t end = in_.find("\r\n\r\n");
    if (end == std::string::npos) {
        return in_.size() > kMaxHeadBytes ? Parsed::Invalid : Parsed::More;
    }
    request_ = Request{};
    const bool good = read_head(std::string_view(in_).substr(0, end)) && choose_framing();
    in_.erase(0, end + 4);
    if (!good) {
        return Parsed::Invalid;
    }
    return at_ == At::Head ? Parsed::Request : Parsed::Head;
}

bool RequestParser::read_head(std::string_view text) {
    const std::size_t eol = text.find("\r\n");
    const std::string_view first = text.substr(0, eol);
    const std::size_t a = first.find(' ');
    const std::size_t b = first.rfind(' ');
    if (a == std::string_view::npos || b == a || !is_token(first.substr(0, a))) {
        return false;
    }
    const std::string_view target = first.substr(a + 1, b - a - 1);
    const std::string_view version = first.substr(b + 1);
    if (target.empty() || target.find(' ') != std::string_view::npos ||
        (version != "HTTP/1.1" && version != "HTTP/1.0")) {
        return false;
    }
    request_.method = first.substr(0, a);
    request_.target = target;
    request_.is_http10 = version == "HTTP/1.0";
    const std::size_t mark = target.find('?');
    request_.path = target.substr(0, mark);
    request_.query = mark == std::string_view::npos ? "" : target.substr(mark + 1);

    std::string_view rest = eol == std::string_view::npos ? "" : text.substr(eol + 2);
    while (!rest.empty()) {
        const std::size_t end = rest.find("\r\n");
        if (!add_header(rest.substr(0, end))) {
            return false;
        }
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 2);
    }
    return true;
}

bool RequestParser::add_header(std::string_view line) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
        return false;
    }
    request_.headers.emplace_back(line.substr(0, colon), trim(line.substr(colon + 1)));
    return true;
}

bool RequestParser::choose_framing() {
    std::optional<std::size_t> length;
    bool chunked = false;
    for (const auto& [key, value] : request_.headers) {
        if (equals_ignoring_case(key, "content-length")) {
            const auto n = number(value, 10);
            if (!n || length || *n > kMaxBodyBytes) {
                return false;
            }
            length = n;
        } else if (equals_ignoring_case(key, "transfer-encoding")) {
            if (chunked || !equals_ignoring_case(value, "chunked")) {
                return false;
            }
            chunked = true;
        }
    }
    if (chunked && length) {
        return false;
    }
    left_ = length.value_or(0);
    at_ = chunked ? At::ChunkSize : left_ > 0 ? At::Length : At::Head;
    return true;
}

// Takes one line off the input; empty while it is not complete.
std::optional<std::string> RequestParser::line() {
    const std::size_t eol = in_.find("\r\n");
    if (eol == std::string::npos) {
        return std::nullopt;
    }
    std::string out = in_.substr(0, eol);
    in_.erase(0, eol + 2);
    return out;
}

Parsed RequestParser::body() {
    for (;;) {
        switch (at_) {
            case At::Length:
            case At::ChunkData: {
                const std::size_t n = std::min(left_, in_.size());
                request_.body.append(in_, 0, n);
                in_.erase(0, n);
                left_ -= n;
                if (left_ > 0) {
                    return Parsed::More;
                }
                if (at_ == At::Length) {
                    at_ = At::Head;
                    return Parsed::Request;
                }
                at_ = At::ChunkEnd;
                break;
            }
            case At::ChunkEnd:
            case At::ChunkSize:
            case At::Trailer: {
                const auto text = line();
                if (!text) {
                    return in_.size() > kMaxHeadBytes ? Parsed::Invalid : Parsed::More;
                }
                if (at_ == At::ChunkEnd) {
                    if (!text->empty()) {
                        return Parsed::Invalid;
                    }
                    at_ = At::ChunkSize;
                } else if (at_ == At::Trailer) {
                    if (text->empty()) {
                        at_ = At::Head;
                        return Parsed::Request;
                    }
                } else {
                    const auto size =
                        number(trim(std::string_view(*text).substr(0, text->find(';'))), 16);
                    if (!size || *size > kMaxBodyBytes - request_.body.size()) {
                        return Parsed::Invalid;
                    }
                    left_ = *size;
                    at_ = *size == 0 ? At::Trailer : At::ChunkData;
                }
                break;
            }
            case At::Head:
            case At::Broken:
                return Parsed::Invalid;
        }
    }
}

}  // namespace sluice::sim::http
