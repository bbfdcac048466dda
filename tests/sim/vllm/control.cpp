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

}  // namespace

http::Response handle_control(Service& s, const http::Request& request) {
    return request.path == "/sim/cache" ? cache(s)
                                        : sim::handle_control(s.faults(), s.record(), request);
}

}  // namespace sluice::sim::vllm
