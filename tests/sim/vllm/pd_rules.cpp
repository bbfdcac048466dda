#include "tests/sim/vllm/pd_rules.hpp"

#include <charconv>

namespace sluice::sim::vllm {
namespace {

constexpr std::uint64_t kSecond = 1'000'000;

std::optional<BlockId> block_id(const json::Value& v) {
    return v.integer() != nullptr && *v.integer() >= 0
               ? std::optional(static_cast<BlockId>(*v.integer()))
               : std::nullopt;
}

// The ids of the one group this engine has; empty when they are of a shape it does not survive.
std::vector<BlockId> read_blocks(const PdRules& rules, const json::Value* given) {
    const json::Array* list = given == nullptr ? nullptr : given->array();
    if (list != nullptr && rules.nests_blocks()) {
        list = list->empty() ? nullptr : list->front().array();
    }
    std::vector<BlockId> out;
    for (const json::Value& v : list == nullptr ? json::Array() : *list) {
        const auto id = block_id(v);
        if (!id) {
            return {};
        }
        out.push_back(*id);
    }
    return out;
}

std::uint16_t port_of(const json::Value* v) {
    return v != nullptr && v->integer() != nullptr && *v->integer() > 0 && *v->integer() < 65536
               ? static_cast<std::uint16_t>(*v->integer())
               : std::uint16_t{0};
}

TransferAsk read_nixl(const PdRules& rules, const json::Value& params) {
    TransferAsk out;
    if (!params.flag("do_remote_prefill", false)) {
        out.holds_blocks = params.flag("do_remote_decode", false);
        return out;
    }
    RemotePrefill remote;
    remote.blocks = read_blocks(rules, params.get("remote_block_ids"));
    out.kills = remote.blocks.empty();
    remote.engine_id = params.text_of("remote_engine_id");
    remote.request_id = params.text_of("remote_request_id");
    remote.host = params.text_of("remote_host");
    remote.port = port_of(params.get("remote_port"));
    out.hangs =
        !out.kills && (remote.engine_id.empty() || remote.host.empty() || remote.port == 0 ||
                       (rules.names_request() && remote.request_id.empty()));
    if (const json::Value* n = params.get("remote_prefill_cached_tokens");
        n != nullptr && n->integer() != nullptr) {
        remote.cached_tokens = static_cast<std::uint32_t>(*n->integer());
    }
    out.remote = std::move(remote);
    return out;
}

TransferAsk read_mooncake(const json::Value& params) {
    TransferAsk out;
    const std::string transfer(params.text_of("transfer_id"));
    if (params.flag("do_remote_decode", false)) {
        out.holds_blocks = !transfer.empty();
        out.transfer_id = transfer;
        return out;
    }
    std::string_view address = params.text_of("remote_bootstrap_addr");
    const std::string_view scheme = "http://";
    address = address.substr(0, scheme.size()) == scheme ? address.substr(scheme.size()) : "";
    const std::size_t colon = address.rfind(':');
    RemotePrefill remote;
    remote.engine_id = params.text_of("remote_engine_id");
    remote.request_id = transfer;
    remote.is_by_transfer_id = true;
    if (colon != std::string_view::npos) {
        remote.host = address.substr(0, colon);
        const std::string_view port = address.substr(colon + 1);
        std::from_chars(port.data(), port.data() + port.size(), remote.port);
    }
    // Without all three it computes by itself.
    if (params.flag("do_remote_prefill", false) && !remote.engine_id.empty() && !transfer.empty() &&
        remote.port != 0) {
        out.remote = std::move(remote);
    }
    return out;
}

}  // namespace

std::uint64_t PdRules::usual_lease_us() const noexcept {
    return connector == Connector::Mooncake ? 480 * kSecond
           : version < 10'000               ? 0
           : version < 11'001               ? 120 * kSecond
           : version < 22'000               ? 480 * kSecond
                                            : 30 * kSecond;
}

std::optional<std::uint32_t> pd_version(std::string_view text) noexcept {
    std::uint32_t out = 0;
    const char* at = text.data();
    const char* const end = at + text.size();
    for (int part = 0; part < 3; ++part) {
        std::uint32_t n = 0;
        const auto [next, error] = std::from_chars(at, end, n);
        if (error != std::errc() || n > 999 || (part < 2 && (next == end || *next != '.'))) {
            return std::nullopt;
        }
        out = out * 1000 + n;
        at = next + (part < 2 ? 1 : 0);
    }
    return at == end ? std::optional(out) : std::nullopt;
}

TransferAsk read_transfer(const PdRules& rules, const json::Value& body) {
    const json::Value* params = body.get("kv_transfer_params");
    const json::Value* extra = body.get("vllm_xargs");
    if (params == nullptr && extra != nullptr && rules.connector == Connector::Nixl) {
        // Its members stand where the engine puts the params, with nobody looking at their type.
        params = extra->get("kv_transfer_params");
        if (params != nullptr && params->object() == nullptr) {
            TransferAsk out;
            out.kills = true;
            return out;
        }
    }
    if (params == nullptr || params->object() == nullptr) {
        return {};
    }
    return rules.connector == Connector::Nixl       ? read_nixl(rules, *params)
           : rules.connector == Connector::Mooncake ? read_mooncake(*params)
                                                    : TransferAsk{};
}

void write_transfer(json::Writer& w, const PdRules& rules, const HandoffOffer* offer) {
    w.key("kv_transfer_params");
    if (offer == nullptr) {
        w.null();
        return;
    }
    const auto& h = static_cast<const Handoff&>(*offer);
    w.open_object().field("do_remote_prefill", true).field("do_remote_decode", false);
    w.key("remote_block_ids").open_array();
    if (rules.nests_blocks()) {
        w.open_array();
    }
    for (const BlockId id : h.blocks) {
        w.value(std::uint64_t{id});
    }
    if (rules.nests_blocks()) {
        w.close_array();
    }
    w.close_array().field("remote_engine_id", h.engine_id);
    if (rules.names_request()) {
        w.field("remote_request_id", h.request_id);
    }
    w.field("remote_host", h.host).field("remote_port", std::uint64_t{h.port});
    const auto since = [&](std::uint32_t version, std::string_view key, std::uint64_t value) {
        if (rules.version >= version) {
            w.field(key, value);
        }
    };
    since(9'002, "tp_size", 1);
    since(29'000, "dcp_size", 1);
    since(26'000, "pp_size", 1);
    since(21'000, "remote_num_tokens", h.tokens);
    if (rules.version >= 26'000) {
        w.null_field("remote_blocks_expiry_time");
    }
    if (rules.version >= 28'000) {
        w.field("transfer_mode", "pull");
    }
    since(31'000, "remote_prefill_cached_tokens", h.cached_tokens);
    w.close_object();
}

}  // namespace sluice::sim::vllm
