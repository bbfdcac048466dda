#include "core/route/path.hpp"

#include <algorithm>
#include <vector>

namespace sluice::route {
namespace {

int hex_digit(char c) noexcept {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::string decoded(std::string_view path) {
    std::string out;
    for (std::size_t i = 0; i < path.size(); ++i) {
        const int high = path[i] == '%' && i + 1 < path.size() ? hex_digit(path[i + 1]) : -1;
        const int low = high >= 0 && i + 2 < path.size() ? hex_digit(path[i + 2]) : -1;
        if (high >= 0 && low >= 0) {
            out += static_cast<char>(high * 16 + low);
            i += 2;
        } else {
            out += path[i];
        }
    }
    return out;
}

}  // namespace

bool is_canonical_path(std::string_view path) noexcept {
    if (path.empty() || path.front() != '/' || (path.size() > 1 && path.back() == '/')) {
        return false;
    }
    return path.find('%') == std::string_view::npos && path.find("//") == std::string_view::npos &&
           path.find("/.") == std::string_view::npos;
}

std::string canonical_path(std::string_view path) {
    if (is_canonical_path(path)) {
        return std::string(path);
    }
    const std::string plain = decoded(path);
    std::vector<std::string_view> parts;
    for (std::size_t at = 0; at <= plain.size();) {
        const std::size_t end = std::min(plain.find('/', at), plain.size());
        const std::string_view part = std::string_view(plain).substr(at, end - at);
        if (part == "..") {
            if (!parts.empty()) {
                parts.pop_back();
            }
        } else if (!part.empty() && part != ".") {
            parts.push_back(part);
        }
        at = end + 1;
    }
    std::string out;
    for (const std::string_view part : parts) {
        out.append("/").append(part);
    }
    return out.empty() ? "/" : out;
}

}  // namespace sluice::route
