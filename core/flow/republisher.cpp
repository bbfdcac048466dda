#include "core/flow/republisher.hpp"

#include <algorithm>

#include "core/base/log.hpp"

namespace sluice::flow {
namespace {

std::string vacant(const std::string& address) {
    return address + " cannot be bound";
}

}  // namespace

RepublishPorts republish_ports(std::uint16_t first, std::uint32_t ranks, std::uint32_t ep_idx,
                               std::uint32_t rank) noexcept {
    // Numbers of endpoints are never reused, so the sum may pass any port.
    const std::uint64_t pub = first + std::uint64_t{2} * ranks * ep_idx + rank;
    const auto cut = [](std::uint64_t port) {
        return static_cast<std::uint32_t>(std::min<std::uint64_t>(port, 65536));
    };
    return {cut(pub), cut(pub + ranks)};
}

std::optional<rules::Refusal> Republisher::prepare(const rules::Rule& next,
                                                   std::vector<rules::Warning>& warnings) {
    const auto at = rules::event_addresses(next).republish;
    if (!at) {
        return std::nullopt;
    }
    struct Wanted {
        StreamKey key;
        RepublishPorts ports;
    };
    std::vector<Wanted> wanted;
    for (const rules::EndpointSpec& spec : next.endpoints) {
        for (std::uint32_t r = 0; r < next.kv.dp_ranks; ++r) {
            const RepublishPorts ports =
                republish_ports(at->port, next.kv.dp_ranks, spec.ep_idx, r);
            if (ports.replay > 65535) {
                return rules::Refusal{400, "kv_republish_range", "kvRepublish",
                                      "endpoint " + spec.name() + " (ep_idx " +
                                          std::to_string(spec.ep_idx) +
                                          ") would be published past port 65535",
                                      "a port P with P + 2 * kvDpRankCount * (ep_idx + 1) up to "
                                      "65536 for every endpoint"};
            }
            wanted.push_back({{spec.id, r}, ports});
        }
    }
    // What this rule has bound stays bound, or becomes free with the edit.
    std::set<std::uint32_t> own;
    {
        const std::lock_guard lock(mu_);
        const auto known = rules_.find(next.number);
        if (known != rules_.end()) {
            for (const auto& [id, endpoint] : known->second.endpoints) {
                for (const auto& [rank, stream] : endpoint.streams) {
                    if (stream.host != at->host) {
                        continue;
                    }
                    if (stream.outlet) {
                        own.insert({stream.ports.pub, stream.ports.replay});
                    }
                    const auto same = std::find_if(
                        wanted.begin(), wanted.end(), [&, of = id, r = rank](const Wanted& w) {
                            return w.key == StreamKey{of, r} && w.ports == stream.ports;
                        });
                    if (same == wanted.end()) {
                        continue;
                    }
                    if (!stream.outlet) {
                        warnings.push_back({"republish_unavailable", "kvRepublish", stream.why});
                    }
                    wanted.erase(same);
                }
            }
        }
    }
    Prepared ready;
    for (const Wanted& w : wanted) {
        if (own.contains(w.ports.pub) || own.contains(w.ports.replay)) {
            continue;
        }
        auto sockets = publisher_.bind(at->host, static_cast<std::uint16_t>(w.ports.pub),
                                       static_cast<std::uint16_t>(w.ports.replay));
        if (!sockets) {
            return rules::Refusal{409, "republish_unavailable", "kvRepublish",
                                  vacant(sockets.error().what),
                                  "an address of this machine and free ports"};
        }
        ready.emplace(w.key, std::move(*sockets));
    }
    prepared_[next.number] = std::move(ready);
    return std::nullopt;
}

void Republisher::abandon(const rules::Rule& next) {
    prepared_.erase(next.number);
}

EventFeedPtr Republisher::make_feed(std::uint32_t rule, const rules::EndpointSpec& spec,
                                    std::uint64_t max_blocks) {
    EventFeed::Hooks hooks;
    hooks.on_rank = [this, rule, endpoint = spec.id](std::uint32_t rank, const EventLogPtr& log) {
        open_rank(rule, endpoint, rank, log);
    };
    hooks.on_more = [this] {
        publisher_.wake();
    };
    return std::make_shared<EventFeed>(max_blocks, std::move(hooks));
}

void Republisher::close(Stream& stream) {
    if (stream.outlet) {
        publisher_.close(stream.outlet);
        stream.outlet.reset();
    }
}

void Republisher::apply(const rules::Rule& rule) {
    Prepared ready;
    if (const auto it = prepared_.find(rule.number); it != prepared_.end()) {
        ready = std::move(it->second);
        prepared_.erase(it);
    }
    const auto at = rules::event_addresses(rule).republish;
    std::vector<StreamKey> missing;
    {
        const std::lock_guard lock(mu_);
        OfRule& of_rule = rules_[rule.number];
        of_rule.host = at ? at->host : std::string();
        std::map<std::uint64_t, OfEndpoint> next;
        for (const rules::EndpointSpec& spec : rule.endpoints) {
            if (!at) {
                break;
            }
            OfEndpoint endpoint;
            if (const auto known = of_rule.endpoints.find(spec.id);
                known != of_rule.endpoints.end()) {
                endpoint = std::move(known->second);
                of_rule.endpoints.erase(known);
            } else {
                endpoint.feed = make_feed(rule.number, spec, rule.kv.max_blocks);
            }
            endpoint.ep_idx = spec.ep_idx;
            endpoint.feed->set_max_blocks(rule.kv.max_blocks);
            for (std::uint32_t r = 0; r < rule.kv.dp_ranks; ++r) {
                Stream& stream = endpoint.streams[r];
                stream.log = endpoint.feed->log(r);
            }
            for (auto& [r, stream] : endpoint.streams) {
                const RepublishPorts ports =
                    r < rule.kv.dp_ranks
                        ? republish_ports(at->port, rule.kv.dp_ranks, spec.ep_idx, r)
                        : RepublishPorts{};
                if (stream.host != of_rule.host || stream.ports != ports) {
                    close(stream);
                    stream.host = of_rule.host;
                    stream.ports = ports;
                }
                if (!stream.outlet) {
                    missing.emplace_back(spec.id, r);
                }
            }
            next.emplace(spec.id, std::move(endpoint));
        }
        for (auto& [id, endpoint] : of_rule.endpoints) {
            for (auto& [r, stream] : endpoint.streams) {
                close(stream);
            }
        }
        of_rule.endpoints = std::move(next);
        if (of_rule.endpoints.empty()) {
            rules_.erase(rule.number);
        }
    }
    for (const StreamKey& key : missing) {
        std::optional<EventPublisher::Sockets> sockets;
        if (const auto it = ready.find(key); it != ready.end()) {
            sockets = std::move(it->second);
        }
        open(rule.number, key.first, key.second, std::move(sockets));
    }
}

void Republisher::open(std::uint32_t rule, std::uint64_t endpoint, std::uint32_t rank,
                       std::optional<EventPublisher::Sockets> ready) {
    const auto find = [&]() -> Stream* {
        const auto of_rule = rules_.find(rule);
        if (of_rule == rules_.end()) {
            return nullptr;
        }
        const auto of_endpoint = of_rule->second.endpoints.find(endpoint);
        if (of_endpoint == of_rule->second.endpoints.end()) {
            return nullptr;
        }
        const auto stream = of_endpoint->second.streams.find(rank);
        return stream == of_endpoint->second.streams.end() ? nullptr : &stream->second;
    };
    std::string host;
    RepublishPorts ports;
    {
        const std::lock_guard lock(mu_);
        const Stream* stream = find();
        if (stream == nullptr || stream->outlet) {
            return;
        }
        host = stream->host;
        ports = stream->ports;
    }
    std::string why;
    if (!ready) {
        auto sockets = publisher_.bind(host, static_cast<std::uint16_t>(ports.pub),
                                       static_cast<std::uint16_t>(ports.replay));
        if (sockets) {
            ready = std::move(*sockets);
        } else {
            why = vacant(sockets.error().what);
        }
    }
    bool is_news = false;
    {
        const std::lock_guard lock(mu_);
        Stream* stream = find();
        if (stream == nullptr || stream->outlet || stream->host != host || stream->ports != ports) {
            return;  // it was edited, or opened, meanwhile
        }
        is_news = stream->why != why;
        stream->why = why;
        if (ready) {
            stream->pub = ready->pub_address;
            stream->replay = ready->replay_address;
            stream->outlet = publisher_.start(std::move(*ready), stream->log);
        }
    }
    if (is_news && !why.empty()) {
        log::error("KV events cannot be published, trying again",
                   {{"rule", rule}, {"reason", why}});
    } else if (is_news) {
        log::info("KV events are published at last", {{"rule", rule}, {"rank", rank}});
    }
}

void Republisher::open_rank(std::uint32_t rule, std::uint64_t endpoint, std::uint32_t rank,
                            const EventLogPtr& log) {
    {
        const std::lock_guard lock(mu_);
        const auto of_rule = rules_.find(rule);
        if (of_rule == rules_.end()) {
            return;
        }
        const auto of_endpoint = of_rule->second.endpoints.find(endpoint);
        if (of_endpoint == of_rule->second.endpoints.end() ||
            of_endpoint->second.streams.contains(rank)) {
            return;
        }
        Stream& stream = of_endpoint->second.streams[rank];
        stream.log = log;
        stream.host = of_rule->second.host;
    }
    open(rule, endpoint, rank, std::nullopt);
}

void Republisher::retain(const std::set<std::uint32_t>& numbers) {
    const std::lock_guard lock(mu_);
    for (auto it = rules_.begin(); it != rules_.end();) {
        if (numbers.contains(it->first)) {
            ++it;
            continue;
        }
        for (auto& [id, endpoint] : it->second.endpoints) {
            for (auto& [r, stream] : endpoint.streams) {
                close(stream);
            }
        }
        it = rules_.erase(it);
    }
}

void Republisher::tick() {
    std::vector<std::pair<std::uint32_t, StreamKey>> missing;
    {
        const std::lock_guard lock(mu_);
        for (const auto& [number, rule] : rules_) {
            for (const auto& [id, endpoint] : rule.endpoints) {
                for (const auto& [r, stream] : endpoint.streams) {
                    if (!stream.outlet) {
                        missing.push_back({number, {id, r}});
                    }
                }
            }
        }
    }
    for (const auto& [number, key] : missing) {
        open(number, key.first, key.second, std::nullopt);
    }
}

EventFeedPtr Republisher::feed(std::uint32_t rule, std::uint64_t endpoint) const {
    const std::lock_guard lock(mu_);
    const auto of_rule = rules_.find(rule);
    if (of_rule == rules_.end()) {
        return nullptr;
    }
    const auto it = of_rule->second.endpoints.find(endpoint);
    return it == of_rule->second.endpoints.end() ? nullptr : it->second.feed;
}

}  // namespace sluice::flow
