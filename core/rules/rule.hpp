// One rule as an operator wrote it: which requests it takes and which endpoints answer them.
//
// A Rule is immutable once it is in a Table. Values the operator did not give are empty optionals
// here; the accessor of the same name without `given_` in Effective has the value in force.
//
// Threads: any (immutable).
// Units:   *_ms milliseconds, *_sec seconds, *_bytes bytes, *_tokens tokens, *_blocks blocks.
// Source:  the management interface's fields; the JSON names stand beside the members.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/rules/probe_spec.hpp"

namespace sluice::rules {

// endpoints[]
struct EndpointSpec {
    std::uint64_t id = 0;         // stable over restarts, never reused
    std::uint32_t ep_idx = 0;     // stable within the rule, never reused
    std::string ip;               // endpointIP, numeric, without brackets
    std::uint16_t port = 0;       // targetPort
    std::uint32_t weight = 1;     // 0 = draining: keeps membership, gets nothing new
    bool backup = false;          // carries traffic only when every primary is out
    std::uint32_t role = 0;       // ep_role: 0 whole requests, 1 prefill, 2 decode
    std::uint16_t nixl_port = 0;  // nixl_port; 0 = port
    MonitorSpec monitor;          // how it is probed, where that is not the rule's way
    std::string name() const;     // "10.0.0.7:8000", "[fd00::7]:8000"
    std::string base_url() const;
};

// timeouts; 0 = no limit
struct Timeouts {
    std::uint64_t client_idle_ms = 75'000;
    std::uint64_t header_ms = 10'000;
    std::uint64_t body_ms = 60'000;
    std::uint64_t connect_ms = 2'000;
    std::uint64_t first_byte_ms = 0;
    std::uint64_t chunk_gap_ms = 120'000;
    std::uint64_t total_ms = 0;
    bool operator==(const Timeouts&) const = default;
};

// retry
struct Retry {
    std::uint32_t connect = 3;  // further candidates after a refused or timed-out connect
    bool not_accepted = true;   // one replay of a stale keep-alive connection
    bool after_dispatch = false;
    bool operator==(const Retry&) const = default;
};

// cb_enable and breaker
struct BreakerSpec {
    bool is_on = false;
    std::uint32_t failures = 5;          // consecutive, that open it
    std::uint64_t open_ms = 30'000;      // how long it stays open
    std::uint32_t half_open_trials = 3;  // requests at a time while half open
    std::uint32_t origin_5xx = 3;        // consecutive 5xx answers that open it; 0 = none do
    bool operator==(const BreakerSpec&) const = default;
};

// client_handoff_fields: body members that only an orchestrator may set, sent by a client
enum class Handoff : std::uint8_t { Drop, Refuse, Pass };

// pd_*: prefill and decode on different endpoints
struct PdSpec {
    bool is_on = false;                            // pd_disagg_mode
    bool is_cache_aware = false;                   // pd_cache_aware_mode
    std::uint32_t session_ttl_sec = 300;           // pd_session_ttl_sec; 0 = never by time
    std::uint32_t cache_threshold = 20;            // pd_cache_threshold, percent of the prompt
    std::uint32_t balance_threshold = 3;           // pd_balance_abs_threshold, requests
    std::uint32_t min_prompt_tokens = 0;           // pd_min_prompt_tokens
    bool is_conditional = false;                   // pd_conditional
    bool has_decode_fallback = false;              // pd_decode_only_fallback
    std::uint64_t prefill_ms = 120'000;            // pd_prefill_timeout_ms; 0 = no limit
    std::uint64_t decode_first_byte_ms = 120'000;  // pd_decode_first_byte_ms; 0 = no limit
    std::uint32_t max_inflight = 0;                // pd_max_inflight_per_ep; 0 = no limit
    std::uint32_t queue_depth = 0;                 // pd_queue_depth_per_ep
    std::uint64_t max_park_ms = 30'000;            // pd_max_park_ms; 0 = no limit
};

// ep_role
inline constexpr std::uint32_t kRoleWhole = 0;
inline constexpr std::uint32_t kRolePrefill = 1;
inline constexpr std::uint32_t kRoleDecode = 2;

// kv*; what is not given declares nothing
struct KvSpec {
    std::uint32_t exact_mode = 0;  // kvExactMode: 0 off, 1 prefill endpoints, 3 single pool
    std::optional<std::uint32_t> block_tokens;  // kvBlockSize
    std::optional<std::string> hash_algo;       // kvHashAlgo
    std::optional<std::string> hash_seed;       // kvHashSeed
    std::optional<std::uint16_t> zmq_port;      // kvZmqPort
    std::optional<std::uint16_t> replay_port;   // kvReplayPort
    bool is_discovered = true;                  // kvDiscovery: auto | off
    std::uint32_t dp_ranks = 1;                 // kvDpRankCount
    std::uint32_t warmup_sec = 0;               // kvWarmupSec
    enum class LbMode { Off, Hard };
    LbMode lb_mode = LbMode::Hard;            // kvLbMode
    std::uint32_t mean_load_factor = 175;     // kvMeanLoadFactor, percent
    std::uint32_t min_match_tokens = 16;      // kvMinMatchTokens
    std::uint32_t cold_seed_every = 16;       // kvColdSeedEvery, 0 = off
    std::uint32_t cold_seed_min_blocks = 16;  // kvColdSeedMinBlocks
    std::uint64_t max_blocks = 1'000'000;     // kvMaxBlocks, per endpoint
};

// What a client must ask for to meet the rule. All parts together are unique in a Table.
struct RuleKey {
    std::string ip;                // externalIP, numeric, canonical
    std::uint16_t port = 0;        // port
    std::string protocol = "tcp";  // protocol
    std::uint32_t block = 0;       // block
    std::string host;              // host, lower case, without port; empty = any
    std::string path_prefix;       // path_prefix
    std::string path_mode;         // path_match_mode: "" (disabled) | prefix | exact
    std::string model;             // model_name; empty = wildcard pool
    auto operator<=>(const RuleKey&) const = default;
};

struct Rule {
    RuleKey key;
    std::string id;                // given or a UUID
    std::uint32_t number = 0;      // stable, never reused, from 1
    std::uint64_t generation = 0;  // grows with every change of this rule
    std::string name;
    std::uint32_t sel = 0;         // selector by number: 0 rr, 4 lc
    std::string engine = "vllm";   // engine plugin, id or alias; by kvEngineType
    bool is_engine_given = false;  // kvEngineType or engine was said: the endpoints are known to be
                                   // that engine's and may be asked for load and models
    std::string selector = "rr";   // selector plugin, id or alias; by sel
    std::map<std::string, std::string> model_aliases;
    ProbeSpec probe;
    Timeouts timeouts;
    Retry retry;
    BreakerSpec breaker;
    std::uint64_t max_body_bytes = 64ULL << 20U;
    bool is_admin_up = true;             // adminStateUp: false serves nothing, keeps everything
    std::uint32_t connection_limit = 0;  // connectionLimit: requests at a time; 0 = no limit
    std::uint32_t max_stream_sec = 0;    // max_stream_duration_sec; 0 = a day
    std::uint32_t keepalive_sec = 0;     // backend_keepalive_interval_sec; 0 = off
    std::string auth_file;               // backend_auth_file; empty = the client's own header
    std::string trt_key_file;            // trt_disagg_key_file; empty = hand-offs are not signed
    std::vector<std::string> allowed_sources;  // prefixes, "10.0.0.0/8"; empty = everybody
    Handoff handoff = Handoff::Drop;
    KvSpec kv;
    PdSpec pd;
    std::string plugin_config = "{}";  // JSON object
    std::vector<EndpointSpec> endpoints;
    // The accepted body, canonical JSON with every field the operator gave; what is stored and
    // read back.
    std::string json;
    // The values in force, JSON object by field name: given, else process default, else built-in.
    std::string effective = "{}";
};

using RulePtr = std::shared_ptr<const Rule>;

}  // namespace sluice::rules
