#include "tests/sim/engine/control.hpp"

#include "tests/sim/support/json.hpp"

namespace sluice::sim {
namespace {

http::Response json_reply(std::string body) {
    http::Response r;
    r.body = std::move(body);
    return r;
}

http::Response arm(FaultBoard& faults, const http::Request& request) {
    auto parsed = json::parse(request.body);
    const json::Value* body = std::get_if<json::Value>(&parsed);
    const auto fault = body == nullptr ? std::nullopt : parse_fault(body->text_of("fault"));
    if (!fault) {
        http::Response r =
            json_reply(R"({"detail":"a JSON object with a known \"fault\" expected"})");
        r.status = 400;
        return r;
    }
    const json::Value* count = body->get("count");
    const std::int64_t n = count != nullptr && count->integer() != nullptr ? *count->integer() : 1;
    faults.arm(*fault, n < 0 ? 1 : static_cast<std::uint64_t>(n));
    return json_reply(R"({"armed":true})");
}

}  // namespace

http::Response handle_control(FaultBoard& faults, Record& record, const http::Request& request) {
    if (request.path == "/sim/fault") {
        if (request.method == "POST") {
            return arm(faults, request);
        }
        faults.clear();
        return json_reply(R"({"armed":false})");
    }
    if (request.method == "DELETE") {
        record.clear();
    }
    return json_reply(record.json());
}

}  // namespace sluice::sim
