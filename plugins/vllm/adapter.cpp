#include "plugins/vllm/adapter.hpp"

#include <algorithm>

#include "plugins/vllm/block_hashes.hpp"
#include "plugins/vllm/replies.hpp"

namespace sluice::vllm {

namespace {

// What only an orchestrator may set. A client's kv_transfer_params ends an engine or poisons its
// cache, wherever it stands: the members of vllm_xargs end up where the engine puts its own. A full
// event report makes the engine repeat stored blocks that are no second copies.
constexpr const char* kReservedFields[] = {"kv_transfer_params",
                                           "ec_transfer_params",
                                           "vllm_xargs.kv_transfer_params",
                                           "vllm_xargs.ec_transfer_params",
                                           "vllm_xargs.kv_cache_report_mode",
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

constexpr sluice_engine_info kInfo{sizeof(sluice_engine_info),
                                   SLUICE_CAP_PD | SLUICE_CAP_KV_EVENTS,
                                   16,
                                   1,
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

sluice_status Adapter::plan(const sluice_request& request, sluice_plan& out) {
    const Dialect& dialect = dialect_of(settings_.connector);
    const bool splits = can_split(request);
    out.kind = splits ? dialect.plan_kind() : std::uint32_t{SLUICE_PLAN_WHOLE};
    out.flags = splits ? dialect.plan_flags() : 0;
    return SLUICE_OK;
}

sluice_status Adapter::build_leg(const sluice_leg& leg, sluice_leg_out& out) {
    if (leg.kind == SLUICE_LEG_SINGLE) {
        return SLUICE_OK;
    }
    const Dialect& dialect = dialect_of(settings_.connector);
    const bool is_prefill = leg.kind == SLUICE_LEG_PREFILL;
    const bool is_release = (leg.flags & SLUICE_LEG_RELEASE) != 0;
    if (is_release && (is_prefill || !dialect.can_release())) {
        throw Failure(SLUICE_E_UNSUPPORTED, "this connector's blocks cannot be given back");
    }
    Edits body(leg.request->body, leg.request->fields);
    if (is_prefill || is_release) {
        // Giving back is reading the blocks and saying one token.
        shrink(body, view(leg.request->path));
    }
    const PrefillFacts facts = facts_of(is_prefill ? leg.at : leg.peer_at);
    const std::string id =
        is_prefill ? dialect.prefill(body, leg, facts, out) : dialect.decode(body, leg, facts);
    const sluice_status status = out.set_header(out.ctx, borrow("X-Request-Id"), borrow(id));
    return status == SLUICE_OK ? body.emit(out) : status;
}

PrefillFacts Adapter::facts_of(const sluice_attachment* prefill) const {
    // The layer's cast takes and gives what is not const; nothing is changed here.
    const Attachment* at = attached(const_cast<sluice_attachment*>(prefill));
    PrefillFacts facts = at == nullptr ? PrefillFacts{} : at->prefill_facts();
    facts.lease_us = settings_.lease_us;
    return facts;
}

// What a leg's refusal means: who is to blame, and whether its blocks may be read again.
std::uint32_t Adapter::refused(const sluice_leg& leg, const sluice_reply& reply) const {
    const Attachment* at = attached(leg.at);
    const bool is_single = leg.kind == SLUICE_LEG_SINGLE;
    const bool is_prefill = leg.kind == SLUICE_LEG_PREFILL;
    // After a decode leg has begun to read, its blocks belong to nobody: prefill again.
    const bool has_read =
        leg.kind == SLUICE_LEG_DECODE && dialect_of(settings_.connector).reads_blocks(leg);
    const auto hear = [&](Attachment::Voice v) {
        if (at != nullptr) {
            at->voice(v);
        }
    };
    switch (meaning_of(reply.http_code, text(reply.body))) {
        case ReplyMeaning::Busy:
            return SLUICE_NEXT_BUSY;
        case ReplyMeaning::Draining:
            hear(Attachment::Voice::Draining);
            return SLUICE_NEXT_ELSEWHERE;
        case ReplyMeaning::Dead:
            hear(Attachment::Voice::Dead);
            return has_read ? SLUICE_NEXT_RESTART : SLUICE_NEXT_ELSEWHERE;
        case ReplyMeaning::Elsewhere:
            return has_read ? SLUICE_NEXT_RESTART : SLUICE_NEXT_ELSEWHERE;
        case ReplyMeaning::Relay:
            break;
    }
    if (reply.http_code < 500 || is_single) {
        return SLUICE_NEXT_RELAY;
    }
    // A failed load of blocks is an ordinary 500; a prefill leg has shown nothing to anybody.
    return has_read ? SLUICE_NEXT_RESTART : is_prefill ? SLUICE_NEXT_ELSEWHERE : SLUICE_NEXT_RELAY;
}

std::uint32_t Adapter::prefilled(const sluice_leg& leg, const sluice_reply& reply,
                                 sluice_reply_out& out, sluice_error* err) const {
    const std::string name(leg.endpoint == nullptr ? "?" : view(leg.endpoint->name));
    const bool is_cut = (reply.flags & SLUICE_REPLY_CUT) != 0;
    const auto read = is_cut ? PrefillReply{} : read_prefill_reply(text(reply.body));
    if (!read) {
        (void)report(err, SLUICE_E_PROTOCOL,
                     "the prefill endpoint answered with something that is no JSON object");
        host_.warn("a prefill endpoint's answer cannot be used",
                   {{"endpoint", name}, {"reason", "it is no JSON object"}});
        return SLUICE_NEXT_FAIL;
    }
    std::string_view fault = "the reply is too long to be kept";
    if (!is_cut) {
        out.cached_tokens = cached_tokens_of(*read);
        fault = dialect_of(settings_.connector).prefilled(leg, *read, facts_of(leg.at), out);
    }
    if (!fault.empty()) {
        host_.warn("a prefill endpoint's hand-off is not used, decode computes",
                   {{"endpoint", name}, {"reason", fault}});
    }
    return SLUICE_NEXT_CONTINUE;
}

sluice_status Adapter::on_reply(const sluice_leg& leg, const sluice_reply& reply,
                                sluice_reply_out& out, sluice_error* err) {
    out.hold = 0;
    out.cached_tokens = SLUICE_ANY;
    out.lease_us = 0;
    const bool is_2xx = reply.http_code >= 200 && reply.http_code < 300;
    out.next = leg.kind == SLUICE_LEG_PREFILL && is_2xx ? prefilled(leg, reply, out, err)
                                                        : refused(leg, reply);
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
