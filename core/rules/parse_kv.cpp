// kv*: what the fields say about each other.
#include <array>

#include "core/rules/parse_parts.hpp"

namespace sluice::rules {
namespace {

std::optional<Refusal> check_mode(const Effective& in) {
    switch (in.u32("kvExactMode")) {
        case 1:
            return Refusal{400, "kv_exact_mode_needs_pd", "kvExactMode",
                           "kvExactMode 1 is for prefill/decode pools and requires pd_disagg_mode; "
                           "a single pool uses 3",
                           "0 or 3"};
        case 2:
            return Refusal{400, "kv_exact_mode_reserved", "kvExactMode",
                           "kvExactMode 2 is reserved", "0 or 3"};
        default:
            return std::nullopt;
    }
}

// The engine plugin's own check says the rest; these pairs can never agree.
std::optional<Refusal> check_hash(const Effective& in, const Rule& rule) {
    const std::string algo = in.text("kvHashAlgo");
    const bool is_foreign = algo == "sha256_sglang" || algo == "blockhash_trtllm";
    if (rule.engine == "vllm" && is_foreign) {
        return Refusal{400, "kv_hash_algo_incompatible", "kvHashAlgo",
                       "kvHashAlgo " + algo +
                           " is incompatible with kvEngineType vllm; leave the field out to "
                           "declare nothing",
                       "absent, sha256, sha256_cbor, xxhash or xxhash_cbor"};
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
    if (replay > 65535) {
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
    static constexpr std::array<std::string_view, 8> kOnlyExact = {
        "kvBlockSize",  "kvHashAlgo",    "kvHashSeed",  "kvZmqPort",
        "kvReplayPort", "kvDpRankCount", "kvWarmupSec", "kvLbMode"};
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
    if (auto refusal = check_mode(in)) {
        return refusal;
    }
    if (auto refusal = check_hash(in, out.rule)) {
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
    return std::nullopt;
}

}  // namespace sluice::rules
