// One rule at work: what a request that met the rule is routed with.
//
// Threads: any (immutable). A new one is made when the rule is edited, around the same KvPlane,
//          endpoints, Occupancy and key.
#pragma once
#include <sluice/sdk/engine.h>
#include <sluice/sdk/selector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/metrics.hpp"
#include "core/fleet/backend_key.hpp"
#include "core/fleet/pool.hpp"
#include "core/net/address.hpp"
#include "core/route/gate.hpp"
#include "core/route/kv_plane.hpp"
#include "core/route/pd_state.hpp"
#include "core/route/totals.hpp"
#include "core/rules/rule.hpp"

namespace sluice::route {

// The rule's selector plugins.
class Selector {
public:
    struct Choice {
        bool is_found = false;
        std::uint32_t index = 0;
        float score = 0;
    };
    virtual ~Selector() = default;
    // [request] `rows` are in pool order.
    virtual Choice choose(const sluice_request& request,
                          std::span<sluice_candidate> rows) const noexcept = 0;
    virtual void observe(const sluice_outcome& outcome) const noexcept = 0;
};

// What the engine adapter says about its engine in general.
struct EngineTraits {
    std::uint32_t default_block_tokens = 16;
    std::uint32_t uncached_tail_tokens = 1;
    std::vector<std::string> reserved_fields;  // "a" or "a.b"
    std::vector<std::string> reserved_paths;
    bool hears_served = false;  // takes served()
};

// What an answer that is not 2xx means for the request, in the adapter's judgement.
enum class Judgement : std::uint8_t {
    Relay,      // the client's own fault, or nothing to add: relay it
    Busy,       // the endpoint is full, not broken
    Elsewhere,  // the endpoint did not begin: another may be tried
    Fail,       // the endpoint is at fault and may have begun
};

// One leg of a request as its adapter is asked about it; endpoints by pool index.
struct LegAsk {
    std::uint32_t kind = SLUICE_LEG_SINGLE;
    std::uint32_t flags = 0;  // SLUICE_LEG_*
    std::size_t endpoint = 0;
    std::optional<std::size_t> peer;
    std::uint32_t rank = SLUICE_ANY;
    std::uint32_t peer_rank = SLUICE_ANY;
    std::uint64_t transfer_id = 0;
    const sluice_request* request = nullptr;
    std::string_view handoff = {};
};

// The rule's engine adapter, as far as a request needs it.
class Engine {
public:
    virtual ~Engine() = default;
    // [request] The adapter's own functions, as in the SDK; an endpoint that is not attached has no
    // attachment there.
    virtual sluice_status plan(const sluice_request& request, sluice_plan& out,
                               sluice_error* err) const noexcept = 0;
    virtual sluice_status build_leg(const LegAsk& leg, sluice_leg_out& out,
                                    sluice_error* err) const noexcept = 0;
    virtual sluice_status on_reply(const LegAsk& leg, const sluice_reply& reply,
                                   sluice_reply_out& out, sluice_error* err) const noexcept = 0;
    // [request] `body` is the beginning of the answer's body. An endpoint that is not attached has
    // nobody to judge it: Relay.
    virtual Judgement judge(std::size_t pool_index, const sluice_request& request, int status,
                            std::span<const sluice_pair> headers,
                            std::string_view body) const noexcept = 0;
    // [request] An endpoint answered a request whole. Only with EngineTraits::hears_served.
    virtual void served(std::size_t pool_index, const sluice_served& what) const noexcept = 0;
};

// The texts receipts point to, so that a kept receipt keeps nothing else alive.
struct Names {
    std::string rule;                    // id
    std::vector<std::string> endpoints;  // by pool index
};

// loxilb_pd_kv_*. What has labels of a rule or an endpoint is in its Totals: children of the
// process registry stay for ever.
struct KvCounters {
    std::vector<metrics::Counter*> hits;        // by pool index
    std::vector<metrics::Counter*> spills;      // by pool index of the endpoint passed over
    std::vector<metrics::Counter*> cold_seeds;  // by pool index of the receiver
    metrics::Counter* fallthrough = nullptr;
    metrics::Counter* zero_hits = nullptr;
    // What engines said of the tokens that they were predicted to have cached.
    metrics::Counter* echo_agree = nullptr;   // as many or more
    metrics::Counter* echo_differ = nullptr;  // fewer
    metrics::Counter* echo_silent = nullptr;  // nothing
};

struct Service {
    rules::RulePtr rule;
    fleet::PoolPtr pool;
    std::vector<net::Address> addresses;  // by pool index
    std::shared_ptr<const Names> names;
    std::shared_ptr<const Selector> selector;
    std::shared_ptr<const Engine> engine;
    EngineTraits traits;
    Gate gate;
    std::shared_ptr<const fleet::BackendKey> key;  // null: the client's own header goes on
    std::shared_ptr<KvPlane> kv;                   // null: kvExactMode 0
    std::vector<KvMemberPtr> kv_members;           // by pool index; empty without kv
    KvCounters kv_counters;
    std::shared_ptr<PdState> pd;  // null: one pool, requests are not split
    Totals totals;                // empty: nothing is counted

    // Of a P/D pool: of prefill, and of decode where a held prefix saves the prefill.
    bool is_kv_watched(std::size_t i) const noexcept;
    // Block size in force for one endpoint: declared, else seen in events, else reported, else the
    // engine's default.
    std::uint32_t block_tokens(std::size_t i) const noexcept;
};

using ServicePtr = std::shared_ptr<const Service>;

// Whether KV events are wanted of the endpoints of a role.
bool watches_kv(const rules::Rule& rule, std::uint32_t role) noexcept;

}  // namespace sluice::route
