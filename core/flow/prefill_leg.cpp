#include "core/flow/prefill_leg.hpp"

#include <algorithm>

#include "core/flow/leg_edits.hpp"
#include "core/flow/sdk_error.hpp"

namespace sluice::flow {
namespace {

// Where the adapter puts what it takes from a reply.
class ReplySinks {
public:
    explicit ReplySinks(std::size_t most_bytes) : most_bytes_(most_bytes) {}

    sluice_reply_out out() noexcept {
        sluice_reply_out o{};
        o.size = sizeof o;
        o.cached_tokens = SLUICE_ANY;
        o.handoff = {this, [](void* ctx, const void* data, std::size_t len) -> sluice_status {
                         auto& self = *static_cast<ReplySinks*>(ctx);
                         return self.add(self.heard.handoff, data, len);
                     }};
        o.body = {this, [](void* ctx, const void* data, std::size_t len) -> sluice_status {
                      auto& self = *static_cast<ReplySinks*>(ctx);
                      return self.add(self.heard.body, data, len);
                  }};
        o.ctx = this;
        o.set_header = [](void* ctx, sluice_str name, sluice_str value) -> sluice_status {
            auto& self = *static_cast<ReplySinks*>(ctx);
            const sluice_leg_out checked = self.headers_.out();
            return checked.set_header(checked.ctx, name, value);
        };
        o.prompt_ids = [](void* ctx, const std::uint32_t* ids, std::size_t num) {
            static_cast<ReplySinks*>(ctx)->heard.prompt_ids.assign(ids, ids + num);
        };
        return o;
    }
    PrefillLeg::Heard take() {
        for (const http::Header& h : headers_.headers()) {
            heard.headers.emplace_back(h.name, h.value);
        }
        return std::move(heard);
    }

    PrefillLeg::Heard heard;

private:
    sluice_status add(std::string& to, const void* data, std::size_t len) const {
        if (len > most_bytes_ - std::min(most_bytes_, to.size())) {
            return SLUICE_E_LIMIT;
        }
        to.append(static_cast<const char*>(data), len);
        return SLUICE_OK;
    }
    const std::size_t most_bytes_;
    LegEdits headers_{{}};
};

}  // namespace

net::Task<Leg::End> PrefillLeg::run(const Leg::Sending& sending, Limits limits) {
    body_.clear();
    is_cut_ = false;
    most_bytes_ = limits.most_bytes;
    sent_us_ = scene_.now_us();
    scene_.deadline_us = limits.deadline_us;
    Leg::End end = co_await leg_.run(sending);
    if (end == Leg::End::Head) {
        end = co_await read(limits.most_bytes);
    }
    leg_.record().done_us = scene_.since_start_us();
    co_return end;
}

net::Task<Leg::End> PrefillLeg::read(std::size_t most_bytes) {
    const std::uint64_t gap_ms = scene_.service->rule->timeouts.chunk_gap_ms;
    http::UpstreamStream& upstream = leg_.upstream();
    while (!upstream.is_complete()) {
        auto part = co_await upstream.read_body(leg_.next_wait(gap_ms));
        while (!part && leg_.is_pause(part.error())) {
            part = co_await upstream.read_body(leg_.same_wait());
        }
        if (!part) {
            co_return leg_.lose(part.error());
        }
        is_cut_ = is_cut_ || part->bytes.size() > most_bytes - body_.size();
        if (!is_cut_) {
            body_ += part->bytes;
        } else {
            // What is left is read past: a connection that is cut would end the engine's request,
            // which is over already.
            body_.resize(std::min<std::size_t>(body_.size(), kKeptOfCut));
        }
    }
    leg_.record().bytes = body_.size();
    co_return Leg::End::Head;
}

PrefillLeg::Heard PrefillLeg::hear(const route::Engine& engine, const route::LegAsk& ask) {
    std::vector<sluice_pair> headers;
    for (const http::Header& h : head_.headers()) {
        headers.push_back({{h.name.data(), h.name.size()}, {h.value.data(), h.value.size()}});
    }
    sluice_reply reply{};
    reply.size = sizeof reply;
    reply.flags = is_cut_ ? std::uint32_t{SLUICE_REPLY_CUT} : 0U;
    reply.http_code = static_cast<std::uint32_t>(leg_.status());
    reply.num_headers = static_cast<std::uint32_t>(headers.size());
    reply.headers = headers.data();
    reply.body = {reinterpret_cast<const std::uint8_t*>(body_.data()), body_.size()};
    ReplySinks sinks(most_bytes_);
    sluice_reply_out out = sinks.out();
    auto err = empty_error();
    const sluice_status status = engine.on_reply(ask, reply, out, &err);
    Heard& heard = sinks.heard;
    heard.next = status == SLUICE_OK ? out.next : std::uint32_t{SLUICE_NEXT_FAIL};
    heard.lease_us = out.lease_us;
    heard.can_release = !heard.handoff.empty() && (out.hold & SLUICE_HOLD_RELEASE) != 0;
    heard.is_counted = !heard.handoff.empty() && (out.hold & SLUICE_HOLD_COUNTED) != 0;
    if (out.cached_tokens != SLUICE_ANY) {
        heard.cached_tokens = out.cached_tokens;
    }
    if (heard.next == SLUICE_NEXT_FAIL) {
        heard.reason = words_of(err, "the prefill endpoint's answer cannot be used");
    }
    tell_breaker(heard.next);
    return sinks.take();
}

void PrefillLeg::tell_breaker(std::uint32_t next) {
    const int status = leg_.status();
    const bool is_load = next == SLUICE_NEXT_BUSY || status == 429 ||
                         (status == 503 && !head_.header("Retry-After").empty());
    if (next == SLUICE_NEXT_FAIL && status < 300) {
        leg_.permit().failed("its answer cannot be used", scene_.now_us());
    } else if (status < 500 && status != 429) {
        leg_.permit().answered();
        leg_.permit().completed();
        leg_.endpoint().note_answered();
    } else if (is_load) {
        leg_.permit().release();
    } else {
        leg_.permit().origin_error(scene_.now_us());
    }
}

}  // namespace sluice::flow
