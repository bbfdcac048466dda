#include "plugins/trtllm/adapter.hpp"

#include <algorithm>

#include "plugins/trtllm/block_hashes.hpp"

namespace sluice::trtllm {

namespace {

// What only an orchestrator may set: it steers workers and names memory of theirs.
constexpr const char* kReservedFields[] = {"disaggregated_params", "prompt_token_ids_b64", nullptr};

// Reads that take something away, and administration: never for clients.
constexpr const char* kReservedPaths[] = {"/kv_cache_events",
                                          "/server_info",
                                          "/metrics",
                                          "/perf_metrics",
                                          "/prometheus/metrics",
                                          "/health_generate",
                                          "/steady_clock_offset",
                                          "/energy_metrics",
                                          "/cluster_info",
                                          "/release_memory",
                                          "/resume_memory",
                                          "/update_weights",
                                          "/_internal/tokenize",
                                          nullptr};

constexpr std::uint32_t kUncachedTail = 1;  // the last token of a prompt is never stored
constexpr sluice_engine_info kInfo{sizeof(sluice_engine_info),
                                   SLUICE_CAP_PD | SLUICE_CAP_KV_EVENTS,
                                   kDefaultBlockTokens,
                                   kUncachedTail,
                                   kReservedFields,
                                   kReservedPaths};

}  // namespace

const sluice_engine_info& Adapter::info() const noexcept {
    return kInfo;
}

Adapter::Adapter(Host host, std::string_view config)
    : host_(host), shared_{.settings = parse_settings(config), .accepts_changed = [this] {
                               accepts_changed();
                           }} {}

Adapter::~Adapter() {
    for (Attachment* at : attached_) {
        delete at;
    }
}

std::unique_ptr<Attachment> Adapter::attach(const sluice_endpoint& endpoint, std::uint32_t watch) {
    auto at = std::make_unique<Attachment>(host_, shared_, endpoint, watch);
    attached_.push_back(at.get());
    accepts_changed();
    return at;
}

void Adapter::detach(std::unique_ptr<Attachment> at) noexcept {
    std::erase(attached_, at.get());
    accepts_changed();
}

void Adapter::accepts_changed() noexcept {
    std::uint32_t all = attached_.empty() ? 0 : ~std::uint32_t{0};
    for (const Attachment* at : attached_) {
        all &= at->accepts();
    }
    all_accept_.store(all, std::memory_order_relaxed);
}

sluice_status Adapter::hash_blocks(const sluice_hash_input& in, std::span<std::uint64_t> out,
                                   std::uint32_t& num) {
    num = 0;
    const auto hashes = block_hashes(view(in.params), std::span(in.tokens, in.num_tokens),
                                     in.block_tokens, out.size());
    std::copy(hashes.begin(), hashes.end(), out.begin());
    num = static_cast<std::uint32_t>(hashes.size());
    return SLUICE_OK;
}

}  // namespace sluice::trtllm
