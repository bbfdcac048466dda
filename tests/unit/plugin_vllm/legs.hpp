// Legs of one request through the adapter's table: bodies in, edited bodies and verdicts out.
//
// Threads: none.
#pragma once
#include <string>

#include "tests/unit/plugin_vllm/flow.hpp"
#include "tests/unit/sdk/client_request.hpp"
#include "tests/unit/sdk/leg_calls.hpp"

namespace sluice::vllm::test {

using sluice::test::Built;
using sluice::test::Judged;
using sluice::test::Request;

// One attempt: a prefill endpoint that is attached, a decode endpoint, a transfer id.
class Pair {
public:
    explicit Pair(std::string_view config = "{}", const char* version = R"({"version":"0.32.0"})",
                  int block_tokens = 16)
        : flow(config) {
        std::string told = metrics();
        const std::string_view size = "block_size=\"16\"";
        told.replace(told.find(size), size.size(),
                     "block_size=\"" + std::to_string(block_tokens) + "\"");
        flow.host.answer("/metrics", {SLUICE_OK, 200, told, {}});
        flow.host.answer("/version", {SLUICE_OK, 200, version, {}});
        flow.attach(SLUICE_WATCH_LOAD);
        prefill_ = endpoint(7, "10.0.0.7", "10.0.0.7:8000", "{}");
        decode_ = endpoint(8, "10.0.0.8", "10.0.0.8:8000", R"({"nixl_port":5601})");
    }

    std::uint32_t plan(const Request& r, std::uint32_t* flags = nullptr) {
        sluice_plan out{sizeof(sluice_plan), 0, 0, 0};
        sluice_error err = make_error();
        REQUIRE(flow.engine->plan(flow.instance(), &r.raw, &out, &err) == SLUICE_OK);
        if (flags != nullptr) {
            *flags = out.flags;
        }
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
        out.endpoint = is_decode ? &decode_ : &prefill_;
        out.peer = is_decode ? &prefill_ : &decode_;
        out.at = is_decode ? nullptr : flow.at;
        out.peer_at = is_decode ? flow.at : nullptr;
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
    // The id both legs of this attempt carry.
    std::string id(const Request& r) {
        return build(r, SLUICE_LEG_PREFILL).headers["X-Request-Id"];
    }

    Flow flow;
    std::uint64_t transfer_id = (std::uint64_t{1} << 42U) + 1;

private:
    static sluice_endpoint endpoint(std::uint64_t id, const char* address, const char* name,
                                    const char* fields) {
        sluice_endpoint e{};
        e.size = sizeof e;
        e.id = id;
        e.address = borrow(address);
        e.name = borrow(name);
        e.fields = borrow(fields);
        return e;
    }
    sluice_endpoint prefill_{}, decode_{};
};

}  // namespace sluice::vllm::test
