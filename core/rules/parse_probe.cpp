// How the rule's endpoints are probed.
#include "core/rules/parse_parts.hpp"

namespace sluice::rules {
namespace {

using Kind = ProbeSpec::Kind;

Refusal bad_port(std::string message, std::string allowed) {
    return {400, "malformed_service_pport", "probeport", std::move(message), std::move(allowed)};
}

std::optional<Refusal> take_port(const std::string& type, ProbeSpec& probe) {
    if (type.empty() && probe.port != 0) {
        return bad_port("probeport without probetype", "a probetype with ports");
    }
    const bool needs_port = has_port(probe_kind(type));
    if (!type.empty() && !needs_port && probe.port != 0) {
        return bad_port("probetype " + type + " takes no probeport", "absent or 0");
    }
    if (needs_port && probe.port == 0) {
        return bad_port("probetype " + type + " needs a probeport", "1..65535");
    }
    return std::nullopt;
}

// What is asked, and what the answer must hold.
std::optional<Refusal> take_question(Effective& in, const std::string& type, ProbeSpec& probe) {
    const std::string request = in.text("probereq");
    probe.reply = in.text("proberesp");
    const Kind kind = probe_kind(type);
    const std::string is = type.empty() ? "absent" : type;
    if (!request.empty() && !is_http(kind) && !is_bytes(kind)) {
        return Refusal{400, "probereq_unused", "probereq",
                       "probereq is the path of an http or https probe, or what a tcp, udp or sctp "
                       "probe sends; probetype is " +
                           is,
                       "http, https, tcp, udp or sctp as probetype"};
    }
    if (!probe.reply.empty() && !is_http(kind) && !is_bytes(kind)) {
        return Refusal{400, "proberesp_unused", "proberesp",
                       "proberesp is what an answer must hold; probetype is " + is,
                       "http, https, tcp, udp or sctp as probetype"};
    }
    if (is_bytes(kind)) {
        probe.request = request;
    }
    if (!is_http(kind)) {
        return std::nullopt;
    }
    if (!is_probe_path(request)) {
        return Refusal{400,
                       "malformed_path",
                       "probereq",
                       "probereq must be a URL path without white space",
                       {}};
    }
    probe.path = request.empty() || request.front() != '/' ? "/" + request : request;
    in.set("probereq", Json(probe.path));
    return std::nullopt;
}

// Fields of endpoints that the rule's probe has no use for: said where nothing is probed, so that
// probing can be switched off and on again, else refused.
std::optional<Refusal> check_monitors(Draft& out) {
    const ProbeSpec& probe = out.rule.probe;
    for (const EndpointSpec& endpoint : out.rule.endpoints) {
        const MonitorSpec& own = endpoint.monitor;
        const bool is_any = own.has_http() || !own.address.empty();
        if (probe.kind == Kind::None && is_any) {
            out.warnings.push_back(
                {"no_effect", "endpoints",
                 "nothing is probed: how " + endpoint.name() + " is probed has no effect"});
        }
        if (probe.kind != Kind::None && !is_http(probe.kind) && own.has_http()) {
            return Refusal{400, "monitor_unused", "endpoints",
                           "httpMethod, urlPath, expectedCodes, httpVersion and domainName of " +
                               endpoint.name() + " are of an http or https probe; probetype is " +
                               std::string(probe_type(probe.kind)),
                           "http or https as probetype"};
        }
        if (is_http(probe.kind) && !probe.reply.empty() && !has_answer_body(own.method)) {
            return Refusal{400, "proberesp_unused", "proberesp",
                           "the answer to " + own.method + " of " + endpoint.name() +
                               " has no body that could hold proberesp",
                           "another httpMethod, or no proberesp"};
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<Refusal> take_probe(Effective& in, Draft& out) {
    ProbeSpec& probe = out.rule.probe;
    const std::string type = in.text("probetype");
    probe.port = in.u16("probeport");
    if (auto refusal = take_port(type, probe)) {
        return refusal;
    }
    if (auto refusal = take_question(in, type, probe)) {
        return refusal;
    }
    probe.kind = type.empty() && in.boolean("monitor") ? Kind::Tcp : probe_kind(type);
    const bool is_probed = probe.kind != Kind::None;
    if (type == "none" && in.boolean("monitor")) {
        out.warnings.push_back({"no_effect", "monitor", "probetype none switches probing off"});
    }
    if (is_probed && in.was_given("monitor") && !in.boolean("monitor")) {
        out.warnings.push_back({"monitor_forced", "monitor", "a probetype switches monitoring on"});
    }
    in.set("monitor", Json(is_probed));
    in.set("probetype", Json(probe_type(probe.kind)));
    probe.interval_sec = in.u32("probeTimeout");
    probe.retries = in.u32("probeRetries");
    return check_monitors(out);
}

}  // namespace sluice::rules
