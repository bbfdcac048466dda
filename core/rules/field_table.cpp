// The body, its endpoints and allowed sources, and serviceArguments put together.
#include <vector>

#include "core/rules/field_parts.hpp"

namespace sluice::rules {
namespace {

using enum Standing;

constexpr Field kEndpoint[] = {
    text("endpointIP", Built, 64).required().says("The engine's address, IPv4 or IPv6."),
    number("targetPort", Built, 1, 65535)
        .required()
        .refused(400, "malformed_lbep")
        .says("The engine's port."),
    number("weight", Built, 0, 255)
        .required()
        .says("Its share of traffic; 0 lets it finish and gives it nothing new."),
    number("ep_role", Built, 0, 2)
        .otherwise("0")
        .refused(400, "ep_role_range")
        .says("0 whole requests, 1 prefill, 2 decode."),
    number("nixl_port", Built, 0, 65535)
        .otherwise("0")
        .says("The engine's NIXL side channel, for vLLM's P/D request ids."),
    flag("backup", Built).says("Whether it gets traffic only when every other endpoint is out."),
    text("monitorAddress", Built, 64).says("The address probed instead of endpointIP."),
    text("subnetId", Stored).says("Kept; has no effect here."),
    text("httpMethod", Built)
        .among("GET|HEAD|POST|PUT|DELETE|CONNECT|OPTIONS|PATCH|TRACE|")
        .otherwise("\"GET\"")
        .says("The method of its http or https probe."),
    text("urlPath", Built, 1024)
        .says("The path of its http or https probe; absent takes the rule's probereq."),
    text("expectedCodes", Built)
        .otherwise("\"200\"")
        .says("The status codes of a healthy endpoint: 200, 200,202 or 200-204."),
    text("httpVersion", Built)
        .among("1.0|1.1|")
        .otherwise("\"1.1\"")
        .says("The HTTP version of its probe."),
    text("domainName", Built)
        .says("The Host of its probe, and the server name of TLS; absent takes the address."),
    read_only("id").says("Stable; never given to another endpoint."),
    read_only("ep_idx").says("Stable within the rule; never given to another endpoint."),
    read_only("state").says("active, inactive, draining or disabled."),
    read_only("counter").says("Packets and bytes, packets:bytes."),
    read_only("inActiveEP").says("True when it is out."),
    read_only("reason").says("Why it is not active."),
    read_only("inflight").says("Requests it has now."),
    read_only("queued").says("Requests that wait for it."),
    read_only("breaker").says("closed, open or half_open."),
    read_only("kv").says("What is known of its KV blocks."),
};

constexpr Field kSource[] = {
    text("prefix", Built, 64).required().says("A network, e.g. 10.0.0.0/8."),
};

constexpr Field kBody[] = {
    object("serviceArguments", Built).required().refused(400, "required").says("The rule."),
    list("endpoints", Built, 1024)
        .required()
        .refused(400, "endpoints_range")
        .says("The engines that answer."),
    list("secondaryIPs", NotYet).says("Further addresses of the rule."),
    list("secondaryVIPs", NotYet).says("Further addresses of the rule."),
    list("allowedSources", Built, 256)
        .says("The networks clients may come from; empty is everywhere."),
    read_only("id").says("The rule's id."),
    read_only("number").says("The rule's number; never given to another rule."),
    read_only("generation").says("Grows with every change."),
    read_only("effective").says("The values in force, whoever set them."),
    read_only("warnings").says("What to look at."),
    read_only("offload_state").says("Of a kernel data plane; ignored."),
    read_only("hw_pkts").says("Of a kernel data plane; ignored."),
    read_only("hw_bytes").says("Of a kernel data plane; ignored."),
};

constexpr Field kReadOnly[] = {
    read_only("number").says("The rule's number; never given to another rule."),
    read_only("generation").says("Grows with every change."),
    read_only("effective").says("The values in force, whoever set them."),
    read_only("warnings").says("What to look at."),
    read_only("fc_effective").says("The admission values in force."),
};

std::vector<Field> joined() {
    std::vector<Field> out;
    for (const std::span<const Field> part : {listener_fields(), traffic_fields(), pool_fields(),
                                              guard_fields(), std::span<const Field>(kReadOnly)}) {
        out.insert(out.end(), part.begin(), part.end());
    }
    return out;
}

}  // namespace

std::span<const Field> body_fields() {
    return kBody;
}
std::span<const Field> service_fields() {
    static const std::vector<Field> kAll = joined();
    return kAll;
}
std::span<const Field> endpoint_fields() {
    return kEndpoint;
}
std::span<const Field> source_fields() {
    return kSource;
}

}  // namespace sluice::rules
