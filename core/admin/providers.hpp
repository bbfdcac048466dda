// What the management interface asks the rest of the daemon. The daemon implements it once.
//
// Threads: control; several calls at a time. A call may take a snapshot, not wait for a request.
// Errors:  Code::NotFound -> 404, Invalid -> 400, Unavailable -> 503, Unsupported -> 501; a text is
//          shown to the operator.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/admin/http_value.hpp"
#include "core/base/result.hpp"
#include "core/rules/rule.hpp"

namespace sluice::admin {

// GET /status/ready: 200 when ready, else 503 with the same body.
struct Readiness {
    bool ready = true;
    std::vector<std::string> reasons;  // `code: text`: why not, or what an operator should look at
    std::string profile = "strict";    // boot.profile
    bool database_found = false;       // boot.snapshot_found
    bool boot_succeeded = true;        // boot.succeeded
    bool degraded = false;             // boot.degraded
    std::uint64_t generation = 0;      // boot.generation
    std::string set_aside;             // boot.quarantine_path
};

// GET /status/capabilities
struct Capability {
    std::string name;
    bool is_ready = true;
    std::string code;  // why not
};

struct KvLive {
    std::uint64_t blocks = 0;
    std::string signal;       // ok | warming | quiet | doubtful | dead | refused | stolen | off
    std::string attestation;  // attested | unproven | mismatch: ...
    std::string reason;       // of a signal that is not ok; `legacy` of one that is
    std::optional<std::uint64_t> last_event_age_ms;
    bool tokens_agree = false;  // prompts tokenized here were found among its blocks
    std::string detail = {};    // the reason at length
    std::string advice = {};    // what to change
};

struct EndpointLive {
    std::string state = "active";  // active | inactive | draining | disabled
    bool inactive = false;         // inActiveEP
    std::string reason;            // why it is not active, e.g. the last probe error
    std::uint64_t inflight = 0;
    std::uint64_t queued = 0;
    std::string breaker;  // closed | open | half_open; empty = not shown
    std::optional<KvLive> kv;
    std::uint64_t requests = 0;  // sent there since the gateway started; counter
    std::uint64_t bytes = 0;     // of requests it answered, both directions; counter
    bool is_watched = false;     // a probe or the engine says how it is
};

// What is in flight to one address, of every rule.
struct AddressLoad {
    std::string host;  // numeric
    std::uint16_t port = 0;
    std::uint64_t inflight = 0;
    bool is_named = true;  // false: no rule has it any more, it only finishes
};

struct RuleLive {
    std::map<std::uint64_t, EndpointLive> endpoints;  // by EndpointSpec::id
    // Members for `effective` that only the running daemon knows, e.g. "kvBlockSize": "16".
    // A value is JSON text.
    std::map<std::string, std::string> effective;
    std::vector<std::pair<std::string, std::string>> warnings;  // code, message: found at run time
    bool is_listening = true;                                   // its address is bound
    std::uint64_t changed_us = 0;  // when its state last changed, since the epoch
    std::uint64_t active = 0;      // requests in flight
    std::uint64_t requests = 0;    // since the gateway started
    std::uint64_t bytes_in = 0;    // from clients
    std::uint64_t bytes_out = 0;   // to clients
};

// GET /status/flows
struct FlowFilter {
    std::string rule;     // id, name or number; empty = any
    std::string model;    // empty = any
    std::string outcome;  // empty = any
    std::size_t limit = 100;
};

// GET /config/ai/kv/inventory
struct Inventory {
    std::string hash_algo;
    std::string admission;              // why the signal is as it is; empty = not shown
    std::vector<std::uint64_t> blocks;  // at most the limit asked for
    std::uint64_t total = 0;
    std::string signal = {};
    struct Rank {
        std::uint32_t rank = 0;
        std::uint64_t blocks = 0;
    };
    std::vector<Rank> ranks = {};
};

// GET /config/endpoint/all: one probe.
struct HealthRow {
    std::string host;  // that a rule or health object named
    std::string name;
    rules::ProbeSpec probe;
    bool is_up = true;
    std::string reason;       // of the last try; empty after a success
    std::uint64_t tries = 0;  // successful ones, which the delays are of
    std::uint64_t min_us = 0, avg_us = 0, max_us = 0;
    bool is_object = false;            // an operator made it
    std::vector<std::uint32_t> rules;  // numbers of the rules that probe so
};

class Providers {
public:
    virtual ~Providers() = default;
    virtual Readiness ready() = 0;
    // JSON; the interface shows it as the value of "plugins".
    virtual std::string plugins_json() = 0;
    // What loaded plugins and this build can do.
    virtual std::vector<Capability> capabilities() = 0;
    // A JSON object of what only the daemon knows: settings without secrets, listeners, workers.
    virtual std::string diagnostics_json() = 0;
    // A file of the file system whose room matters: the state file.
    virtual std::string state_file() = 0;
    // Requests of clients that are being answered.
    virtual std::uint64_t in_flight() = 0;
    // From here on new requests of clients are refused, or taken again.
    virtual void refuse_new_requests(bool is_refusing) = 0;
    // A JSON array of receipts, newest first; shown as the value of "flows".
    virtual std::string flows_json(const FlowFilter& filter) = 0;
    // `{rule|listener, headers, body}` in, a receipt out; nothing is sent anywhere.
    virtual Result<std::string> explain(std::string_view json) = 0;
    virtual Result<Inventory> inventory(const rules::RulePtr& rule,
                                        const rules::EndpointSpec& endpoint, std::size_t limit) = 0;
    // Where the KV events of an endpoint are published again, as vLLM's /kv_event_sources has it:
    // an object by rank, "{}" when they are not.
    virtual std::string event_sources(const rules::RulePtr& rule,
                                      const rules::EndpointSpec& endpoint) = 0;
    virtual RuleLive rule_status(const rules::RulePtr& rule) = 0;

    // --- live state
    // By address.
    virtual std::vector<AddressLoad> address_loads() = 0;
    // Every probe in force and every health object.
    virtual std::vector<HealthRow> health() = 0;
    // Unsupported, with what is lacking, when this machine cannot probe so.
    virtual Status can_probe(const rules::ProbeSpec& probe) = 0;
    // Receipts from now on that match `filter` (its limit does not count), one of `every`; each is
    // a server-sent event with the receipt as its data.
    virtual std::shared_ptr<StreamSource> flow_stream(const FlowFilter& filter,
                                                      std::uint64_t every) = 0;
};

}  // namespace sluice::admin
