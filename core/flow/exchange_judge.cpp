// What an attempt came to: why there was no answer, what an answer that is an error means, and what
// the endpoint's breaker and mark learn of it.
#include <algorithm>

#include "core/flow/exchange.hpp"

namespace sluice::flow {

Exchange::Attempt Exchange::lose(Leg::End end) {
    switch (end) {
        case Leg::End::Head:
            return Attempt::Answered;
        case Leg::End::Interrupted:
            interrupted();
            return Attempt::Over;
        case Leg::End::Overdue:
        case Leg::End::Late:
            refuse_timeout();
            return Attempt::Over;
        case Leg::End::Unreached:
        case Leg::End::TakenOut:
        case Leg::End::Outdated:
            return Attempt::Elsewhere;
        case Leg::End::Gone:
        case Leg::End::Died:
            if (service_->rule->retry.after_dispatch) {
                return Attempt::Elsewhere;
            }
            break;
        case Leg::End::Stale:
        case Leg::End::Garbled:
            break;
    }
    if (end == Leg::End::Gone) {
        refuse({502,
                "endpoint_gone",
                "the endpoint is silent and its port refuses connections",
                {},
                "api_error"});
    } else {
        refuse({502,
                "upstream_failed",
                "the endpoint failed before it answered: " + std::string(leg_.failure()),
                {},
                "api_error"});
    }
    return Attempt::Over;
}

route::Judgement Exchange::ask_adapter(int status, std::string_view text) const {
    std::vector<sluice_pair> headers;
    for (const http::Header& h : reply_.headers()) {
        headers.push_back({{h.name.data(), h.name.size()}, {h.value.data(), h.value.size()}});
    }
    sluice_request request{};
    request.size = sizeof request;
    request.flags = static_cast<std::uint32_t>(facts_.is_stream ? SLUICE_REQ_STREAM : 0);
    request.request_id = {receipt_.id.data(), receipt_.id.size()};
    request.path = {facts_.path.data(), facts_.path.size()};
    request.model = {served_model_.data(), served_model_.size()};
    request.client = {scene_.client_ip.data(), scene_.client_ip.size()};
    request.attempt = leg_.record().attempt - 1;
    request.body = {reinterpret_cast<const std::uint8_t*>(body_.data()), body_.size()};
    return service_->engine->judge(leg_.index(), request, status, headers, text);
}

// Full, not broken: by the adapter's word, or because the answer asks to come again later.
bool Exchange::is_load(route::Judgement judgement) const {
    return judgement == route::Judgement::Busy || status_ == 429 ||
           (status_ == 503 && !reply_.header("Retry-After").empty());
}

// An error is looked at before it is relayed: an engine that drains, or whose core is gone, says so
// with a 500, and another endpoint can still take the request.
Exchange::Attempt Exchange::judge(const route::Decision& decision) {
    const std::uint64_t now = worker_.loop.now_us();
    const route::Judgement judgement = ask_adapter(status_, first_part_);
    if (judgement == route::Judgement::Elsewhere) {
        // 502 to 504 come from what stands before an engine, and pass.
        leg_.endpoint().pass_over(status_ == 500 ? fleet::Mark::Draining : fleet::Mark::Refused,
                                  now);
    }
    is_load(judgement) ? leg_.permit().release() : leg_.permit().origin_error(now);
    const bool may_go_on =
        judgement == route::Judgement::Elsewhere || judgement == route::Judgement::Busy;
    if (may_go_on && has_alternative(decision.index, judgement)) {
        leg_.record().verdict = judgement == route::Judgement::Busy ? "busy" : "draining";
        return Attempt::Elsewhere;
    }
    if (is_load(judgement) && reply_.header("Retry-After").empty()) {
        reply_.ask_to_come_later();
    }
    leg_.record().verdict = "relayed";
    return Attempt::Answered;
}

// A stream whose first event is an error: the client has seen nothing of it yet.
Exchange::Attempt Exchange::judge_first_event(const route::Decision& decision,
                                              std::string_view error) {
    leg_.record().verdict = "relayed";
    if (ask_adapter(500, error) != route::Judgement::Elsewhere) {
        leg_.permit().answered();
        return Attempt::Answered;
    }
    const std::uint64_t now = worker_.loop.now_us();
    leg_.endpoint().pass_over(fleet::Mark::Gone, now);
    leg_.permit().failed("its core is gone", now);
    if (!has_alternative(decision.index, route::Judgement::Elsewhere)) {
        return Attempt::Answered;
    }
    leg_.record().verdict = "gone";
    return Attempt::Elsewhere;
}

// A stream that was relayed had an error in it.
void Exchange::note_error_event() {
    if (ask_adapter(500, observer_.error()) == route::Judgement::Elsewhere) {
        const std::uint64_t now = worker_.loop.now_us();
        leg_.endpoint().pass_over(fleet::Mark::Gone, now);
        leg_.permit().failed("its core is gone", now);
    }
}

bool Exchange::refuse_timeout() {
    if (is_capped()) {
        return refuse({504,
                       "max_stream_duration",
                       "the rule's limit for one response has passed",
                       {},
                       "api_error"});
    }
    return refuse(
        {504, "upstream_timeout", "the endpoint did not answer in time", {}, "api_error"});
}

bool Exchange::has_alternative(std::size_t chosen, route::Judgement judgement) const {
    // A primary that is full is not out: its backup stays one.
    const bool spares_backups =
        judgement == route::Judgement::Busy && !(*service_->pool)[chosen].spec.backup;
    if (receipt_.legs.size() - legs_before_ > service_->rule->retry.connect) {
        return false;
    }
    for (std::size_t i = 0; i < service_->pool->size(); ++i) {
        const bool is_tried =
            std::find(scratch_->tried.begin(), scratch_->tried.end(), i) != scratch_->tried.end();
        const bool is_spared = spares_backups && (*service_->pool)[i].spec.backup;
        const bool is_aside = role_ != route::kAnyRole && (*service_->pool)[i].spec.role != role_;
        if (i != chosen && !is_tried && !is_spared && !is_aside && scene_.is_still_in(i) &&
            service_->pool->excluded(i, served_model_, worker_.loop.now_us()) ==
                fleet::Excluded::No) {
            return true;
        }
    }
    return false;
}

}  // namespace sluice::flow
