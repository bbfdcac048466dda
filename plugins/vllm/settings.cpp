#include "plugins/vllm/settings.hpp"

#include <algorithm>
#include <charconv>

#include "plugins/vllm/json.hpp"

namespace sluice::vllm {

namespace {

Settings read(const json::Value& root) {
    Settings out;
    const auto number = [&](const char* name) {
        return json::number(json::member(root, name));
    };
    if (const auto v = number("kvZmqPort"); v && *v != 0) {
        out.zmq_port = static_cast<std::uint16_t>(std::min<std::uint64_t>(*v, 65535));
    }
    if (const auto v = number("kvReplayPort")) {
        out.replay_port = static_cast<std::uint16_t>(std::min<std::uint64_t>(*v, 65535));
    }
    if (const auto v = number("kvBlockSize")) {
        out.block_size = static_cast<std::uint32_t>(std::min<std::uint64_t>(*v, 65536));
    }
    if (const auto v = number("kvDpRankCount")) {
        out.ranks = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(*v, 1, 8));
    }
    if (const auto v = json::text(json::member(root, "kvHashAlgo"))) {
        out.algorithm = algorithm_named(*v);
        if (!out.algorithm || *out.algorithm == Algorithm::Sha256Cbor64) {
            throw Failure(SLUICE_E_CONFIG, "kvHashAlgo: not an algorithm this engine has");
        }
    }
    out.seed = json::owned(json::text(json::member(root, "kvHashSeed")));
    const auto connector = json::text(json::member(root, "pd_connector")).value_or("nixl");
    out.connector = connector == "lmcache"    ? Connector::Lmcache
                    : connector == "mooncake" ? Connector::Mooncake
                                              : Connector::Nixl;
    if (const auto v = number("kv_lease_duration")) {
        out.lease_us = std::min<std::uint64_t>(*v, 86'400) * 1'000'000;
    }
    if (const auto v = number("mooncake_bootstrap_port"); v && *v != 0) {
        out.bootstrap_port = static_cast<std::uint16_t>(std::min<std::uint64_t>(*v, 65535));
    }
    out.discovery = json::text(json::member(root, "kvDiscovery")).value_or("auto") != "off";
    out.events_from = json::text(json::member(root, "kvEventsFrom")).value_or("");
    while (out.events_from.ends_with('/')) {
        out.events_from.pop_back();
    }
    if (!out.events_from.empty()) {
        if (out.events_host().empty()) {
            throw Failure(SLUICE_E_CONFIG, "kvEventsFrom: not http://HOST:PORT");
        }
        out.zmq_port.reset();
        out.replay_port.reset();
        out.ranks.reset();
        out.discovery = true;
    }
    return out;
}

// Python starts only with `random` or a decimal number up to 4294967295.
bool is_python_seed(std::string_view seed) {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(seed.data(), seed.data() + seed.size(), value);
    return seed == "random" ||
           (error == std::errc() && end == seed.data() + seed.size() && !seed.empty());
}

}  // namespace

std::string Settings::events_host() const {
    constexpr std::string_view kScheme = "http://";
    std::string_view rest = events_from;
    if (!rest.starts_with(kScheme)) {
        return {};
    }
    rest.remove_prefix(kScheme.size());
    rest = rest.substr(0, rest.find('/'));
    const std::size_t colon = rest.rfind(':');
    const bool has_port = colon != std::string_view::npos && !rest.ends_with(']');
    return std::string(has_port ? rest.substr(0, colon) : rest);
}

Settings parse_settings(std::string_view config) {
    json::Document doc;
    if (!doc.parse(config.empty() ? "{}" : config) || !doc.root().is_object()) {
        throw Failure(SLUICE_E_CONFIG, "the configuration is not a JSON object");
    }
    return read(doc.root());
}

void check_rule(const sluice_proposal& in, Verdict& out) {
    const Settings s = parse_settings(view(in.config));
    const std::uint32_t ranks = s.ranks.value_or(1);
    const std::uint32_t port = s.zmq_port.value_or(kDefaultPort);
    if (port + ranks - 1 > 65535) {
        out.refuse("kv_port_range", "kvZmqPort",
                   "kvZmqPort + kvDpRankCount - 1 must not pass 65535");
    }
    if (s.replay_port && *s.replay_port != 0) {
        const std::uint32_t replay = *s.replay_port;
        if (replay + ranks - 1 > 65535) {
            out.refuse("kv_port_range", "kvReplayPort",
                       "kvReplayPort + kvDpRankCount - 1 must not pass 65535");
        }
        if ((s.zmq_port || !s.discovery) &&
            (replay > port ? replay - port : port - replay) < ranks) {
            out.refuse("ports_collide", "kvReplayPort",
                       "kvReplayPort and kvZmqPort must be at least kvDpRankCount apart: ranks "
                       "take port + rank");
        }
    } else if (!s.replay_port && (s.zmq_port || !s.discovery) &&
               port + kReplayOffset + ranks - 1 > 65535) {
        out.warn("kv_replay_unavailable", "kvReplayPort",
                 "kvZmqPort + 1000 passes 65535: lost events cannot be replayed unless the engine "
                 "names its replay port");
    }
    if (s.seed && !is_python_seed(*s.seed)) {
        out.warn("kv_seed_unusual", "kvHashSeed",
                 "Python accepts random or a number from 0 to 4294967295 as PYTHONHASHSEED");
    }
    if (s.algorithm && !s.seed &&
        (*s.algorithm == Algorithm::Xxhash || *s.algorithm == Algorithm::XxhashCbor)) {
        out.warn("kv_hash_unproven", "kvHashSeed",
                 "without PYTHONHASHSEED an xxhash engine draws a random seed: the algorithm "
                 "cannot be attested");
    }
    if (s.seed && !s.algorithm) {
        out.warn("kv_hash_unproven", "kvHashAlgo",
                 "kvHashSeed is attested together with kvHashAlgo");
    }
    if (s.block_size && *s.block_size < 8) {
        out.warn("kv_block_size_small", "kvBlockSize",
                 "small blocks cost one index entry each per few tokens");
    }
    if (!s.discovery && !s.zmq_port) {
        out.effective("kvZmqPort", std::to_string(kDefaultPort));
    }
}

}  // namespace sluice::vllm
