// serviceArguments: prefill/decode pools and KV-exact routing.
#include "core/rules/field_parts.hpp"

namespace sluice::rules {
namespace {

using enum Standing;

constexpr Field kPool[] = {
    flag("pd_disagg_mode", Built)
        .says("Prefill and decode on different endpoints; both roles must be there."),
    flag("pd_cache_aware_mode", Built)
        .says("Prefill goes where a session or prefix went before; needs pd_disagg_mode."),
    number("pd_session_ttl_sec", Built, 0, kU32)
        .otherwise("300")
        .says("How long a session stays with its endpoints; 0 never expires by time."),
    number("pd_cache_threshold", Built, 0, 100)
        .otherwise("20")
        .says("Percent of a prompt that must match to follow a prefix."),
    number("pd_balance_abs_threshold", Built, 0, kU32)
        .otherwise("3")
        .says("How many requests more an endpoint may have before affinity gives way."),
    number("pdBootstrapPort", NotYet, 0, 65535)
        .otherwise("0")
        .says("SGLang's bootstrap port in a P/D pool."),
    text("pd_connector", Built)
        .among("nixl|lmcache|mooncake")
        .otherwise("\"nixl\"")
        .says("How vLLM hands KV blocks over."),
    number("pd_min_prompt_tokens", Built, 0, kU32)
        .otherwise("0")
        .says("Shorter prompts run whole on a decode endpoint."),
    flag("pd_conditional", Built)
        .says("Whether prefill is left out when the decode endpoint holds the prefix."),
    flag("pd_decode_only_fallback", Built)
        .says("Whether decode serves alone when no prefill endpoint is healthy."),
    number("pd_prefill_timeout_ms", Built, 0, kDayMs)
        .otherwise("120000")
        .says("How long a prefill may take."),
    number("pd_decode_first_byte_ms", Built, 0, kDayMs)
        .otherwise("120000")
        .says("Until a decode endpoint's answer begins."),
    number("pd_max_inflight_per_ep", Built, 0, 100'000)
        .otherwise("0")
        .process("LLB_PD_MAX_INFLIGHT_PER_EP")
        .says("Requests at a time on one prefill endpoint; 0 is no limit."),
    number("pd_queue_depth_per_ep", Built, 0, 65536)
        .otherwise("0")
        .process("LLB_PD_QUEUE_DEPTH_PER_EP")
        .says("Requests that wait for one prefill endpoint."),
    number("pd_max_park_ms", Built, 0, kHourMs)
        .otherwise("30000")
        .says("How long a request may wait for a prefill endpoint."),
    text("trt_disagg_key_file", Built, 4096)
        .hidden()
        .says("The file of the key that signs TensorRT-LLM generation legs; shown as ***."),

    text("kvEngineType", Built)
        .among("vllm|sglang|trtllm|llamacpp", "vllm|trtllm")
        .otherwise("\"vllm\"")
        .fixed()
        .says("The engine of the endpoints."),
    number("kvExactMode", Built, 0, 3)
        .otherwise("0")
        .says("0 off, 1 for a P/D pool, 3 for a single pool; 2 is reserved."),
    number("kvBlockSize", Built, 1, 65536)
        .says("Tokens in a block, checked against the engine; absent takes the engine's."),
    text("kvHashAlgo", Built)
        .among("sha256_cbor|xxhash_cbor|sha256|xxhash|sha256_sglang|blockhash_trtllm")
        .says("The engine's block hash, checked against it; absent declares nothing."),
    text("kvHashSeed", Built)
        .process("LLB_KV_NONE_HASH_SEED")
        .says("The engine's PYTHONHASHSEED; needed where events carry no tokens."),
    number("kvZmqPort", Built, 0, 65535)
        .zero_absent()
        .otherwise("5557")
        .says("The engine's event port; rank r has this plus r."),
    number("kvReplayPort", Built, 0, 65535)
        .says("The engine's replay port; 0 is none, absent is kvZmqPort plus 1000."),
    number("kvWarmupSec", Built, 0, kDaySec)
        .otherwise("0")
        .process()
        .says("How long an endpoint's events are heard before they decide."),
    number("kvDpRankCount", Built, 1, 8).otherwise("1").says("Data-parallel ranks of an endpoint."),
    text("kvLbMode", Built)
        .among("off|hard|soft|adaptive|adaptive-soft", "off|hard")
        .otherwise("\"hard\"")
        .process("LOXILB_KV_LB_MODE")
        .says("How load and cached blocks are weighed."),
    number("kvMeanLoadFactor", Built, 100, 1000)
        .otherwise("175")
        .process("LOXILB_KV_MEAN_LOAD_FACTOR")
        .says("Percent of the mean load up to which the best match is taken."),
    number("kvLoadPenalty", NotYet, 1, 100'000)
        .otherwise("32")
        .process("LOXILB_KV_LOAD_PENALTY")
        .says("What a request in flight costs in the soft modes."),
    number("kvMinMatchTokens", Built, 0, 4096)
        .otherwise("16")
        .process("LLB_KV_MIN_MATCH_TOKENS")
        .says("Shorter matches do not count."),
    number("kvColdSeedEvery", Built, 0, 10'000)
        .otherwise("16")
        .process("LOXILB_KV_COLDSTART_SEED_N")
        .says("Every n-th hit goes to a cold endpoint instead; 0 is never."),
    number("kvColdSeedMinBlocks", Built, 0, 10'000)
        .otherwise("16")
        .process("LOXILB_KV_COLDSTART_MIN_BLOCKS")
        .says("An endpoint with fewer blocks is cold."),
    number("kvMaxBlocks", Built, 1000, 100'000'000)
        .otherwise("1000000")
        .process("LOXILB_KV_MAX_BLOCKS")
        .says("Blocks remembered of one endpoint; the least used are forgotten."),
    number("kvSpeculateMs", NotYet, 0, 60'000)
        .otherwise("2000")
        .says("How long a prompt that was sent counts as held without confirmation."),
    text("kvDiscovery", Built)
        .among("off|auto")
        .otherwise("\"auto\"")
        .says("Whether ports and ranks are asked of the engine where the rule has none."),
    text("kvRepublish", Built)
        .says("Where the endpoints' KV events are published again, tcp://HOST:PORT."),
    text("kvEventsFrom", Built, 1024)
        .says("The base URL of another gateway whose published events are followed instead of the "
              "engines'."),
    text("kvModelProfile", NotYet).fixed().says("The model profile KV-exact routing is bound to."),
    text("kvExactApiMode", NotYet)
        .among("completions|chat|both|")
        .fixed()
        .says("The APIs KV-exact routing is bound to."),
};

}  // namespace

std::span<const Field> pool_fields() {
    return kPool;
}

}  // namespace sluice::rules
