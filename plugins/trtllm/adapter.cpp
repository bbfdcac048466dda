#include "plugins/trtllm/adapter.hpp"

#include <algorithm>

#include "plugins/trtllm/block_hashes.hpp"
#include "plugins/trtllm/replies.hpp"

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
                                   SLUICE_CAP_KV_EVENTS,
                                   kDefaultBlockTokens,
                                   kUncachedTail,
                                   kReservedFields,
                                   kReservedPaths};

}  // namespace

const sluice_engine_info& Adapter::info() const noexcept {
    return kInfo;
}

Adapter::~Adapter() {
    for (Attachment* at : attached_) {
        delete at;
    }
}

std::unique_ptr<Attachment> Adapter::attach(const sluice_endpoint& endpoint, std::uint32_t watch) {
    auto at = std::make_unique<Attachment>(host_, settings_, endpoint, watch);
    attached_.push_back(at.get());
    return at;
}

void Adapter::detach(std::unique_ptr<Attachment> at) noexcept {
    std::erase(attached_, at.get());
}

sluice_status Adapter::on_reply(const sluice_leg& leg, const sluice_reply& reply,
                                sluice_reply_out& out) {
    if (leg.kind != SLUICE_LEG_SINGLE) {
        throw Failure(SLUICE_E_UNSUPPORTED, "only whole requests are run on this engine");
    }
    out.hold = 0;
    out.cached_tokens = SLUICE_ANY;
    out.lease_us = 0;
    switch (meaning_of(reply.http_code)) {
        case ReplyMeaning::Relay:
            out.next = SLUICE_NEXT_RELAY;
            break;
        case ReplyMeaning::Busy:
            out.next = SLUICE_NEXT_BUSY;
            break;
        case ReplyMeaning::Elsewhere:
            out.next = SLUICE_NEXT_ELSEWHERE;
            break;
    }
    return SLUICE_OK;
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
