// kv*: what the fields say about each other.
#include <algorithm>
#include <array>
#include <string_view>

#include "core/rules/parse_parts.hpp"

namespace sluice::rules {
namespace {

std::optional<Refusal> check_mode(const Effective& in, const Draft& draft) {
    const std::uint32_t mode = in.u32("kvExactMode");
    const bool is_pd = in.boolean("pd_disagg_mode");
    if (mode == 2) {
        return Refusal{400, "kv_exact_mode_reserved", "kvExactMode",
                       "kvExactMode is 2, which is reserved", is_pd ? "0 or 1" : "0 or 3"};
    }
    if (mode == 1 && !is_pd) {
        return Refusal{400, "kv_exact_mode_needs_pd", "kvExactMode",
                       "kvExactMode 1 is for prefill/decode pools and requires pd_disagg_mode; "
                       "a single pool uses 3",
                       "0 or 3"};
    }
    if (mode == 3 && is_pd) {
        return Refusal{400, "kv_exact_mode_single_role", "kvExactMode",
                       "kvExactMode 3 is for a single pool and incompatible with pd_disagg_mode; "
                       "a prefill/decode pool uses 1",
                       "0 or 1"};
    }
    const bool has_role =
        std::any_of(draft.rule.endpoints.begin(), draft.rule.endpoints.end(),
                    [](const EndpointSpec& endpoint) { return endpoint.role != 0; });
    if (mode == 3 && has_role) {
        return Refusal{400, "kv_exact_mode_single_role", "kvExactMode",
                       "kvExactMode 3 is for a single pool, whose endpoints have no ep_role",
                       "0, or endpoints without ep_role"};
    }
    for (const char* name : {"kvModelProfile", "kvExactApiMode"}) {
        if (mode == 0 && !in.text(name).empty()) {
            return Refusal{400, "kv_exact_mode_required", name,
                           std::string(name) + " requires kvExactMode 1 or 3", "absent"};
        }
    }
    return std::nullopt;
}

// The hash algorithms an engine has; the first is the one it uses where none is said. An engine
// that is not here is its plugin's to check.
struct Hashes {
    std::string_view engine;
    std::string_view algos;
};
constexpr std::array<Hashes, 4> kHashes = {{
    {"vllm", "sha256, sha256_cbor, xxhash, xxhash_cbor"},
    {"sglang", "sha256_sglang"},
    {"trtllm", "blockhash_trtllm"},
    {"llamacpp", ""},
}};

bool is_listed(std::string_view list, std::string_view word) {
    while (!list.empty()) {
        const std::size_t comma = list.find(", ");
        if (list.substr(0, comma) == word) {
            return true;
        }
        list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 2);
    }
    return false;
}

std::optional<Refusal> check_hash(const Effective& in) {
    const std::string algo = in.text("kvHashAlgo");
    const std::string engine = engine_named(in);
    for (const Hashes& known : kHashes) {
        if (!algo.empty() && known.engine == engine && !is_listed(known.algos, algo)) {
            return Refusal{
                400, "kv_hash_algo_incompatible", "kvHashAlgo",
                "kv-hash-algo " + algo + " is incompatible with kv-engine-type " + engine +
                    "; leave the field out to declare nothing",
                "absent" + std::string(known.algos.empty() ? "" : ", ") + std::string(known.algos)};
        }
    }
    return std::nullopt;
}

// An engine without events. What others have no use for is their plugin's to refuse.
std::optional<Refusal> check_engine(const Effective& in) {
    const std::string engine = engine_named(in);
    const bool is_plain = in.u32("kvExactMode") == 0 && !in.boolean("pd_disagg_mode");
    if (engine == "llamacpp" && !is_plain) {
        return Refusal{400, "engine_plain_only", "kvEngineType",
                       "llamacpp serves plain rules only, without KV-exact routing and P/D",
                       "another engine, or kvExactMode 0 without pd_disagg_mode"};
    }
    return std::nullopt;
}

std::optional<Refusal> take_ports(Effective& in, const Defaults& defaults, Draft& out) {
    KvSpec& kv = out.rule.kv;
    const std::uint32_t zmq = in.u32("kvZmqPort");
    kv.dp_ranks = in.u32("kvDpRankCount");
    if (in.was_given("kvZmqPort")) {
        kv.zmq_port = static_cast<std::uint16_t>(zmq);
    }
    if (zmq + kv.dp_ranks - 1 > 65535) {
        return Refusal{400, "kv_port_range", "kvZmqPort",
                       "rank r listens on kvZmqPort + r, which passes 65535",
                       "at most " + std::to_string(65536 - kv.dp_ranks)};
    }
    const std::uint32_t offset = defaults.replay_port_offset();
    std::uint32_t replay = offset == 0 ? 0 : zmq + offset;
    if (in.was_given("kvReplayPort")) {
        replay = in.u32("kvReplayPort");
        kv.replay_port = static_cast<std::uint16_t>(replay);
    }
    // An engine without such a port has its word on any that is given, in its plugin.
    if (replay > 65535 && engine_named(in) != "trtllm") {
        return Refusal{400, "kv_replay_port_range", "kvReplayPort",
                       "kvReplayPort defaults to kvZmqPort + " + std::to_string(offset) +
                           ", which passes 65535: give it, or 0 for none",
                       "0..65535"};
    }
    if (offset != Defaults().replay_port_offset()) {
        kv.replay_port = static_cast<std::uint16_t>(replay);  // the process says so
    }
    if (replay != 0 && replay >= zmq && replay < zmq + kv.dp_ranks) {
        out.warnings.push_back({"kv_ports_collide", "kvReplayPort",
                                "the event ports of the ranks run into the replay port"});
    }
    in.set("kvReplayPort", Json(replay));
    return std::nullopt;
}

void warn_when_off(const Effective& in, Draft& out) {
    static constexpr std::array<std::string_view, 10> kOnlyExact = {
        "kvBlockSize",   "kvHashAlgo",  "kvHashSeed", "kvZmqPort",   "kvReplayPort",
        "kvDpRankCount", "kvWarmupSec", "kvLbMode",   "kvRepublish", "kvEventsFrom"};
    if (in.u32("kvExactMode") != 0) {
        return;
    }
    for (const std::string_view name : kOnlyExact) {
        if (in.was_given(name)) {
            out.warnings.push_back({"kv_exact_off", std::string(name),
                                    "kept, but without effect while kvExactMode is 0"});
            return;
        }
    }
}

}  // namespace

