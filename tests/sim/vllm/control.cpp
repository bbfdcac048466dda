// What the simulator offers beside the engine: faults, the requests it saw, its cache.
#include "tests/sim/engine/control.hpp"

#include "tests/sim/vllm/service.hpp"

namespace sluice::sim::vllm {
namespace {

// Findable blocks of every rank: the 64-bit hash as text, and how many copies.
http::Response cache(const Service& s) {
    json::Writer w;
    w.open_array();
    for (const auto& e : s.engines()) {
        w.open_object();
        for (const auto& [hash, copies] : e->cached()) {
            w.field(std::to_string(low_64(hash)), static_cast<std::uint64_t>(copies));
        }
        w.close_object();
    }
    http::Response r;
    r.body = w.close_array().take();
    return r;
}

// Blocks held for decode engines, by rank, and what became of those before.
http::Response leases(const Service& s) {
    json::Writer w;
    w.open_object().field("bootstrap_port", std::uint64_t{s.bootstrap_port()});
    w.key("ranks").open_array();
    for (const auto& e : s.engines()) {
        const EngineStats stats = e->stats();
        w.open_object().field("engine_id", e->link() == nullptr ? "" : e->link()->engine_id());
        w.field("port", std::uint64_t{e->link() == nullptr ? std::uint16_t{0} : e->link()->port()});
        w.field("expired", stats.kv_expired).field("read", stats.kv_read);
        w.field("late_notices", stats.late_notices).key("held").open_array();
        for (const LeaseView& lease : e->leases()) {
            w.open_object().field("request_id", lease.request_id);
            w.field("blocks", static_cast<std::uint64_t>(lease.blocks));
            w.field("age_ms", lease.age_us / 1000).key("left_ms");
            if (lease.left_us) {
                w.value(*lease.left_us / 1000);
            } else {
                w.null();
            }
            w.close_object();
        }
        w.close_array().close_object();
    }
    http::Response r;
    r.body = w.close_array().close_object().take();
    return r;
}

}  // namespace

http::Response handle_control(Service& s, const http::Request& request) {
    return request.path == "/sim/cache"    ? cache(s)
           : request.path == "/sim/leases" ? leases(s)
                                           : sim::handle_control(s.faults(), s.record(), request);
}

}  // namespace sluice::sim::vllm
