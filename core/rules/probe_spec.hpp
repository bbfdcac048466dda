// How an address is probed: the values, their words, and what an operator may write for them.
//
// A rule says how its endpoints are probed; an endpoint may say otherwise for itself. probe_of()
// puts both together: what it gives names a probe wholly, so two that are equal are one probe.
//
// Threads: any (values).
// Units:   *_sec seconds.
// Source:  the management contract's probe fields of rules, endpoints and health objects.
#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::rules {

struct Rule;
struct EndpointSpec;

// probetype, probeport, probereq, proberesp, probeTimeout, probeRetries; monitor
struct ProbeSpec {
    enum class Kind : std::uint8_t { None, Tcp, Udp, Sctp, Ping, Http, Https, TlsHello };
    Kind kind = Kind::None;
    std::string address;              // numeric; empty = the endpoint's own
    std::uint16_t port = 0;           // 0 = the endpoint's own port; ping has none
    std::string method = "GET";       // http, https
    std::string path = "/";           // http, https
    std::string codes = "200";        // http, https: what is healthy, "200-204,301"
    std::string version = "1.1";      // http, https: 1.0 or 1.1
    std::string domain;               // Host of http and https, server name of TLS; empty = address
    std::string request;              // tcp, udp, sctp: what is sent
    std::string reply;                // what the answer must hold; empty = anything
    std::uint32_t interval_sec = 60;  // probeTimeout; one try takes at most min(5 s, this)
    std::uint32_t retries = 2;        // consecutive failures before inactive
    auto operator<=>(const ProbeSpec&) const = default;
};

// endpoints[]: monitorAddress, httpMethod, urlPath, expectedCodes, httpVersion, domainName; empty
// = as the rule says.
struct MonitorSpec {
    std::string address;
    std::string method;
    std::string path;
    std::string codes;
    std::string version;
    std::string domain;
    bool operator==(const MonitorSpec&) const = default;
    // Something is given that only HTTP has, and that is not what HTTP probes do anyway.
    bool has_http() const noexcept;
};

// Address and port filled in.
ProbeSpec probe_of(const Rule& rule, const EndpointSpec& endpoint);

// The management interface's word: "none", "tcp", ... "tls-hello".
std::string_view probe_type(ProbeSpec::Kind kind) noexcept;
// None for a word that is no type.
ProbeSpec::Kind probe_kind(std::string_view type) noexcept;

bool is_http(ProbeSpec::Kind kind) noexcept;
// tcp, udp, sctp: what is sent and what comes is plain bytes.
bool is_bytes(ProbeSpec::Kind kind) noexcept;
bool has_port(ProbeSpec::Kind kind) noexcept;
// An answer to this method has a body to look into.
bool has_answer_body(std::string_view method) noexcept;

// What may go into a request line.
bool is_probe_path(std::string_view path) noexcept;
// A host name or address, with or without port.
bool is_domain(std::string_view domain) noexcept;
// "200", "200,202", "200-204" and lists of them.
bool is_status_list(std::string_view codes) noexcept;
// Whether `codes`, a status list, has `status`.
bool is_expected(std::string_view codes, int status) noexcept;

}  // namespace sluice::rules
