// What the simulator offers beside the engine: its cache, its drains, losses and foreign events.
#include "tests/sim/engine/control.hpp"

#include "tests/sim/trtllm/api_error.hpp"
#include "tests/sim/trtllm/service.hpp"

namespace sluice::sim::trtllm {
namespace {

// Full blocks of every rank: the hash as on the wire (without quotes), and the level.
http::Response cache(const Service& s) {
    json::Writer w;
    w.open_array();
    for (const auto& e : s.engines()) {
        w.open_object();
        for (const auto& [hash, level] : e->stored()) {
            const bool is_hex = hash.front() == '"';
            w.field(is_hex ? hash.substr(1, hash.size() - 2) : hash,
                    static_cast<std::int64_t>(level));
        }
        w.close_object();
    }
    return json_reply(w.close_array().take());
}

http::Response drains(Service& s, const http::Request& request) {
    if (request.method == "DELETE") {
        s.desk().forget();
    }
    const DrainDesk::Counts c = s.desk().counts();
    json::Writer w;
    w.open_object().field("count", c.drains).field("overlaps", c.overlaps);
    w.field("in_flight", std::uint64_t{c.in_flight});
    w.field("max_in_flight", std::uint64_t{c.max_in_flight});
    w.field("events", c.events).field("lost", c.lost).field("overflowed", s.ring().overflowed());
    w.key("reads").open_object().field("metrics", s.reads().metrics.load());
    w.field("perf_metrics", s.reads().perf_metrics.load());
    w.field("health_generate", s.reads().health_generate.load());
    w.field("prometheus", s.reads().prometheus.load()).close_object();
    return json_reply(w.close_object().take());
}

// What is held for other engines, and what was read from others.
http::Response leases(const Service& s) {
    json::Writer w;
    w.open_object().key("ranks").open_array();
    for (const auto& e : s.engines()) {
        const EngineStats stats = e->stats();
        w.open_object().field("expired", stats.kv_expired).field("read", stats.kv_read);
        w.key("held").open_array();
        for (const LeaseView& lease : e->leases()) {
            w.open_object().field("request_id", lease.id);
            w.field("blocks", static_cast<std::uint64_t>(lease.blocks));
            w.field("age_ms", lease.age_us / 1000).field("left_ms", lease.left_us / 1000);
            w.close_object();
        }
        w.close_array().close_object();
    }
    w.close_array().key("pulls").open_object().field("done", s.pulls().done.load());
    w.field("failed", s.pulls().failed.load()).field("foreign", s.pulls().foreign.load());
    return json_reply(w.close_object().close_object().take());
}

http::Response bad(std::string_view what) {
    return detail(400, what);
}

// {"events":["<one event as JSON text>", ...]}: put into the ring as they are, number and all.
http::Response add_events(Service& s, const json::Value& body) {
    const json::Value* list = body.get("events");
    if (list == nullptr || list->array() == nullptr) {
        return bad("\"events\" expected");
    }
    std::vector<std::string> events;
    for (const json::Value& e : *list->array()) {
        if (e.text() == nullptr) {
            return bad("events are JSON in strings");
        }
        events.push_back(*e.text());
    }
    s.add_events(std::move(events));
    return json_reply("{}");
}

// {"count":N,"rank":R}: N event numbers that no reader will ever see.
http::Response skip(Service& s, const json::Value& body) {
    const json::Value* count = body.get("count");
    const json::Value* rank = body.get("rank");
    const std::int64_t r = rank != nullptr && rank->integer() != nullptr ? *rank->integer() : 0;
    if (count == nullptr || count->integer() == nullptr || *count->integer() < 1 || r < 0 ||
        r >= static_cast<std::int64_t>(s.engines().size())) {
        return bad("\"count\", and \"rank\" of those there are, expected");
    }
    s.engines()[static_cast<std::size_t>(r)]->skip_ids(
        static_cast<std::uint64_t>(*count->integer()));
    return json_reply("{}");
}

http::Response reset(Service& s) {
    for (const auto& e : s.engines()) {
        e->reset_prefix_cache(true);
    }
    return json_reply("{}");
}

}  // namespace

http::Response handle_control(Service& s, const http::Request& request) {
    if (request.path == "/sim/cache") {
        return cache(s);
    }
    if (request.path == "/sim/drains") {
        return drains(s, request);
    }
    if (request.path == "/sim/leases") {
        return leases(s);
    }
    if (request.path == "/sim/reset") {
        return reset(s);
    }
    if (request.path == "/sim/drain_fault") {
        http::Request same = request;
        same.path = "/sim/fault";
        return sim::handle_control(s.desk().faults(), s.record(), same);
    }
    if (request.path == "/sim/events" || request.path == "/sim/skip") {
        auto parsed = json::parse(request.body);
        const json::Value* body = std::get_if<json::Value>(&parsed);
        if (body == nullptr) {
            return bad("JSON expected");
        }
        return request.path == "/sim/skip" ? skip(s, *body) : add_events(s, *body);
    }
    return sim::handle_control(s.faults(), s.record(), request);
}

}  // namespace sluice::sim::trtllm
