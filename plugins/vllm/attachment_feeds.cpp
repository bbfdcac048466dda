// Where an endpoint's events are to be had, and the ranks that follow them.
#include <algorithm>
#include <utility>

#include "plugins/vllm/attachment.hpp"

namespace sluice::vllm {

namespace {
constexpr std::string_view kAdviseEvents =
    R"(start the engine with --kv-events-config '{"enable_kv_cache_events":true,"publisher":"zmq"}')";
constexpr std::string_view kAdviseRepublish =
    "give a rule of that gateway this endpoint, kvExactMode and kvRepublish";
constexpr std::uint64_t kMaxRetryTicks = 10;

// An endpoint's name as a parameter of a query.
std::string escaped(std::string_view name) {
    std::string out;
    for (const char c : name) {
        out += c == '[' ? "%5B" : c == ']' ? "%5D" : std::string(1, c);
    }
    return out;
}
}  // namespace

void Attachment::discover() {
    discover_at_tick_ = 0;
    if (discovery_call_.running()) {
        return;
    }
    Started started;
    if (is_read_elsewhere()) {
        const std::string url = sources_url();
        HttpAsk ask;
        ask.target = url;
        ask.timeout_us = kCallTimeoutUs;
        ask.max_body_bytes = kMaxSmallBody;
        started = discovery_call_.start(host_, ask,
                                        [this](const sluice_http_result& r) { on_sources(r); });
    } else {
        started = get(discovery_call_, "/kv_event_sources", kMaxSmallBody, &Attachment::on_sources);
    }
    if (!started) {
        retry_discovery();
    }
}

std::string Attachment::sources_url() const {
    return settings_.events_from + "/netlox/v1/kv_event_sources?endpoint=" + escaped(name_);
}

void Attachment::retry_discovery() {
    discover_at_tick_ = ticks_ + retry_ticks_;
    retry_ticks_ = std::min(retry_ticks_ * 2, kMaxRetryTicks);
    if (!said_unreachable_ && ranks_.empty()) {
        said_unreachable_ = true;
        report(SLUICE_KV_WAITING, SLUICE_WHY_UNREACHABLE, "unreachable",
               is_read_elsewhere() ? "the gateway at " + settings_.events_from + " does not answer"
                                   : "the engine's API does not answer");
    }
}

void Attachment::on_sources(const sluice_http_result& r) {
    if (r.status != SLUICE_OK || r.http_code >= 500 || r.http_code == 0) {
        retry_discovery();
        return;
    }
    retry_ticks_ = 1;
    said_unreachable_ = false;
    if (r.http_code != 200 && is_read_elsewhere()) {
        events_off("the gateway at " + settings_.events_from + " has no endpoint " + name_,
                   kAdviseRepublish);
        return;
    }
    if (r.http_code != 200) {
        // 404: an engine before 0.31. Other refusals leave nothing better than the known ports.
        follow(classic_feeds(address_, classic_ranks(), settings_));
        return;
    }
    const auto sources = parse_sources(text(r.body));
    if (!sources) {
        report(SLUICE_KV_SAME, SLUICE_WHY_MALFORMED, "", "/kv_event_sources is not as documented");
        if (is_read_elsewhere()) {
            retry_discovery();
        } else if (ranks_.empty()) {
            follow(classic_feeds(address_, classic_ranks(), settings_));
        }
        return;
    }
    if (sources->empty() && is_read_elsewhere()) {
        events_off(
            "the gateway at " + settings_.events_from + " does not publish the events of " + name_,
            kAdviseRepublish);
        return;
    }
    if (sources->empty()) {
        events_off("the engine publishes no KV events", kAdviseEvents);
        return;
    }
    follow(feeds_of(*sources, address_, settings_));
}

void Attachment::events_off(std::string_view detail, std::string_view advice) {
    waiting_feeds_.reset();
    if (!ranks_.empty()) {
        ranks_.clear();
        host_.reset(id_, SLUICE_ANY);
    }
    if (!is_off_) {
        is_off_ = true;
        report(SLUICE_KV_DEAD, SLUICE_WHY_EVENTS_OFF, "events_off", detail, advice);
    }
}

void Attachment::follow(std::vector<Feed> feeds) {
    is_off_ = false;
    waiting_feeds_ = std::move(feeds);
    start_feeds_when_ready();
}

// The first facts empty the host's inventory, so they go before the first event.
void Attachment::start_feeds_when_ready() {
    if (!waiting_feeds_ || !version_settled_ || !metrics_settled_) {
        return;
    }
    const std::vector<Feed> feeds = *std::exchange(waiting_feeds_, std::nullopt);
    for (auto it = ranks_.begin(); it != ranks_.end();) {
        const bool stays = std::any_of(feeds.begin(), feeds.end(),
                                       [&](const Feed& f) { return f.rank == it->first; });
        if (!stays) {
            host_.reset(id_, it->first);
        }
        it = stays ? std::next(it) : ranks_.erase(it);
    }
    // Not their count: one of a gateway's ranks may be missing for a while.
    known_.ranks = 0;
    for (const Feed& feed : feeds) {
        known_.ranks = std::max(known_.ranks, feed.rank + 1);
    }
    tell_facts();
    for (const Feed& feed : feeds) {
        auto& rank = ranks_[feed.rank];
        if (rank != nullptr && rank->feed() == feed) {
            continue;
        }
        if (rank != nullptr) {
            rank.reset();  // another address: what was known came from there
            host_.reset(id_, feed.rank);
        }
        rank = std::make_unique<Rank>(*this, feed);
        rank->hint_algorithm(hash_algorithm_);
    }
}

void Attachment::link_changed(bool up) {
    if (!up) {
        return;
    }
    // After a reconnect it may be another engine: ask everything again, at once.
    if (told_) {
        scrape();
        ask_version();
        if (settings_.discovery) {
            discover_at_tick_ = ticks_ + 1;  // not from inside the rank's own callback
        }
    }
}

}  // namespace sluice::vllm
