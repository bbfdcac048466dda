// Legs of one request through the adapter's table: bodies in, edited bodies and verdicts out.
//
// Threads: none.
#pragma once
#include <string>

#include "tests/unit/plugin_trtllm/flow.hpp"
#include "tests/unit/sdk/client_request.hpp"
#include "tests/unit/sdk/leg_calls.hpp"

namespace sluice::trtllm::test {

using sluice::test::Built;
using sluice::test::Judged;
using sluice::test::Request;

inline constexpr const char* kChat = "/v1/chat/completions";

// What a build's schema says of the bodies it takes.
inline std::string schema(std::string_view handoff, std::string_view chat = "") {
    const auto properties = [](std::string_view names) {
        std::string out;
        while (!names.empty()) {
            const std::size_t end = std::min(names.find(' '), names.size());
            out += (out.empty() ? "\"" : ",\"") + std::string(names.substr(0, end)) + "\":{}";
            names.remove_prefix(std::min(end + 1, names.size()));
        }
        return "{\"properties\":{" + out + "}}";
    };
    return "{\"components\":{\"schemas\":{\"DisaggregatedParams\":" +
           properties("request_type ctx_request_id " + std::string(handoff)) +
           ",\"ChatCompletionRequest\":" + properties("messages model " + std::string(chat)) +
           "}}}";
}
inline const std::string kNewest =
    schema("disagg_request_id schedule_style ctx_usage first_gen_log_probs resolved_thinking",
           "prompt_token_ids prompt_token_ids_b64");

// One attempt: both endpoints run the same build and are one attachment here.
class Pair {
public:
    explicit Pair(const std::string& openapi = kNewest, std::string_view config = "{}")
        : flow(config) {
        flow.host.answer("/openapi.json", openapi.empty() ? code(404) : ok(openapi));
        flow.attach(SLUICE_WATCH_LOAD);
        context_ = endpoint(7, "10.0.0.7:8000");
        generation_ = endpoint(8, "10.0.0.8:8000");
    }

    std::uint32_t plan(const Request& r, std::string* error = nullptr) {
        sluice_plan out{sizeof(sluice_plan), 0, 0, 0};
        sluice_error err = make_error();
        const sluice_status status = flow.engine->plan(flow.instance(), &r.raw, &out, &err);
        if (status != SLUICE_OK) {
            CHECK(status == SLUICE_E_UNSUPPORTED);
            if (error != nullptr) {
                *error = view(err);
            }
            return 0;
        }
        CHECK(out.flags ==
              (out.kind == SLUICE_PLAN_SEQUENTIAL ? std::uint32_t{SLUICE_PLAN_HANDOFF} : 0U));
        return out.kind;
    }
    sluice_leg leg(const Request& r, std::uint32_t kind, std::string_view handoff = {}) const {
        sluice_leg out{};
        out.size = sizeof out;
        out.kind = kind;
        out.dp_rank = out.peer_dp_rank = SLUICE_ANY;
        out.transfer_id = transfer_id;
        out.request = &r.raw;
        const bool is_decode = kind == SLUICE_LEG_DECODE;
        out.endpoint = is_decode ? &generation_ : &context_;
        out.peer = is_decode ? &context_ : &generation_;
        out.at = out.peer_at = flow.at;
        out.handoff = borrow_bytes(handoff);
        return out;
    }
    Built build(const Request& r, const sluice_leg& l) {
        return sluice::test::build(*flow.engine, flow.instance(), r, l);
    }
    Built build(const Request& r, std::uint32_t kind, std::string_view handoff = {}) {
        return build(r, leg(r, kind, handoff));
    }
    Judged judge(const sluice_leg& l, std::uint32_t http_code, std::string_view body,
                 std::uint32_t flags = 0) {
        return sluice::test::judge(*flow.engine, flow.instance(), l, http_code, body, flags);
    }
    Judged context(const Request& r, std::string_view body, std::uint32_t flags = 0) {
        return judge(leg(r, SLUICE_LEG_PREFILL), 200, body, flags);
    }

    Flow flow;
    std::uint64_t transfer_id = 1152921504606846977U;

private:
    static sluice_endpoint endpoint(std::uint64_t id, const char* name) {
        sluice_endpoint e{};
        e.size = sizeof e;
        e.id = id;
        e.name = borrow(name);
        return e;
    }
    sluice_endpoint context_{}, generation_{};
};

}  // namespace sluice::trtllm::test
