#include "plugins/vllm/discovery.hpp"

#include <algorithm>
#include <charconv>

#include "plugins/vllm/json.hpp"

namespace sluice::vllm {

namespace {

template <class N>
std::optional<N> to_number(std::string_view text) {
    N value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && !text.empty()
               ? std::optional(value)
               : std::nullopt;
}

std::string tcp(std::string_view host, std::uint32_t port) {
    return "tcp://" + std::string(host) + ":" + std::to_string(port);
}

// The port of "tcp://HOST:PORT"; HOST may hold colons.
std::optional<std::uint16_t> port_of(std::string_view endpoint) {
    const std::size_t colon = endpoint.rfind(':');
    if (!endpoint.starts_with("tcp://") || colon == std::string_view::npos || colon < 6) {
        return std::nullopt;
    }
    const auto port = to_number<std::uint16_t>(endpoint.substr(colon + 1));
    return port && *port != 0 ? port : std::nullopt;
}

// An address for this gateway; on failure empty, with the reason in `trouble`.
std::string reach(std::string_view endpoint, std::string_view own_address, std::string& trouble) {
    if (const auto port = port_of(endpoint)) {
        return tcp(own_address, *port);
    }
    if (endpoint.starts_with("ipc://")) {
        if (is_loopback(own_address)) {
            return std::string(endpoint);
        }
        trouble = "the engine publishes on ipc, which only its own machine reaches";
        return {};
    }
    trouble = "the engine's publisher address cannot be reached from outside";
    return {};
}

void mark_collisions(std::vector<Feed>& feeds) {
    for (Feed& feed : feeds) {
        feed.ports_collide =
            !feed.replay.empty() && std::any_of(feeds.begin(), feeds.end(), [&](const Feed& other) {
                return other.address == feed.replay;
            });
    }
}

}  // namespace

bool is_loopback(std::string_view host) noexcept {
    if (host.size() > 1 && host.front() == '[' && host.back() == ']') {
        host = host.substr(1, host.size() - 2);
    }
    return host == "localhost" || host == "::1" || host.starts_with("127.") ||
           host.starts_with("::ffff:127.");
}

std::optional<std::vector<Source>> parse_sources(std::string_view body) {
    json::Document doc;
    simdjson::dom::object ranks;
    if (!doc.parse(body) || doc.root().get(ranks) != simdjson::SUCCESS) {
        return std::nullopt;
    }
    std::vector<Source> out;
    for (const auto& [key, value] : ranks) {
        const auto rank = to_number<std::uint32_t>(key);
        const auto endpoint = json::text(json::member(value, "endpoint"));
        if (!rank || *rank >= kMaxRanks || !endpoint || out.size() == kMaxRanks) {
            return std::nullopt;
        }
        Source source;
        source.rank = *rank;
        source.endpoint = *endpoint;
        source.enabled =
            json::boolean(json::member(value, "enable_kv_cache_events")).value_or(true);
        source.publisher = json::text(json::member(value, "publisher")).value_or("zmq");
        source.replay_endpoint = json::owned(json::text(json::member(value, "replay_endpoint")));
        source.topic = json::text(json::member(value, "topic")).value_or("");
        if (source.enabled && source.publisher == "zmq") {
            out.push_back(std::move(source));
        }
    }
    std::sort(out.begin(), out.end(),
              [](const Source& a, const Source& b) { return a.rank < b.rank; });
    const bool twice =
        std::adjacent_find(out.begin(), out.end(), [](const Source& a, const Source& b) {
            return a.rank == b.rank;
        }) != out.end();
    return twice ? std::nullopt : std::optional(std::move(out));
}

std::vector<Feed> feeds_of(const std::vector<Source>& sources, std::string_view own_address,
                           const Settings& settings) {
    std::vector<Feed> out;
    for (const Source& source : sources) {
        if (settings.ranks && source.rank >= *settings.ranks) {
            continue;
        }
        Feed feed;
        feed.rank = source.rank;
        feed.topic = source.topic;
        if (settings.zmq_port) {
            feed.address = tcp(own_address, std::uint32_t{*settings.zmq_port} + source.rank);
        } else {
            feed.address = reach(source.endpoint, own_address, feed.trouble);
            // The engine binds when its endpoint holds one of these; anything else was connected
            // out, or is a bound "*:0" shown as the address it got. The two look alike: try.
            // A gateway always binds.
            feed.may_connect_out = settings.events_from.empty() &&
                                   source.endpoint.find('*') == std::string::npos &&
                                   source.endpoint.find("::") == std::string::npos &&
                                   !source.endpoint.starts_with("ipc://");
        }
        std::string ignored;
        if (settings.replay_port == 0) {
            // The operator wants none.
        } else if (source.replay_endpoint) {
            feed.replay = reach(*source.replay_endpoint, own_address, ignored);
        }
        out.push_back(std::move(feed));
    }
    mark_collisions(out);
    return out;
}

std::vector<Feed> classic_feeds(std::string_view own_address, std::uint32_t ranks,
                                const Settings& settings) {
    const std::uint32_t port = settings.zmq_port.value_or(kDefaultPort);
    const std::uint32_t replay = settings.replay_port.value_or(
        static_cast<std::uint16_t>(port + kReplayOffset <= 65535 ? port + kReplayOffset : 0));
    std::vector<Feed> out;
    for (std::uint32_t rank = 0; rank < std::clamp<std::uint32_t>(ranks, 1, kMaxRanks); ++rank) {
        Feed feed;
        feed.rank = rank;
        if (port + rank > 65535) {
            feed.trouble = "the port of this rank is past 65535";
        } else {
            feed.address = tcp(own_address, port + rank);
        }
        if (replay != 0 && replay + rank <= 65535) {
            feed.replay = tcp(own_address, replay + rank);
        }
        out.push_back(std::move(feed));
    }
    mark_collisions(out);
    return out;
}

}  // namespace sluice::vllm