std::optional<Refusal> take_kv(Effective& in, const Defaults& defaults, Draft& out) {
    KvSpec& kv = out.rule.kv;
    if (auto refusal = check_mode(in, out)) {
        return refusal;
    }
    if (auto refusal = check_engine(in)) {
        return refusal;
    }
    if (auto refusal = check_hash(in)) {
        return refusal;
    }
    if (auto refusal = take_ports(in, defaults, out)) {
        return refusal;
    }
    kv.exact_mode = in.u32("kvExactMode");
    if (in.find("kvBlockSize") != nullptr) {
        kv.block_tokens = in.u32("kvBlockSize");
    }
    if (const std::string algo = in.text("kvHashAlgo"); !algo.empty()) {
        kv.hash_algo = algo;
    }
    if (in.find("kvHashSeed") != nullptr) {
        kv.hash_seed = in.text("kvHashSeed");
    }
    kv.is_discovered = in.text("kvDiscovery") != "off";
    kv.warmup_sec = in.u32("kvWarmupSec");
    kv.lb_mode = in.text("kvLbMode") == "off" ? KvSpec::LbMode::Off : KvSpec::LbMode::Hard;
    kv.mean_load_factor = in.u32("kvMeanLoadFactor");
    kv.min_match_tokens = in.u32("kvMinMatchTokens");
    kv.cold_seed_every = in.u32("kvColdSeedEvery");
    kv.cold_seed_min_blocks = in.u32("kvColdSeedMinBlocks");
    kv.max_blocks = in.u64("kvMaxBlocks");
    warn_when_off(in, out);
    if (kv.cold_seed_every == 0 && in.was_given("kvColdSeedMinBlocks")) {
        out.warnings.push_back({"no_effect", "kvColdSeedMinBlocks",
                                "kept, but without effect while kvColdSeedEvery is 0"});
    }
    return std::nullopt;
}

}  // namespace sluice::rules
