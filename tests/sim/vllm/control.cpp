// What the simulator offers beside the engine: faults, the requests it saw, its cache.
#include "tests/sim/vllm/service.hpp"

namespace sluice::sim::vllm {
namespace {

http::Response json_reply(std::string body) {
    http::Response r;
    r.body = std::move(body);
    return r;
}

http::Response arm(Service& s, const http::Request& request) {
    auto parsed = json::parse(request.body);
    const json::Value* body = std::get_if<json::Value>(&parsed);
    const auto fault = body == nullptr ? std::nullopt : parse_fault(body->text_of("fault"));
    if (!fault) {
        return refuse("a JSON object with a known \"fault\" expected").response();
    }
    const json::Value* count = body->get("count");
    const std::int64_t n = count != nullptr && count->integer() != nullptr ? *count->integer() : 1;
    s.faults().arm(*fault, n < 0 ? 1 : static_cast<std::uint64_t>(n));
    return json_reply(R"({"armed":true})");
}

http::Response requests(const Service& s) {
    json::Writer w;
    w.open_array();
    for (const auto& r : s.recorded()) {
        w.open_object().field("method", r.method).field("target", r.target);
        w.key("headers").open_array();
        for (const auto& [key, value] : r.headers) {
            w.open_array().value(key).value(value).close_array();
        }
        w.close_array().field("body", r.body).close_object();
    }
    return json_reply(w.close_array().take());
}

// Findable blocks of every rank: the 64-bit hash as text, and how many copies.
http::Response cache(const Service& s) {
    json::Writer w;
    w.open_array();
    for (const auto& e : s.engines()) {
        w.open_object();
        for (const auto& [hash, copies] : e->cached()) {
            w.field(std::to_string(low_64(hash)), static_cast<std::uint64_t>(copies));
        }
        w.close_object();
    }
    return json_reply(w.close_array().take());
}

}  // namespace

http::Response handle_control(Service& s, const http::Request& request) {
    if (request.path == "/sim/cache") {
        return cache(s);
    }
    if (request.path == "/sim/fault") {
        if (request.method == "POST") {
            return arm(s, request);
        }
        s.faults().clear();
        return json_reply(R"({"armed":false})");
    }
    if (request.method == "DELETE") {
        s.forget_recorded();
    }
    return requests(s);
}

}  // namespace sluice::sim::vllm
