// Where what engine adapters learn goes: load, health, facts, models, KV events.
//
// The services `fleet` and `kv` given to a plugin end here; the implementation knows which rules
// and which block indexes an endpoint belongs to.
//
// Threads: event, all of it.
// Units:   as in the SDK headers.
#pragma once
#include <sluice/sdk/fleet.h>
#include <sluice/sdk/kv.h>

#include <cstdint>
#include <string_view>

namespace sluice::plugin {

class EngineSink {
public:
    virtual ~EngineSink() = default;
    virtual void load(const sluice_load& load) = 0;
    virtual void health(std::uint64_t endpoint, std::uint32_t state, std::string_view why) = 0;
    virtual void facts(const sluice_engine_facts& facts) = 0;
    virtual void models(std::uint64_t endpoint, sluice_array models) = 0;
    virtual sluice_status apply(const sluice_kv_batch& batch, std::uint32_t* unplaced,
                                sluice_error* err) = 0;
    virtual void reset(std::uint64_t endpoint, std::uint32_t dp_rank) = 0;
    virtual void report(const sluice_kv_report& report) = 0;
};

}  // namespace sluice::plugin
