#include "core/flow/reply.hpp"

#include "core/json/writer.hpp"

namespace sluice::flow {

std::string error_body(const route::Refusal& refusal, std::string_view request_id,
                       std::string_view model) {
    std::string out;
    json::Writer w(out);
    w.object([&] {
        w.key("error");
        w.object([&] {
            w.member("message", refusal.message);
            w.member("type", refusal.type);
            w.member("code", refusal.code);
            w.key("param");
            refusal.param.empty() ? w.null() : w.value(refusal.param);
            w.member("request_id", request_id);
            if (refusal.code == "model_unavailable") {
                w.member("model", model);
            }
        });
    });
    return out;
}

std::string error_event(std::string_view code, std::string_view message,
                        std::string_view request_id) {
    const route::Refusal refusal{502, code, std::string(message), {}, "api_error"};
    return "data: " + error_body(refusal, request_id, {}) + "\n\n";
}

}  // namespace sluice::flow
