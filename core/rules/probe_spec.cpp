#include "core/rules/probe_spec.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/rules/rule.hpp"

namespace sluice::rules {
namespace {

using Kind = ProbeSpec::Kind;

constexpr std::array<std::pair<Kind, std::string_view>, 8> kTypes = {
    {{Kind::None, "none"},
     {Kind::Tcp, "tcp"},
     {Kind::Udp, "udp"},
     {Kind::Sctp, "sctp"},
     {Kind::Ping, "ping"},
     {Kind::Http, "http"},
     {Kind::Https, "https"},
     {Kind::TlsHello, "tls-hello"}}};

bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}

// -1 for what is no status.
int status_of(std::string_view text) noexcept {
    const bool is_status = text.size() == 3 && text[0] >= '1' && text[0] <= '5' &&
                           is_digit(text[1]) && is_digit(text[2]);
    return is_status ? (text[0] - '0') * 100 + (text[1] - '0') * 10 + (text[2] - '0') : -1;
}

// The first item of a list: "200" is 200 to 200. {-1, -1} when it is none.
std::pair<int, int> range_of(std::string_view item) noexcept {
    const std::size_t dash = item.find('-');
    const int low = status_of(item.substr(0, dash));
    const int high = dash == std::string_view::npos ? low : status_of(item.substr(dash + 1));
    return low < 0 || high < low ? std::pair{-1, -1} : std::pair{low, high};
}

void take_if_given(std::string& value, const std::string& given) {
    if (!given.empty()) {
        value = given;
    }
}

}  // namespace

bool MonitorSpec::has_http() const noexcept {
    const auto says = [](const std::string& value, std::string_view usual) {
        return !value.empty() && value != usual;
    };
    return says(method, "GET") || says(path, "/") || says(codes, "200") || says(version, "1.1") ||
           !domain.empty();
}

ProbeSpec probe_of(const Rule& rule, const EndpointSpec& endpoint) {
    ProbeSpec out = rule.probe;
    const MonitorSpec& own = endpoint.monitor;
    out.address = own.address.empty() ? endpoint.ip : own.address;
    if (out.port == 0 && has_port(out.kind)) {
        out.port = endpoint.port;
    }
    if (is_http(out.kind)) {
        take_if_given(out.method, own.method);
        take_if_given(out.path, own.path);
        take_if_given(out.codes, own.codes);
        take_if_given(out.version, own.version);
        take_if_given(out.domain, own.domain);
    }
    return out;
}

std::string_view probe_type(Kind kind) noexcept {
    for (const auto& [known, word] : kTypes) {
        if (known == kind) {
            return word;
        }
    }
    return "none";
}

Kind probe_kind(std::string_view type) noexcept {
    for (const auto& [kind, word] : kTypes) {
        if (word == type) {
            return kind;
        }
    }
    return Kind::None;
}

bool is_http(Kind kind) noexcept {
    return kind == Kind::Http || kind == Kind::Https;
}

bool is_bytes(Kind kind) noexcept {
    return kind == Kind::Tcp || kind == Kind::Udp || kind == Kind::Sctp;
}

bool has_port(Kind kind) noexcept {
    return kind != Kind::None && kind != Kind::Ping;
}

bool has_answer_body(std::string_view method) noexcept {
    return method != "HEAD" && method != "CONNECT";
}

bool is_probe_path(std::string_view path) noexcept {
    return std::all_of(path.begin(), path.end(), [](unsigned char c) {
        return c > 0x20 && c < 0x7F && c != '#' && c != '"' && c != '<' && c != '>' && c != '\\';
    });
}

bool is_domain(std::string_view domain) noexcept {
    constexpr std::size_t kMaxBytes = 259;  // a name of 253 and a port
    return !domain.empty() && domain.size() <= kMaxBytes &&
           std::all_of(domain.begin(), domain.end(), [](char c) {
               return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                      c == '.' || c == '_' || c == ':' || c == '[' || c == ']';
           });
}

bool is_status_list(std::string_view codes) noexcept {
    while (true) {
        const std::size_t comma = codes.find(',');
        if (range_of(codes.substr(0, comma)).first < 0) {
            return false;
        }
        if (comma == std::string_view::npos) {
            return true;
        }
        codes.remove_prefix(comma + 1);
    }
}

bool is_expected(std::string_view codes, int status) noexcept {
    while (true) {
        const std::size_t comma = codes.find(',');
        const auto [low, high] = range_of(codes.substr(0, comma));
        if (low >= 0 && status >= low && status <= high) {
            return true;
        }
        if (comma == std::string_view::npos) {
            return false;
        }
        codes.remove_prefix(comma + 1);
    }
}

}  // namespace sluice::rules
