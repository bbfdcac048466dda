#include "plugins/trtllm/settings.hpp"

#include <string>

#include "plugins/trtllm/json.hpp"

namespace sluice::trtllm {

namespace {

constexpr std::string_view kHashAlgo = "blockhash_trtllm";
constexpr std::uint64_t kUnusedPort = 5557;  // what other engines' rules have by default

}  // namespace

Settings parse_settings(std::string_view config) {
    json::Document doc;
    if (!doc.parse(config.empty() ? "{}" : config) || !doc.root().is_object()) {
        throw Failure(SLUICE_E_CONFIG, "the configuration is not a JSON object");
    }
    Settings out;
    out.block_size = json::number32(json::member(doc.root(), "kvBlockSize"));
    out.key_file = json::text(json::member(doc.root(), "trt_disagg_key_file")).value_or("");
    return out;
}

void check_rule(const sluice_proposal& in, Verdict& out) {
    json::Document doc;
    const std::string_view config = view(in.config);
    if (!doc.parse(config.empty() ? "{}" : config) || !doc.root().is_object()) {
        throw Failure(SLUICE_E_CONFIG, "the configuration is not a JSON object");
    }
    const auto number = [&](const char* name) {
        return json::number(json::member(doc.root(), name));
    };
    if (const auto port = number("kvZmqPort"); port && *port != 0 && *port != kUnusedPort) {
        out.refuse("kv_zmq_port_unused", "kvZmqPort",
                   "kvZmqPort is " + std::to_string(*port) +
                       ", which is meaningless for trtllm: events ride the endpoint's serving "
                       "port; allowed are absent, 0 or 5557");
    }
    if (const auto ranks = number("kvDpRankCount"); ranks && *ranks > 1) {
        out.refuse("kv_dp_ranks_unused", "kvDpRankCount",
                   "kvDpRankCount is " + std::to_string(*ranks) +
                       ", which is meaningless for trtllm: ranks are not visible to clients; "
                       "allowed are absent or 1");
    }
    const auto algo = json::text(json::member(doc.root(), "kvHashAlgo"));
    if (algo && !algo->empty() && *algo != kHashAlgo) {
        out.refuse("kv_hash_algo_incompatible", "kvHashAlgo",
                   "kv-hash-algo " + std::string(*algo) +
                       " is incompatible with kv-engine-type trtllm; leave the field out to "
                       "declare nothing; allowed are absent or blockhash_trtllm");
    }
}

}  // namespace sluice::trtllm
