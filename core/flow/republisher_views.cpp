// What readers, people and scrapers see of republished events.
#include "core/flow/republisher.hpp"
#include "core/json/writer.hpp"

namespace sluice::flow {
namespace {

void add(metrics::Family& family, const metrics::Labels& labels, double value) {
    metrics::Sample sample;
    sample.labels = labels;
    sample.value = value;
    family.samples.push_back(std::move(sample));
}

metrics::Labels with(metrics::Labels labels, const char* reason) {
    labels.emplace_back("reason", reason);
    return labels;
}

}  // namespace

std::vector<std::string> Republisher::unbound() const {
    std::vector<std::string> out;
    const std::lock_guard lock(mu_);
    for (const auto& [number, rule] : rules_) {
        for (const auto& [id, endpoint] : rule.endpoints) {
            for (const auto& [r, stream] : endpoint.streams) {
                if (!stream.outlet) {
                    out.push_back("rule " + std::to_string(number) + ": " + stream.why);
                }
            }
        }
    }
    return out;
}

std::string Republisher::sources_json(std::uint32_t rule, std::uint64_t endpoint) const {
    struct Row {
        std::uint32_t rank;
        std::string pub, replay;
    };
    std::vector<Row> rows;
    {
        const std::lock_guard lock(mu_);
        const auto of_rule = rules_.find(rule);
        if (of_rule != rules_.end()) {
            const auto it = of_rule->second.endpoints.find(endpoint);
            if (it != of_rule->second.endpoints.end()) {
                for (const auto& [rank, stream] : it->second.streams) {
                    if (stream.outlet) {
                        rows.push_back({rank, stream.pub, stream.replay});
                    }
                }
            }
        }
    }
    std::string out;
    json::Writer w(out);
    w.object([&] {
        for (const Row& row : rows) {
            w.key(std::to_string(row.rank));
            w.object([&] {
                w.member("enable_kv_cache_events", true);
                w.member("publisher", "zmq");
                w.member("endpoint", row.pub);
                w.member("replay_endpoint", row.replay);
                w.member("buffer_steps", EventLog::kMaxBatches);
                w.member("hwm", EventPublisher::kSendMark);
                w.member("max_queue_size", EventLog::kMaxBatches);
                w.member("topic", "");
            });
        }
    });
    return out;
}

void Republisher::scrape(std::vector<metrics::Family>& out) const {
    using metrics::Kind;
    metrics::Family batches{"sluice_kv_republished_batches_total",
                            "Batches of KV events that were published again.",
                            Kind::Counter,
                            {}};
    metrics::Family bytes{"sluice_kv_republish_buffer_bytes",
                          "What is kept of them for readers that ask again.",
                          Kind::Gauge,
                          {}};
    metrics::Family dropped{
        "sluice_kv_republish_dropped_total",
        "Batches that left the buffer (reason=buffer), blocks beyond kvMaxBlocks (reason=blocks).",
        Kind::Counter,
        {}};
    metrics::Family up{
        "sluice_kv_republish_streams", "Streams that are listened on.", Kind::Gauge, {}};
    const std::lock_guard lock(mu_);
    for (const auto& [number, rule] : rules_) {
        for (const auto& [id, endpoint] : rule.endpoints) {
            const metrics::Labels labels{{"service", std::to_string(number)},
                                         {"ep_idx", std::to_string(endpoint.ep_idx)}};
            EventLog::Usage sum;
            std::size_t streams = 0;
            for (const auto& [r, stream] : endpoint.streams) {
                const EventLog::Usage usage = stream.log->usage();
                sum.published += usage.published;
                sum.bytes += usage.bytes;
                sum.dropped += usage.dropped;
                streams += stream.outlet ? 1 : 0;
            }
            add(batches, labels, static_cast<double>(sum.published));
            add(bytes, labels, static_cast<double>(sum.bytes));
            add(dropped, with(labels, "buffer"), static_cast<double>(sum.dropped));
            add(dropped, with(labels, "blocks"), static_cast<double>(endpoint.feed->left_out()));
            add(up, labels, static_cast<double>(streams));
        }
    }
    for (metrics::Family* family : {&batches, &bytes, &dropped, &up}) {
        if (!family->samples.empty()) {
            out.push_back(std::move(*family));
        }
    }
}

}  // namespace sluice::flow
