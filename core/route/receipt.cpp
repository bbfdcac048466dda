#include "core/route/receipt.hpp"

#include "core/json/writer.hpp"

namespace sluice::route {

std::string_view to_string(Api api) noexcept {
    switch (api) {
        case Api::Chat:
            return "chat";
        case Api::Completions:
            return "completions";
        case Api::Responses:
            return "responses";
        case Api::Messages:
            return "messages";
        case Api::Embeddings:
            return "embeddings";
        case Api::Other:
            return "other";
    }
    return "other";
}

std::string_view to_string(Tier tier) noexcept {
    switch (tier) {
        case Tier::None:
            return "none";
        case Tier::Session:
            return "session";
        case Tier::Prefix:
            return "prefix";
        case Tier::KvExact:
            return "kv_exact";
        case Tier::Selector:
            return "selector";
        case Tier::Rescue:
            return "rescue";
    }
    return "none";
}

std::string_view to_string(LegKind kind) noexcept {
    switch (kind) {
        case LegKind::Whole:
            return "whole";
        case LegKind::Prefill:
            return "prefill";
        case LegKind::Decode:
            return "decode";
    }
    return "whole";
}

std::string_view to_string(Outcome outcome) noexcept {
    switch (outcome) {
        case Outcome::Ok:
            return "ok";
        case Outcome::ClientClosed:
            return "client_closed";
        case Outcome::Refused:
            return "refused";
        case Outcome::UpstreamError:
            return "upstream_error";
        case Outcome::Timeout:
            return "timeout";
        case Outcome::Truncated:
            return "truncated";
    }
    return "ok";
}

void Receipt::reset() {
    id.clear();
    started_us = 0;
    client.clear();
    rule = {};
    rule_number = 0;
    model.clear();
    api = Api::Other;
    is_stream = false;
    prompt_tokens = 0;
    blocks = 0;
    legs.clear();
    candidates.clear();
    misses.clear();
    tokenize_us = 0;
    cached_segments = 0;
    predicted_cached = kUnknown;
    reported_cached = kUnknown;
    outcome = Outcome::Ok;
    error_code = {};
    keep.reset();
}

std::string Receipt::to_json() const {
    std::string out;
    json::Writer w(out);
    const auto leg_json = [&](const LegRecord& leg) {
        w.object([&] {
            w.member("kind", to_string(leg.kind));
            w.member("attempt", leg.attempt);
            w.member("endpoint", leg.endpoint);
            if (leg.rank != UINT32_MAX) {
                w.member("rank", leg.rank);
            }
            w.member("tier", to_string(leg.tier));
            w.member("matched_blocks", leg.matched_blocks);
            w.member("queued_us", leg.queued_us);
            w.member("connect_us", leg.connect_us);
            w.member("first_byte_us", leg.first_byte_us);
            w.member("done_us", leg.done_us);
            w.member("status", leg.status);
            w.member("bytes", leg.bytes);
            w.member("verdict", leg.verdict);
        });
    };
    const auto candidate_json = [&](const CandidateRecord& c) {
        w.object([&] {
            w.member("endpoint", c.endpoint);
            w.member("leg", to_string(c.leg));
            w.member("eligible", c.excluded.empty());
            if (!c.excluded.empty()) {
                w.member("excluded", c.excluded);
            }
            w.member("matched_blocks", c.matched_blocks);
            w.member("inflight", c.inflight);
            w.member("running", c.running);
            w.member("waiting", c.waiting);
            w.member("score", static_cast<double>(c.score));
        });
    };
    w.object([&] {
        w.member("id", id);
        w.member("started_us", started_us);
        w.member("client", client);
        w.member("rule", rule);
        w.member("rule_number", rule_number);
        w.member("model", model);
        w.member("api", to_string(api));
        w.member("stream", is_stream);
        w.member("prompt_tokens", prompt_tokens);
        w.member("blocks", blocks);
        w.key("legs");
        w.array([&] {
            for (const LegRecord& leg : legs) {
                leg_json(leg);
            }
        });
        w.key("candidates");
        w.array([&] {
            for (const CandidateRecord& c : candidates) {
                candidate_json(c);
            }
        });
        w.key("misses");
        w.array([&] {
            for (const MissRecord& miss : misses) {
                w.object([&] {
                    w.member("tier", to_string(miss.tier));
                    w.member("reason", miss.reason);
                });
            }
        });
        w.key("tokens");
        w.object([&] {
            w.member("tokenize_us", tokenize_us);
            w.member("cached_segments", cached_segments);
            w.key("predicted_cached");
            predicted_cached == kUnknown ? w.null() : w.value(predicted_cached);
            w.key("reported_cached");
            reported_cached == kUnknown ? w.null() : w.value(reported_cached);
        });
        w.member("outcome", to_string(outcome));
        w.member("error_code", error_code);
    });
    return out;
}

}  // namespace sluice::route
