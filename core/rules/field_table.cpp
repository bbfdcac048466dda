#include "core/rules/field.hpp"

namespace sluice::rules {
namespace {

using enum Standing;

constexpr Field flag(std::string_view name, Standing standing) {
    Field f;
    f.name = name;
    f.type = Type::Bool;
    f.standing = standing;
    f.fallback = "false";
    return f;
}
constexpr Field number(std::string_view name, Standing standing, std::uint64_t min,
                       std::uint64_t max) {
    Field f;
    f.name = name;
    f.type = Type::Uint;
    f.standing = standing;
    f.min = min;
    f.max = max;
    return f;
}
constexpr Field text(std::string_view name, Standing standing, std::uint64_t max_bytes = 256) {
    Field f;
    f.name = name;
    f.standing = standing;
    f.max = max_bytes;
    return f;
}
constexpr Field text_map(std::string_view name, Standing standing, std::uint64_t max_entries) {
    Field f = text(name, standing, max_entries);
    f.type = Type::TextMap;
    return f;
}
constexpr Field object(std::string_view name, Standing standing) {
    Field f = text(name, standing, 64);
    f.type = Type::Object;
    return f;
}
constexpr Field list(std::string_view name, Standing standing, std::uint64_t max_entries = 64) {
    Field f = text(name, standing, max_entries);
    f.type = Type::List;
    return f;
}
constexpr Field read_only(std::string_view name) {
    return text(name, ReadOnly);
}

constexpr std::uint64_t kU32 = 0xFFFFFFFF;
constexpr std::uint64_t kDayMs = 86'400'000;
constexpr std::uint64_t kHourMs = 3'600'000;

constexpr Field kTimeouts[] = {
    number("client_idle_ms", Built, 0, kDayMs).otherwise("75000").process(),
    number("header_ms", Built, 0, kDayMs).otherwise("10000").process(),
    number("body_ms", Built, 0, kDayMs).otherwise("60000").process(),
    number("connect_ms", Built, 0, kDayMs).otherwise("2000").process(),
    number("first_byte_ms", Built, 0, kDayMs).otherwise("0").process(),
    number("chunk_gap_ms", Built, 0, kDayMs).otherwise("120000").process(),
    number("total_ms", Built, 0, kDayMs).otherwise("0").process(),
};

constexpr Field kRetry[] = {
    number("connect", Built, 0, 10).otherwise("3").process(),
    flag("not_accepted", Built).otherwise("true").process(),
    flag("after_dispatch", Built).process(),
};

constexpr Field kBreaker[] = {
    number("failures", NotYet, 1, 1000).otherwise("5"),
    number("open_ms", NotYet, 1, kDayMs).otherwise("30000"),
    number("half_open_trials", NotYet, 1, 1000).otherwise("3"),
    number("origin_5xx", NotYet, 0, 1000).otherwise("3"),
};

constexpr Field kService[] = {
    // Identity and listener.
    text("id", Built, 128),
    text("name", Built),
    flag("adminStateUp", Built).otherwise("true"),
    text("projectId", Built),
    text_map("annotations", Built, 64),
    number("connectionLimit", Built, 0, kU32).otherwise("0"),
    text("externalIP", Built, 64).required(),
    text("privateIP", NotYet, 64),
    number("port", Built, 1, 65535).required().refused(400, "serv_port_range"),
    number("portMax", NotYet, 0, 65535).otherwise("0"),
    text("protocol", Built)
        .required()
        .among("tcp|udp|sctp|icmp", "tcp")
        .refused(400, "malformed_proto"),
    text("host", Built, 255),
    text("path_prefix", Built, 1024),
    text("path_match_mode", Built).among("disabled|prefix|exact|").otherwise("\"disabled\""),
    text("model_name", Built, 255),
    number("block", Built, 0, kU32).otherwise("0"),
    number("mode", Built, 4, 4).required().refused(400, "mode_not_supported"),
    number("security", Built, 0, 2).only("0").otherwise("0"),
    text("backend_protocol", Built).among("http1|http2|both", "http1").otherwise("\"http1\""),
    number("oper", NotYet, 0, 2).otherwise("0"),
    number("sel", Built, 0, 10).otherwise("0"),
    number("inactiveTimeOut", Built, 0, 86400).zero_absent().refused(400, "service_args"),
    number("timeoutMemberConnect", NotYet, 0, kU32).otherwise("500"),
    number("timeoutMemberData", NotYet, 0, kU32).otherwise("0"),
    number("timeoutTcpInspect", NotYet, 0, kU32).otherwise("10000"),
    flag("egress", Stored),
    flag("bgp", Stored),
    flag("snat", Stored),
    flag("managed", Stored),
    flag("proxyprotocolv2", Stored),
    text("trace_type", Stored),
    text("vip_qos_policy_id", Stored),

    // Probing, breaker, streaming, sessions, consistent hashing.
    flag("monitor", Built),
    text("probetype", Built)
        .among("tcp|udp|sctp|http|https|ping|none|", "tcp|http|none|")
        .refused(400, "malformed_service_ptype"),
    number("probeport", Built, 0, 65535).otherwise("0"),
    text("probereq", Built, 1024),
    text("proberesp", NotYet, 1024),
    number("probeTimeout", Built, 0, 86400).zero_absent().otherwise("60"),
    number("probeRetries", Built, 0, 100).zero_absent().otherwise("2"),
    flag("cb_enable", NotYet),
    flag("sse_mode", Built),
    number("max_stream_duration_sec", Built, 0, kU32).zero_absent().otherwise("86400"),
    number("backend_keepalive_interval_sec", Built, 0, 86400).otherwise("0"),
    text("session_header_name", NotYet),
    number("chwbl_prefix_hash_level", NotYet, 1, 3).otherwise("1"),
    number("chwbl_prefix_hash_flags", NotYet, 0, 255).otherwise("0"),
    number("chwbl_mean_load_factor", NotYet, 100, 300).otherwise("125"),
    number("chwbl_replication", NotYet, 1, 1024).otherwise("100"),
    flag("chwbl_enable_cache_salt", NotYet),

    // P/D.
    flag("pd_disagg_mode", NotYet),
    flag("pd_cache_aware_mode", NotYet),
    number("pd_session_ttl_sec", NotYet, 0, kU32).otherwise("300"),
    number("pd_cache_threshold", NotYet, 0, 100).otherwise("20"),
    number("pd_balance_abs_threshold", NotYet, 0, kU32).otherwise("3"),
    number("pdBootstrapPort", NotYet, 0, 65535).otherwise("0"),
    text("pd_connector", NotYet).among("nixl|lmcache|mooncake").otherwise("\"nixl\""),
    number("pd_min_prompt_tokens", NotYet, 0, kU32).otherwise("0"),
    flag("pd_conditional", NotYet),
    flag("pd_decode_only_fallback", NotYet),
    number("pd_prefill_timeout_ms", NotYet, 0, kDayMs).otherwise("120000"),
    number("pd_decode_first_byte_ms", NotYet, 0, kDayMs).otherwise("120000"),
    number("pd_max_inflight_per_ep", NotYet, 0, 100'000).otherwise("0"),
    number("pd_queue_depth_per_ep", NotYet, 0, 65536).otherwise("0"),
    number("pd_max_park_ms", NotYet, 0, kHourMs).otherwise("30000"),
    text("trt_disagg_key_file", NotYet, 4096),

    // KV-exact.
    text("kvEngineType", Built).among("vllm|sglang|trtllm|llamacpp", "vllm").otherwise("\"vllm\""),
    number("kvExactMode", Built, 0, 3).otherwise("0"),
    number("kvBlockSize", Built, 1, 65536),
    text("kvHashAlgo", Built)
        .among("sha256_cbor|xxhash_cbor|sha256|xxhash|sha256_sglang|blockhash_trtllm"),
    text("kvHashSeed", Built).process("LLB_KV_NONE_HASH_SEED"),
    number("kvZmqPort", Built, 0, 65535).zero_absent().otherwise("5557"),
    number("kvReplayPort", Built, 0, 65535),
    number("kvWarmupSec", Built, 0, 86400).otherwise("0").process(),
    number("kvDpRankCount", Built, 1, 8).otherwise("1"),
    text("kvLbMode", Built)
        .among("off|hard|soft|adaptive|adaptive-soft", "off|hard")
        .otherwise("\"hard\"")
        .process("LOXILB_KV_LB_MODE"),
    number("kvMeanLoadFactor", Built, 100, 1000)
        .otherwise("175")
        .process("LOXILB_KV_MEAN_LOAD_FACTOR"),
    number("kvLoadPenalty", NotYet, 1, 100'000).otherwise("32"),
    number("kvMinMatchTokens", Built, 0, 4096).otherwise("16").process("LLB_KV_MIN_MATCH_TOKENS"),
    number("kvColdSeedEvery", Built, 0, 10'000)
        .otherwise("16")
        .process("LOXILB_KV_COLDSTART_SEED_N"),
    number("kvColdSeedMinBlocks", Built, 0, 10'000)
        .otherwise("16")
        .process("LOXILB_KV_COLDSTART_MIN_BLOCKS"),
    number("kvMaxBlocks", Built, 1000, 100'000'000)
        .otherwise("1000000")
        .process("LOXILB_KV_MAX_BLOCKS"),
    number("kvSpeculateMs", NotYet, 0, 60'000).otherwise("2000"),
    text("kvDiscovery", Built).among("off|auto").otherwise("\"auto\""),
    text("kvRepublish", NotYet),
    text("kvEventsFrom", NotYet, 1024),
    text("kvModelProfile", NotYet),
    text("kvExactApiMode", NotYet).among("completions|chat|both|"),

    // Admission.
    text("fc_mode", Built).among("off|observe|enforce|inherit", "off|inherit"),
    number("fc_max_outstanding", NotYet, 0, 100'000).otherwise("0"),
    number("fc_ep_max_inflight", NotYet, 0, 100'000).otherwise("0"),
    number("fc_prefill_max_inflight", NotYet, 0, 100'000).otherwise("0"),
    number("fc_decode_max_inflight", NotYet, 0, 100'000).otherwise("0"),
    number("fc_max_queue_depth", NotYet, 0, 65536).otherwise("0"),
    number("fc_max_queue_wait_ms", NotYet, 0, kHourMs).otherwise("0"),
    text("fc_adaptive", Built).among("on|off|inherit", "off|inherit"),
    number("fc_ttft_target_ms", NotYet, 0, kHourMs).otherwise("0"),
    number("fc_warmup_ms", NotYet, 0, kHourMs).otherwise("0"),
    number("fc_telemetry_stale_ms", NotYet, 0, kHourMs).otherwise("30000"),
    number("fc_tenant_max_share_pct", NotYet, 0, 100).otherwise("100"),
    text("fc_expose_headers", Built).among("on|off|inherit", "off|inherit"),

    // Keys and TLS.
    text("api_key_auth", Built)
        .among("omitted|disabled|required|jwt|apikey-or-jwt", "omitted")
        .otherwise("\"omitted\""),
    text("jwt_auth_profile", NotYet),
    text("sockMapMode", NotYet).among("off|request|response|both").otherwise("\"off\""),
    object("mtls_frontend", NotYet),
    object("mtls_backend", NotYet),
    list("alpn_protocols", NotYet),
    text("tls_ciphers", NotYet, 4096),
    list("tls_versions", NotYet),
    number("hsts_max_age", NotYet, 0, kU32).otherwise("0"),
    flag("hsts_include_subdomains", NotYet),
    flag("hsts_preload", NotYet),
    text("backend_ca_cert_id", NotYet),
    text("backend_client_cert_id", NotYet),
    text("backend_auth_file", Built, 4096),

    // Requests, plugins.
    text_map("model_aliases", Built, 256),
    object("timeouts", Built).of(kTimeouts),
    object("retry", Built).of(kRetry),
    object("breaker", NotYet).of(kBreaker),
    number("max_body_bytes", Built, 1024, 4ULL << 30U).otherwise("67108864").process(),
    text("client_handoff_fields", Built).among("drop|refuse|pass").otherwise("\"drop\""),
    object("plugin_config", Built),
    text("engine", Built),
    text("selector", Built),

    read_only("number"),
    read_only("generation"),
    read_only("effective"),
    read_only("warnings"),
    read_only("fc_effective"),
};

constexpr Field kEndpoint[] = {
    text("endpointIP", Built, 64).required(),
    number("targetPort", Built, 1, 65535).required().refused(400, "malformed_lbep"),
    number("weight", Built, 0, 255).required(),
    number("ep_role", Built, 0, 2).only("0").otherwise("0").refused(400, "ep_role_range"),
    number("nixl_port", Stored, 0, 65535).otherwise("0"),
    flag("backup", Built),
    text("monitorAddress", NotYet, 64),
    text("subnetId", Stored),
    text("httpMethod", NotYet).otherwise("\"GET\""),
    text("urlPath", NotYet, 1024).otherwise("\"/\""),
    text("expectedCodes", NotYet).otherwise("\"200\""),
    text("httpVersion", NotYet),
    text("domainName", NotYet),
    read_only("id"),
    read_only("ep_idx"),
    read_only("state"),
    read_only("counter"),
    read_only("inActiveEP"),
    read_only("reason"),
    read_only("inflight"),
    read_only("queued"),
    read_only("breaker"),
    read_only("kv"),
};

constexpr Field kSource[] = {
    text("prefix", Built, 64).required(),
};

constexpr Field kBody[] = {
    object("serviceArguments", Built).required().refused(400, "required"),
    list("endpoints", Built, 1024).required().refused(400, "endpoints_range"),
    list("secondaryIPs", NotYet),
    list("secondaryVIPs", NotYet),
    list("allowedSources", Built, 256),
    read_only("id"),
    read_only("number"),
    read_only("generation"),
    read_only("effective"),
    read_only("warnings"),
    read_only("offload_state"),
    read_only("hw_pkts"),
    read_only("hw_bytes"),
};

}  // namespace

std::span<const Field> body_fields() {
    return kBody;
}
std::span<const Field> service_fields() {
    return kService;
}
std::span<const Field> endpoint_fields() {
    return kEndpoint;
}
std::span<const Field> source_fields() {
    return kSource;
}

}  // namespace sluice::rules
