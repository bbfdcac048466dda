// Legs of one request through the adapter's table: bodies in, edited bodies and verdicts out.
//
// Threads: none.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tests/unit/plugin_vllm/flow.hpp"
#include "tests/unit/sdk/client_request.hpp"

namespace sluice::vllm::test {

using sluice::test::Request;

struct Built {
    sluice_status status = SLUICE_OK;
    std::string error, body;
    std::map<std::string, std::string> headers;
};
struct Judged {
    sluice_status status = SLUICE_OK;
    std::uint32_t next = 0, hold = 0, cached = 0;
    std::uint64_t lease_us = 0;
    std::string handoff, error;
};

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
        struct Taken {
            Built built;
            std::string rest;
            std::uint64_t at = 0;
        } taken;
        sluice_leg_out out{sizeof(sluice_leg_out), 0, &taken,
                           [](void* ctx, std::uint64_t at, std::uint64_t erase, const void* data,
                              std::size_t len) -> sluice_status {
                               auto& t = *static_cast<Taken*>(ctx);
                               REQUIRE(at >= t.at);
                               REQUIRE(at + erase <= t.rest.size());
                               t.built.body += t.rest.substr(t.at, at - t.at);
                               t.built.body.append(static_cast<const char*>(data), len);
                               t.at = at + erase;
                               return SLUICE_OK;
                           },
                           [](void* ctx, sluice_str name, sluice_str value) -> sluice_status {
                               static_cast<Taken*>(ctx)->built.headers[std::string(view(name))] =
                                   view(value);
                               return SLUICE_OK;
                           }};
        taken.rest = r.body();
        sluice_error err = make_error();
        taken.built.status = flow.engine->build_leg(flow.instance(), &l, &out, &err);
        taken.built.error = view(err);
        taken.built.body += taken.rest.substr(taken.at);
        return taken.built;
    }
    Built build(const Request& r, std::uint32_t kind, std::string_view handoff = {}) {
        return build(r, leg(r, kind, handoff));
    }
    Judged judge(const sluice_leg& l, std::uint32_t code, std::string_view body,
                 std::uint32_t flags = 0) {
        Judged judged;
        sluice_reply reply{};
        reply.size = sizeof reply;
        reply.flags = flags;
        reply.http_code = code;
        reply.body = borrow_bytes(body);
        sluice_reply_out out{};
        out.size = sizeof out;
        out.handoff = {
            &judged.handoff, [](void* ctx, const void* data, std::size_t len) -> sluice_status {
                static_cast<std::string*>(ctx)->append(static_cast<const char*>(data), len);
                return SLUICE_OK;
            }};
        sluice_error err = make_error();
        judged.status = flow.engine->on_reply(flow.instance(), &l, &reply, &out, &err);
        judged.next = out.next;
        judged.hold = out.hold;
        judged.cached = out.cached_tokens;
        judged.lease_us = out.lease_us;
        judged.error = view(err);
        return judged;
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
