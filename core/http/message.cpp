#include "core/http/message.hpp"

#include <algorithm>

#include "core/http/characters.hpp"

namespace sluice::http {
namespace {

constexpr char lower(char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
}

}  // namespace

bool equals_ignore_case(std::string_view a, std::string_view b) noexcept {
    // Most pairs differ in size or first letter.
    if (a.size() != b.size() || (!a.empty() && ((a[0] ^ b[0]) & ~0x20) != 0)) {
        return false;
    }
    const std::size_t size = a.size();
    if (size < 4) {
        for (std::size_t i = 0; i < size; ++i) {
            if (lower(a[i]) != lower(b[i])) {
                return false;
            }
        }
        return true;
    }
    if (size < 8) {
        const auto word = [size](const char* from) {
            return load_half(from) | std::uint64_t{load_half(from + size - 4)} << 32U;
        };
        return same_but_case(word(a.data()), word(b.data()));
    }
    // Eight at a time; the last eight overlap the ones before.
    for (std::size_t i = 0; i + 8 < size; i += 8) {
        if (!same_but_case(load_word(a.data() + i), load_word(b.data() + i))) {
            return false;
        }
    }
    return same_but_case(load_word(a.data() + size - 8), load_word(b.data() + size - 8));
}

const Header* find_header(HeaderSpan headers, std::string_view name) noexcept {
    for (const Header& header : headers) {
        if (equals_ignore_case(header.name, name)) {
            return &header;
        }
    }
    return nullptr;
}

std::string_view header_value(HeaderSpan headers, std::string_view name) noexcept {
    const Header* header = find_header(headers, name);
    return header != nullptr ? header->value : std::string_view{};
}

bool list_contains(std::string_view list, std::string_view token) noexcept {
    while (!list.empty()) {
        const std::size_t comma = std::min(list.find(','), list.size());
        std::string_view item = list.substr(0, comma);
        list.remove_prefix(std::min(comma + 1, list.size()));
        while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) {
            item.remove_prefix(1);
        }
        while (!item.empty() && (item.back() == ' ' || item.back() == '\t')) {
            item.remove_suffix(1);
        }
        if (equals_ignore_case(item, token)) {
            return true;
        }
    }
    return false;
}

bool is_hop_by_hop(std::string_view name, std::string_view connection) noexcept {
    switch (name.size()) {
        case 2:
            if (equals_ignore_case(name, "te")) {
                return true;
            }
            break;
        case 7:
            if (equals_ignore_case(name, "trailer") || equals_ignore_case(name, "upgrade")) {
                return true;
            }
            break;
        case 10:
            if (equals_ignore_case(name, "connection") || equals_ignore_case(name, "keep-alive")) {
                return true;
            }
            break;
        case 16:
            if (equals_ignore_case(name, "proxy-connection")) {
                return true;
            }
            break;
        case 17:
            if (equals_ignore_case(name, "transfer-encoding")) {
                return true;
            }
            break;
        case 18:
            if (equals_ignore_case(name, "proxy-authenticate")) {
                return true;
            }
            break;
        case 19:
            if (equals_ignore_case(name, "proxy-authorization")) {
                return true;
            }
            break;
        default:
            break;
    }
    return !connection.empty() && list_contains(connection, name);
}

std::string_view reason_phrase(int status) noexcept {
    switch (status) {
        case 100:
            return "Continue";
        case 200:
            return "OK";
        case 201:
            return "Created";
        case 202:
            return "Accepted";
        case 204:
            return "No Content";
        case 206:
            return "Partial Content";
        case 301:
            return "Moved Permanently";
        case 302:
            return "Found";
        case 303:
            return "See Other";
        case 304:
            return "Not Modified";
        case 307:
            return "Temporary Redirect";
        case 308:
            return "Permanent Redirect";
        case 400:
            return "Bad Request";
        case 401:
            return "Unauthorized";
        case 403:
            return "Forbidden";
        case 404:
            return "Not Found";
        case 405:
            return "Method Not Allowed";
        case 408:
            return "Request Timeout";
        case 409:
            return "Conflict";
        case 411:
            return "Length Required";
        case 413:
            return "Content Too Large";
        case 415:
            return "Unsupported Media Type";
        case 417:
            return "Expectation Failed";
        case 421:
            return "Misdirected Request";
        case 422:
            return "Unprocessable Content";
        case 429:
            return "Too Many Requests";
        case 431:
            return "Request Header Fields Too Large";
        case 499:
            return "Client Closed Request";
        case 500:
            return "Internal Server Error";
        case 501:
            return "Not Implemented";
        case 502:
            return "Bad Gateway";
        case 503:
            return "Service Unavailable";
        case 504:
            return "Gateway Timeout";
        case 505:
            return "HTTP Version Not Supported";
        default:
            return "Status";
    }
}

}  // namespace sluice::http
