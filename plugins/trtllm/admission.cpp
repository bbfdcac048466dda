#include "plugins/trtllm/admission.hpp"

#include "plugins/trtllm/events.hpp"
#include "plugins/trtllm/json.hpp"
#include "plugins/trtllm/translate.hpp"
#include "sluice/sdk.hpp"

namespace sluice::trtllm {

namespace {

constexpr std::string_view kAdviseAlgo =
    "set kv_cache_config.kv_cache_event_hash_algo to v1_block_key on the engine";
constexpr std::size_t kMaxName = 64;

Admission refused(std::uint32_t why, std::string reason, std::string detail, std::string advice) {
    Admission out;
    out.kind = Admission::Kind::Refused;
    out.why = why;
    out.reason = std::move(reason);
    out.detail = std::move(detail);
    out.advice = std::move(advice);
    return out;
}

}  // namespace

std::optional<ServerInfo> parse_server_info(std::string_view body) {
    json::Document doc;
    if (!doc.parse(body) || !doc.root().is_object()) {
        return std::nullopt;
    }
    ServerInfo out;
    if (const auto algo = json::member(doc.root(), "kv_cache_hash_algo")) {
        const auto name = json::text(algo);
        if (!name) {
            return std::nullopt;
        }
        out.hash_algo = name->substr(0, kMaxName);
    }
    if (const auto size = json::member(doc.root(), "tokens_per_block")) {
        out.tokens_per_block = json::number32(size);
        if (out.tokens_per_block.value_or(0) == 0) {
            return std::nullopt;
        }
    }
    out.max_batch_size = json::number32(json::member(doc.root(), "max_batch_size"));
    return out;
}

Admission judge(const ServerInfo& info, const Settings& settings,
                std::optional<std::uint32_t> shown) {
    if (info.hash_algo && *info.hash_algo != name_of(HashAlgo::V1BlockKey)) {
        return refused(SLUICE_WHY_ALGORITHM, "hash_algo",
                       "the engine's kv_cache_hash_algo is " + *info.hash_algo +
                           ", this gateway reads v1_block_key",
                       std::string(kAdviseAlgo));
    }
    const auto engine_has = shown ? shown : info.tokens_per_block;
    if (engine_has && settings.block_size && *engine_has != *settings.block_size) {
        const std::string theirs = std::to_string(*engine_has);
        return refused(SLUICE_WHY_BLOCK_SIZE, "block_size",
                       (shown ? "the engine's blocks hold " + theirs + " tokens"
                              : "the engine's tokens_per_block is " + theirs) +
                           ", the rule says " + std::to_string(*settings.block_size),
                       "set kvBlockSize to " + theirs + ", or leave it out");
    }
    Admission out;
    out.block_tokens = engine_has.value_or(settings.block_size.value_or(kDefaultBlockTokens));
    if (!info.hash_algo && !info.tokens_per_block) {
        out.kind = Admission::Kind::Legacy;
        out.reason = "legacy";
        out.detail = "the engine names neither hash nor block size: v1_block_key and " +
                     std::to_string(out.block_tokens) + " tokens a block are assumed";
        out.advice = settings.block_size
                         ? ""
                         : "set kvBlockSize to the engine's kv_cache_config.tokens_per_block";
    }
    return out;
}

}  // namespace sluice::trtllm
