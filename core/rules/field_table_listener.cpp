// serviceArguments: identity, listener, and which requests the rule takes.
#include "core/rules/field_parts.hpp"

namespace sluice::rules {
namespace {

using enum Standing;

constexpr Field kListener[] = {
    text("id", Built, 128).fixed().says("The rule's id; a UUID is made when none is given."),
    text("name", Built).says("A name for people; rules are deleted by it. Several may share one."),
    flag("adminStateUp", Built)
        .otherwise("true")
        .says("False serves nothing and keeps everything. Set by PATCH; a POST leaves it."),
    text("projectId", Built).says("A label the list of rules can be filtered by."),
    text_map("annotations", Built, 64).says("Texts of the operator, kept as they are."),
    number("connectionLimit", Built, 0, kU32)
        .otherwise("0")
        .says("Requests served at a time; more are refused. 0 is no limit."),
    text("externalIP", Built, 64)
        .required()
        .fixed()
        .says("The address the rule listens on, IPv4 or IPv6."),
    text("privateIP", Stored, 64).says("An address behind a translation; has no effect here."),
    number("port", Built, 1, 65535)
        .required()
        .fixed()
        .refused(400, "serv_port_range")
        .says("The port the rule listens on."),
    number("portMax", Built, 0, 65535)
        .otherwise("0")
        .fixed()
        .says("The end of a port range; only ranges of one port are supported."),
    text("protocol", Built)
        .required()
        .fixed()
        .among("tcp|udp|sctp|icmp", "tcp")
        .refused(400, "malformed_proto")
        .says("The transport."),
    text("host", Built, 255)
        .fixed()
        .says("The Host a request must have, without its port. Empty takes every host."),
    text("path_prefix", Built, 1024).fixed().says("The path a request must have or start with."),
    text("path_match_mode", Built)
        .among("disabled|prefix|exact|")
        .otherwise("\"disabled\"")
        .fixed()
        .says("How path_prefix is compared; a prefix ends at a segment."),
    text("model_name", Built, 255)
        .fixed()
        .says("The model a request must name, with case. Empty takes every model."),
    number("block", Built, 0, kU32).otherwise("0").fixed().says("A mark that is part of the key."),
    number("mode", Built, 4, 4)
        .required()
        .fixed()
        .refused(400, "mode_not_supported")
        .says("How traffic is carried: 4, a full proxy."),
    number("security", Built, 0, 2)
        .only("0")
        .otherwise("0")
        .fixed()
        .says("0 plain, 1 TLS in front, 2 TLS in front and behind."),
    text("backend_protocol", Built)
        .among("http1|http2|both", "http1")
        .otherwise("\"http1\"")
        .says("HTTP versions towards clients and engines."),
    number("oper", Built, 0, 2)
        .otherwise("0")
        .says("What a POST does: 0 creates or replaces, 1 adds endpoints, 2 takes endpoints out."),
    flag("egress", Stored).fixed().says("A network feature; has no effect here."),
    flag("bgp", Stored).says("A network feature; has no effect here."),
    flag("snat", Stored).says("A network feature; has no effect here."),
    flag("managed", Stored).says("A network feature; has no effect here."),
    flag("proxyprotocolv2", Stored).says("A network feature; has no effect here."),
    text("trace_type", Stored).says("A network feature; has no effect here."),
    text("vip_qos_policy_id", Stored).says("A network feature; has no effect here."),
    text("sockMapMode", NotYet)
        .among("off|request|response|both")
        .otherwise("\"off\"")
        .says("Socket acceleration of a kernel data plane."),
};

}  // namespace

std::span<const Field> listener_fields() {
    return kListener;
}

}  // namespace sluice::rules
