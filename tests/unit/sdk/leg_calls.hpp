// What an adapter makes of a leg and of its reply, called as the host calls it.
//
// Threads: none.
#pragma once
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "sluice/sdk.hpp"
#include "tests/unit/sdk/client_request.hpp"

namespace sluice::test {

struct Built {
    sluice_status status = SLUICE_OK;
    std::string error, body;
    std::map<std::string, std::string> headers;
};
struct Judged {
    sluice_status status = SLUICE_OK;
    std::uint32_t next = 0, hold = 0, cached = 0;
    std::uint64_t lease_us = 0;
    std::string handoff, answer, error;
    std::map<std::string, std::string> headers;
    std::vector<std::uint32_t> ids;
};

inline Built build(const sluice_engine& engine, sluice_instance* self, const Request& r,
                   const sluice_leg& l) {
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
    taken.built.status = engine.build_leg(self, &l, &out, &err);
    taken.built.error = view(err);
    taken.built.body += taken.rest.substr(taken.at);
    return taken.built;
}

inline Judged judge(const sluice_engine& engine, sluice_instance* self, const sluice_leg& l,
                    std::uint32_t http_code, std::string_view body, std::uint32_t flags = 0) {
    Judged judged;
    sluice_reply reply{};
    reply.size = sizeof reply;
    reply.flags = flags;
    reply.http_code = http_code;
    reply.body = borrow_bytes(body);
    sluice_reply_out out{};
    out.size = sizeof out;
    out.ctx = &judged;
    const auto append = [](void* ctx, const void* data, std::size_t len) -> sluice_status {
        static_cast<std::string*>(ctx)->append(static_cast<const char*>(data), len);
        return SLUICE_OK;
    };
    out.handoff = {&judged.handoff, append};
    out.body = {&judged.answer, append};
    out.set_header = [](void* ctx, sluice_str name, sluice_str value) -> sluice_status {
        static_cast<Judged*>(ctx)->headers[std::string(view(name))] = view(value);
        return SLUICE_OK;
    };
    out.prompt_ids = [](void* ctx, const std::uint32_t* ids, std::size_t n) {
        static_cast<Judged*>(ctx)->ids.assign(ids, ids + n);
    };
    sluice_error err = make_error();
    judged.status = engine.on_reply(self, &l, &reply, &out, &err);
    judged.next = out.next;
    judged.hold = out.hold;
    judged.cached = out.cached_tokens;
    judged.lease_us = out.lease_us;
    judged.error = view(err);
    return judged;
}

}  // namespace sluice::test
