#include "plugins/vllm/adapter.hpp"

#include <algorithm>

#include "plugins/vllm/block_hashes.hpp"
#include "plugins/vllm/replies.hpp"

namespace sluice::vllm {

namespace {

// What only an orchestrator may set. A client's kv_transfer_params ends an engine or poisons its
// cache; a full event report makes the engine repeat stored blocks that are no second copies.
constexpr const char* kReservedFields[] = {"kv_transfer_params", "vllm_xargs.kv_cache_report_mode",
                                           nullptr};

// Control paths of an engine's development mode and its adapters: never for clients.
constexpr const char* kReservedPaths[] = {"/reset_prefix_cache",
                                          "/reset_mm_cache",
                                          "/reset_encoder_cache",
                                          "/sleep",
                                          "/wake_up",
                                          "/is_sleeping",
                                          "/pause",
                                          "/resume",
                                          "/abort_requests",
                                          "/collective_rpc",
                                          "/server_info",
                                          "/start_profile",
                                          "/stop_profile",
                                          "/kv_event_sources",
                                          "/v1/load_lora_adapter",
                                          "/v1/unload_lora_adapter",
                                          nullptr};

constexpr sluice_engine_info kInfo{
    sizeof(sluice_engine_info), SLUICE_CAP_KV_EVENTS, 16, 1, kReservedFields, kReservedPaths};

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
    Attachment* at = attached(leg.at);
    const auto hear = [&](Attachment::Voice v) {
        if (at != nullptr) {
            at->voice(v);
        }
    };
    switch (meaning_of(reply.http_code, text(reply.body))) {
        case ReplyMeaning::Relay:
            out.next = SLUICE_NEXT_RELAY;
            break;
        case ReplyMeaning::Busy:
            out.next = SLUICE_NEXT_BUSY;
            break;
        case ReplyMeaning::Draining:
            hear(Attachment::Voice::Draining);
            out.next = SLUICE_NEXT_ELSEWHERE;
            break;
        case ReplyMeaning::Dead:
            hear(Attachment::Voice::Dead);
            out.next = SLUICE_NEXT_ELSEWHERE;
            break;
        case ReplyMeaning::Elsewhere:
            out.next = SLUICE_NEXT_ELSEWHERE;
            break;
    }
    return SLUICE_OK;
}

sluice_status Adapter::hash_blocks(const sluice_hash_input& in, std::span<std::uint64_t> out,
                                   std::uint32_t& num) {
    const auto hashes = block_hashes(settings_, in, out.size());
    std::copy(hashes.begin(), hashes.end(), out.begin());
    num = static_cast<std::uint32_t>(hashes.size());
    return SLUICE_OK;
}

}  // namespace sluice::vllm
