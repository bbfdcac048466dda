// serviceArguments: admission, keys, TLS.
#include "core/rules/field_parts.hpp"

namespace sluice::rules {
namespace {

using enum Standing;

constexpr Field kFront[] = {
    text("client_cert_mode", NotYet)
        .among("disabled|optional|required")
        .otherwise("\"disabled\"")
        .says("Whether clients must show a certificate."),
    text("client_ca_path", NotYet, 4096)
        .says("The file of the authorities clients are checked by."),
    text("client_ca_cert_data", NotYet, 65536).says("The same as base64 of PEM."),
    flag("require_client_cn", NotYet).says("Whether the certificate must have a common name."),
    text("client_cn_pattern", NotYet).says("A pattern the common name must fit."),
    text("client_crl_path", NotYet, 4096).says("The file of revoked certificates."),
};

constexpr Field kBack[] = {
    flag("verify_server_cert", NotYet).says("Whether the engines' certificates are checked."),
    text("backend_ca_path", NotYet, 4096).says("The file of the authorities they are checked by."),
    text("client_cert_path", NotYet, 4096).says("The file of the certificate shown to engines."),
    text("client_key_path", NotYet, 4096).hidden().says("The file of its key; never shown."),
    text("client_cert_data", NotYet, 65536).says("The certificate as base64 of PEM."),
    text("client_key_data", NotYet, 65536).hidden().says("Its key as base64 of PEM; never shown."),
};

constexpr Field kGuard[] = {
    text("fc_mode", Built)
        .among("off|observe|enforce|inherit", "off|inherit")
        .otherwise("\"off\"")
        .process("LLB_FC_MODE")
        .says("Admission: whether more requests than the limits allow wait or are refused."),
    number("fc_max_outstanding", NotYet, 0, 100'000)
        .otherwise("0")
        .process("LLB_FC_MAX_OUTSTANDING")
        .says("Requests of the rule at a time."),
    number("fc_ep_max_inflight", NotYet, 0, 100'000)
        .otherwise("0")
        .process("LLB_FC_EP_MAX_INFLIGHT")
        .says("Requests of an endpoint at a time."),
    number("fc_prefill_max_inflight", NotYet, 0, 100'000)
        .otherwise("0")
        .process("LLB_FC_PREFILL_MAX_INFLIGHT")
        .says("Requests of a prefill endpoint at a time."),
    number("fc_decode_max_inflight", NotYet, 0, 100'000)
        .otherwise("0")
        .process("LLB_FC_DECODE_MAX_INFLIGHT")
        .says("Requests of a decode endpoint at a time."),
    number("fc_max_queue_depth", NotYet, 0, 65536)
        .otherwise("0")
        .process("LLB_FC_MAX_QUEUE_DEPTH")
        .says("Requests that wait."),
    number("fc_max_queue_wait_ms", NotYet, 0, kHourMs)
        .zero_absent()
        .otherwise("5000")
        .process("LLB_FC_MAX_QUEUE_WAIT_MS")
        .says("How long one may wait."),
    text("fc_adaptive", Built)
        .among("on|off|inherit", "off|inherit")
        .otherwise("\"off\"")
        .process("LLB_FC_ADAPTIVE")
        .says("Whether the limits follow the engines' speed."),
    number("fc_ttft_target_ms", NotYet, 0, kHourMs)
        .otherwise("0")
        .process("LLB_FC_TTFT_TARGET_MS")
        .says("The time to the first token they aim at."),
    number("fc_warmup_ms", NotYet, 0, kHourMs)
        .otherwise("0")
        .process("LLB_FC_WARMUP_MS")
        .says("How long a new endpoint gets fewer requests."),
    number("fc_telemetry_stale_ms", NotYet, 0, kHourMs)
        .zero_absent()
        .otherwise("30000")
        .process("LLB_FC_TELEMETRY_STALE_MS")
        .says("How old an engine's numbers may be."),
    number("fc_tenant_max_share_pct", NotYet, 0, 100)
        .zero_absent()
        .otherwise("100")
        .process("LLB_FC_TENANT_MAX_SHARE_PCT")
        .says("Percent of the rule one tenant may take."),
    text("fc_expose_headers", Built)
        .among("on|off|inherit", "off|inherit")
        .otherwise("\"off\"")
        .process("LLB_FC_EXPOSE_HEADERS")
        .says("Whether answers carry the queue's numbers."),

    text("api_key_auth", Built)
        .among("omitted|disabled|required|jwt|apikey-or-jwt", "omitted")
        .otherwise("\"omitted\"")
        .says("What a client must show."),
    text("jwt_auth_profile", NotYet).says("The profile tokens are checked by."),
    text("backend_auth_file", Built, 4096)
        .hidden()
        .says("The file of the key sent to engines; shown as ***, and kept when that is sent."),

    object("mtls_frontend", NotYet).of(kFront).says("Certificates of clients."),
    object("mtls_backend", NotYet).of(kBack).says("Certificates towards engines."),
    list("alpn_protocols", NotYet).says("Protocols offered in TLS."),
    text("tls_ciphers", NotYet, 4096).says("Ciphers offered in TLS."),
    list("tls_versions", NotYet).says("TLS versions offered."),
    number("hsts_max_age", NotYet, 0, kU32)
        .otherwise("0")
        .says("Seconds of Strict-Transport-Security; 0 sends none."),
    flag("hsts_include_subdomains", NotYet).says("Its includeSubDomains."),
    flag("hsts_preload", NotYet).says("Its preload."),
    text("backend_ca_cert_id", NotYet).says("A stored certificate engines are checked by."),
    text("backend_client_cert_id", NotYet).says("A stored certificate shown to engines."),
};

}  // namespace

std::span<const Field> guard_fields() {
    return kGuard;
}

}  // namespace sluice::rules
