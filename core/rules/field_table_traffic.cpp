// serviceArguments: selection, time limits, probing, breaker, requests, plugins.
#include "core/rules/field_parts.hpp"

namespace sluice::rules {
namespace {

using enum Standing;

constexpr Field kTimeouts[] = {
    number("client_idle_ms", Built, 0, kDayMs)
        .otherwise("75000")
        .process()
        .says("A client's connection between requests."),
    number("header_ms", Built, 0, kDayMs)
        .otherwise("10000")
        .process()
        .says("Until a request's head is there."),
    number("body_ms", Built, 0, kDayMs)
        .otherwise("60000")
        .process()
        .says("Between two reads of a request's body."),
    number("connect_ms", Built, 0, kDayMs)
        .otherwise("2000")
        .process()
        .says("Until an endpoint takes a connection."),
    number("first_byte_ms", Built, 0, kDayMs)
        .otherwise("0")
        .process()
        .says("Until an endpoint's answer begins."),
    number("chunk_gap_ms", Built, 0, kDayMs)
        .otherwise("120000")
        .process()
        .says("Between two reads of an endpoint's answer."),
    number("total_ms", Built, 0, kDayMs).otherwise("0").process().says("A request as a whole."),
};

constexpr Field kRetry[] = {
    number("connect", Built, 0, 10)
        .otherwise("3")
        .process()
        .says("Further endpoints tried after a failed connect."),
    flag("not_accepted", Built)
        .otherwise("true")
        .process()
        .says("Whether a request on a stale connection is sent once more."),
    flag("after_dispatch", Built)
        .process()
        .says("Whether a request an engine may have begun is sent again."),
};

constexpr Field kBreaker[] = {
    number("failures", Built, 1, 1000)
        .otherwise("5")
        .says("Consecutive failed connects and broken answers that open it; 3 for P/D rules."),
    number("open_ms", Built, 1, kDayMs).otherwise("30000").says("How long it stays open."),
    number("half_open_trials", Built, 1, 1000)
        .otherwise("3")
        .says("Requests at a time that try a half-open endpoint; the first success closes it."),
    number("origin_5xx", Built, 0, 1000)
        .otherwise("3")
        .process("LLB_PD_ORIGIN_ERR_THRESHOLD")
        .says("Consecutive 5xx answers that open it; 0 counts none."),
};

constexpr Field kTraffic[] = {
    number("sel", Built, 0, 10)
        .otherwise("0")
        .says("The selector by number: 0 rr, 1 hash, 2 priority, 3 persist, 4 lc, 8 chwbl, "
              "9 gpuaware, 10 wrr-hash."),
    text("selector", Built).says("The selector plugin by id or alias; else what sel says."),
    text("engine", Built)
        .fixed()
        .says("The engine plugin by id or alias; else what kvEngineType says."),
    object("plugin_config", Built)
        .says("Handed to the rule's engine and selector plugins, checked by their schemas."),

    number("inactiveTimeOut", Built, 0, kDaySec)
        .zero_absent()
        .refused(400, "service_args")
        .says("timeouts.client_idle_ms in seconds."),
    number("timeoutMemberConnect", NotYet, 0, kU32)
        .otherwise("500")
        .says("A limit of L7 policies, in milliseconds."),
    number("timeoutMemberData", NotYet, 0, kU32)
        .otherwise("0")
        .says("A limit of L7 policies, in milliseconds."),
    number("timeoutTcpInspect", NotYet, 0, kU32)
        .otherwise("10000")
        .says("A limit of L7 policies, in milliseconds."),
    object("timeouts", Built).of(kTimeouts).says("Limits in milliseconds; 0 is no limit."),
    object("retry", Built).of(kRetry).says("When a request is tried again."),
    number("max_body_bytes", Built, 1024, 4ULL << 30U)
        .otherwise("67108864")
        .process()
        .says("Longer request bodies are answered 413."),
    number("max_stream_duration_sec", Built, 0, kU32)
        .zero_absent()
        .otherwise("86400")
        .says("How long one stream may last; 0 is a day."),
    number("backend_keepalive_interval_sec", Built, 0, kDaySec)
        .otherwise("0")
        .says("TCP keep-alive towards engines; 0 is off."),

    flag("monitor", Built).says("Whether endpoints are probed; a probetype switches it on."),
    text("probetype", Built)
        .among("tcp|udp|sctp|http|https|ping|none|")
        .refused(400, "malformed_service_ptype")
        .says("How endpoints are probed."),
    number("probeport", Built, 0, 65535)
        .otherwise("0")
        .says("The port probed; needed with a probetype that has ports."),
    text("probereq", Built, 1024)
        .says("The URL path of an http or https probe; what a tcp, udp or sctp probe sends."),
    text("proberesp", Built, 1024)
        .says("What the answer to a probe must hold, of a body in its first 64 KiB."),
    number("probeTimeout", Built, 0, kDaySec)
        .zero_absent()
        .otherwise("60")
        .says("Seconds between probes; one try takes at most five of them, and never longer than "
              "this."),
    number("probeRetries", Built, 0, 100)
        .zero_absent()
        .otherwise("2")
        .says("Consecutive failures before an endpoint is inactive."),
    flag("cb_enable", Built)
        .says("Whether a breaker takes failing endpoints out; P/D rules always have one."),
    object("breaker", Built).of(kBreaker).says("The breaker's numbers."),

    flag("sse_mode", Built).says("Taken for compatibility: event streams are always handled."),
    text("session_header_name", NotYet)
        .says("Where sel 3 finds a session: a header, cookie:NAME, query:NAME or basic-auth."),
    number("chwbl_prefix_hash_level", NotYet, 1, 3)
        .otherwise("1")
        .says("How much of a prompt sel 8 hashes."),
    number("chwbl_prefix_hash_flags", NotYet, 0, 255)
        .otherwise("0")
        .says("What else sel 8 hashes, by bit; 0 decides by itself."),
    number("chwbl_mean_load_factor", NotYet, 100, 300)
        .otherwise("125")
        .says("Percent of the mean load that sel 8 and 10 give one endpoint."),
    number("chwbl_replication", NotYet, 1, 1024)
        .otherwise("100")
        .says("Points on the ring of sel 8 and 10."),
    flag("chwbl_enable_cache_salt", NotYet).says("Whether a request must carry cache_salt."),

    text_map("model_aliases", Built, 256)
        .says("The name sent to the engine by the name a client uses."),
    text("client_handoff_fields", Built)
        .among("drop|refuse|pass")
        .otherwise("\"drop\"")
        .says("What happens to body members that only an orchestrator may set."),
};

}  // namespace

std::span<const Field> traffic_fields() {
    return kTraffic;
}

}  // namespace sluice::rules
