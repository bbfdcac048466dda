#include "plugins/vllm/adapter.hpp"

#include "plugins/vllm/json.hpp"
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

int hex_digit(char c) noexcept {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

std::string from_hex(std::string_view hex) {
    std::string out;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
        const int high = hex_digit(hex[i]);
        const int low = hex_digit(hex[i + 1]);
        if (high < 0 || low < 0) {
            break;
        }
        out += static_cast<char>(high * 16 + low);
    }
    return out;
}

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
    num = 0;
    json::Document doc;
    const std::string_view params = view(in.params);
    if (!doc.parse(params.empty() ? "{}" : params) || !doc.root().is_object()) {
        throw Failure(SLUICE_E_INVALID, "params is not a JSON object");
    }
    const auto text_of = [&](const char* name) {
        return json::text(json::member(doc.root(), name));
    };
    HashRule rule;
    rule.algorithm = settings_.algorithm.value_or(Algorithm::Sha256);
    if (const auto name = text_of("algorithm")) {
        const auto algorithm = algorithm_named(*name);
        if (!algorithm) {
            throw Failure(SLUICE_E_INVALID, "algorithm: not one of this engine's");
        }
        rule.algorithm = *algorithm;
    }
    rule.integer_parent = json::boolean(json::member(doc.root(), "parent_is_integer"))
                              .value_or(rule.algorithm == Algorithm::Sha256Cbor64);
    const bool seed_said = json::member(doc.root(), "seed").has_value();
    const auto seed = seed_said ? json::owned(text_of("seed")) : settings_.seed;
    auto parent = none_hash(rule, seed);
    if (const auto given = text_of("parent")) {
        parent = Digest{from_hex(*given)};
    }
    if (!parent || parent->bytes.empty()) {
        throw Failure(SLUICE_E_INVALID, "without a seed this algorithm starts from a random hash");
    }
    if (in.block_tokens == 0) {
        throw Failure(SLUICE_E_INVALID, "block_tokens is 0");
    }
    const KeyForm form =
        text_of("key_form").value_or("bare") == "tagged" ? KeyForm::Tagged : KeyForm::Bare;
    Identity who{std::string(view(in.lora)), std::string(text_of("lora_path").value_or("")),
                 std::string(view(in.salt))};
    const std::size_t blocks = std::min<std::size_t>(in.num_tokens / in.block_tokens, out.size());
    const auto keys = text_keys(form, who, blocks);
    const auto chain = hash_chain(rule, *parent, std::span(in.tokens, blocks * in.block_tokens),
                                  in.block_tokens, keys);
    if (chain.size() != blocks) {
        throw Failure(SLUICE_E_LIMIT, "a block is too long to hash");
    }
    for (const Digest& digest : chain) {
        out[num++] = digest.folded();
    }
    return SLUICE_OK;
}

}  // namespace sluice::vllm
