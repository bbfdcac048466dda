#include "core/flow/exchange.hpp"

#include "core/base/clock.hpp"
#include "core/base/random.hpp"
#include "core/flow/offload.hpp"
#include "core/flow/pd_exchange.hpp"
#include "core/flow/reply.hpp"
#include "core/flow/upstream_head.hpp"
#include "core/http/respond.hpp"
#include "core/json/writer.hpp"
#include "core/route/handoff.hpp"

namespace sluice::flow {

Exchange::Exchange(WorkerState& worker, const rules::ListenAddress& listener,
                   http::ServerStream& client)
    : worker_(worker),
      listener_(listener),
      client_(client),
      halt_(client.departure()),
      halts_with_gateway_(worker.last_words, halt_),
      answer_halt_(halt_),
      scratch_(worker.scratch.take()),
      receipt_(scratch_->receipt),
      reply_(scratch_->reply),
      observer_(scratch_->observer),
      scene_{.worker = worker, .client = client, .receipt = receipt_, .halt = answer_halt_},
      leg_(scene_, reply_, scratch_->upstream_head) {
    const std::string_view peer = client.peer();
    std::string_view ip = peer.substr(0, peer.rfind(':'));
    if (ip.starts_with('[')) {
        ip = ip.substr(1, ip.size() - 2);
    }
    scene_.client_ip = ip;
    const std::string_view id = usable_request_id(client.head());
    receipt_.id = id.empty() ? random_hex_id() : std::string(id);
    receipt_.started_us = wall_us();
    receipt_.client = ip;
}

Exchange::~Exchange() {
    pd_.reset();
    scratch_->reset();
    worker_.scratch.give_back(std::move(scratch_));
    if (reader_) {
        worker_.readers.give_back(std::move(reader_));
    }
}

net::Task<void> Exchange::run() {
    bool goes_on = co_await receive();
    goes_on = goes_on && is_taken() && find_service();
    if (goes_on) {
        goes_on = co_await tokenize();
    }
    goes_on = goes_on && edit_body();
    if (goes_on && service_->pd) {
        pd_ = std::make_unique<PdExchange>(*this);
        goes_on = co_await pd_->run();
    } else if (goes_on) {
        goes_on = co_await dispatch();
    }
    if (goes_on && ready_) {
        co_await answer_ready();
    } else if (goes_on) {
        co_await relay();
    }
    if (refusal_) {
        co_await answer_refusal();
    }
    if (pd_) {
        co_await pd_->let_go();
    }
    settle();
}

void Exchange::interrupted() {
    if (client_.departure().fired()) {
        client_left();
        return;
    }
    refuse({503, "shutting_down", "the gateway stops and waits no longer", {}, "api_error"});
}

void Exchange::client_left() {
    receipt_.outcome = route::Outcome::ClientClosed;
    client_.abort();
}

bool Exchange::refuse(route::Refusal refusal) {
    receipt_.outcome =
        refusal.status >= 500 ? route::Outcome::UpstreamError : route::Outcome::Refused;
    if (refusal.status == 504 || refusal.status == 408) {
        receipt_.outcome = route::Outcome::Timeout;
    }
    receipt_.error_code = refusal.code;
    status_ = refusal.status;
    refusal_ = std::move(refusal);
    return false;
}

bool Exchange::is_taken() {
    if (!worker_.shared.is_refusing_new.load(std::memory_order_relaxed)) {
        return true;
    }
    refuse({503, "maintenance", "the gateway is in maintenance and takes no new requests", {}});
    receipt_.outcome = route::Outcome::Refused;
    return false;
}

net::Task<void> Exchange::answer_refusal() {
    const std::string body = error_body(*refusal_, receipt_.id, receipt_.model);
    const std::string later = std::to_string(refusal_->retry_after_sec);
    const http::Header extra[] = {{"X-Request-Id", receipt_.id}, {"Retry-After", later}};
    const bool may_retry = refusal_->status == 503 || refusal_->status == 429;
    const http::HeaderSpan fields(extra, may_retry ? 2 : 1);
    const Status sent =
        co_await http::send_simple(client_, refusal_->status, "application/json", body, fields);
    if (!sent) {
        client_left();
    }
}

// Whether an engine could take the body for JSON: by its route, by its type, in any case of
// letters, without one (an empty one is none), or because it looks like an object whatever the type
// says.
bool Exchange::is_json_body() const noexcept {
    const std::size_t first = body_.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) {
        return false;
    }
    const http::Header* type = client_.head().find("Content-Type");
    if (type == nullptr || type->value.empty() || body_[first] == '{' ||
        route::api_of(client_.head().path) != route::Api::Other) {
        return true;
    }
    const std::string_view value = type->value.substr(0, type->value.find(';'));
    constexpr std::string_view kJson = "json";
    for (std::size_t i = 0; i + kJson.size() <= value.size(); ++i) {
        if (http::equals_ignore_case(value.substr(i, kJson.size()), kJson)) {
            return true;
        }
    }
    return false;
}

net::Task<bool> Exchange::receive() {
    std::size_t max_bytes = ListenerLimits{}.max_body_bytes;
    const auto& all_limits = worker_.directory->limits;
    if (const auto limits = all_limits.find(listener_); limits != all_limits.end()) {
        if (limits->second.is_restricted && !route::is_in(limits->second.sources, client_.peer())) {
            co_return refuse(route::source_refusal());
        }
        max_bytes = limits->second.max_body_bytes;
    }
    auto body = co_await client_.read_body(max_bytes, {}, &worker_.last_words);
    const http::RequestHead& head = client_.head();
    const json::Body* view = nullptr;
    if (!body) {
        switch (body.error().code) {
            case Code::Limit:
                co_return refuse({413,
                                  "body_too_large",
                                  "the body is larger than " + std::to_string(max_bytes) + " bytes",
                                  {}});
            case Code::Timeout:
                co_return refuse({408, "body_timeout", "the body did not arrive in time", {}});
            case Code::Protocol:
                co_return refuse({400, "bad_body", body.error().what, {}});
            case Code::Cancelled:
                interrupted();
                co_return false;
            default:
                client_left();
                co_return false;
        }
    }
    body_ = *body;
    const std::string_view coding = head.header("Content-Encoding");
    if (!body_.empty() && !coding.empty() && !http::equals_ignore_case(coding, "identity")) {
        co_return refuse({415,
                          "unsupported_content_encoding",
                          "a body with Content-Encoding cannot be read; send it plain",
                          {}});
    }
    if (is_json_body()) {
        reader_ = worker_.readers.take();
        const auto parsed = reader_->parse(body_);
        if (parsed) {
            view = *parsed;
        } else if (parsed.error().code == Code::Limit) {
            co_return refuse({400, "too_many_members", parsed.error().what, {}});
        } else if (route::api_of(head.path) != route::Api::Other ||
                   body_.find('\0') != std::string_view::npos || body_.front() != '[') {
            // What we cannot read an engine may read differently: it must not pass unseen.
            co_return refuse({400, "invalid_json", parsed.error().what, {}});
        }
    }
    auto refusal =
        route::read_facts(head.path, head.header("X-Model"), view, reader_.get(), facts_);
    receipt_.api = facts_.api;
    receipt_.is_stream = facts_.is_stream;
    receipt_.model = facts_.model;
    if (refusal) {
        co_return refuse(std::move(*refusal));
    }
    co_return true;
}

net::Task<bool> Exchange::tokenize() {
    const bool is_wanted = service_->kv || service_->rule->pd.min_prompt_tokens > 0;
    if (!is_wanted || !route::has_prompt(facts_)) {
        co_return true;
    }
    has_prompt_ = true;
    is_text_prompt_ = !route::is_token_prompt(facts_);
    const std::uint64_t begun = now_us();
    std::shared_ptr<const tokens::Model> model;
    if (is_text_prompt_) {
        const std::string name = route::tokenizer_name(*service_, served_model_);
        if (name.empty()) {
            scratch_->prompt.reset();
            scratch_->prompt.miss = "model_empty";
            co_return true;
        }
        auto known = worker_.shared.library.peek(name);
        model = known.model;
        if (!model && known.is_load_due) {
            // Once a model; others who ask meanwhile fall through.
            struct Load {
                std::shared_ptr<const tokens::Model> model;
            };
            const auto load = std::make_shared<Load>();
            Offload loading(worker_.loop, worker_.shared.compute,
                            [load, name, &library = worker_.shared.library] {
                                load->model = library.find(name);
                            });
            const Status loaded = co_await loading.done(wait_ms(0));
            if (!loaded && loaded.error().code == Code::Cancelled) {
                interrupted();
                co_return false;
            }
            model = load->model;
        }
    }
    if (body_.size() <= Shared::kInlineBodyBytes) {
        route::read_prompt(facts_, model.get(), *reader_, scratch_->prompt);
    } else {
        const auto job = std::make_shared<route::PromptJob>(facts_, body_, model);
        Offload reading(worker_.loop, worker_.shared.compute, [job] { job->run(); });
        const Status done = co_await reading.done(wait_ms(0));
        if (!done && done.error().code == Code::Cancelled) {
            interrupted();
            co_return false;
        }
        if (done) {
            std::swap(scratch_->prompt, job->prompt);
        } else {
            scratch_->prompt.reset();
            scratch_->prompt.miss = "tokenize";
        }
    }
    receipt_.tokenize_us = now_us() - begun;
    receipt_.cached_segments = scratch_->prompt.cached_segments;
    co_return true;
}

bool Exchange::edit_body() {
    const rules::Rule& rule = *service_->rule;
    if (facts_.body == nullptr) {
        scratch_->pieces.assign(1, body_);
        body_bytes_ = body_.size();
        return true;
    }
    edits_.emplace(*facts_.body);
    if (rule.handoff != rules::Handoff::Pass) {
        auto nested = worker_.readers.take();
        const auto reserved =
            route::find_reserved(*facts_.body, service_->traits.reserved_fields, *nested);
        if (!reserved) {
            worker_.readers.give_back(std::move(nested));
            const bool is_large = reserved.error().code == Code::Limit;
            return refuse({400,
                           is_large ? "too_many_members" : "invalid_json",
                           "the member " + reserved.error().what +
                               (is_large ? " has too many members" : " cannot be read"),
                           {}});
        }
        if (!reserved->empty() && rule.handoff == rules::Handoff::Refuse) {
            worker_.readers.give_back(std::move(nested));
            return refuse({400, "handoff_field_not_allowed",
                           "this member may only be set between engines", *reserved});
        }
        if (!reserved->empty()) {
            route::drop_reserved(*facts_.body, service_->traits.reserved_fields, *nested, *edits_);
        }
        worker_.readers.give_back(std::move(nested));
    }
    if (served_model_ != facts_.model) {
        std::string quoted;
        json::append_string(quoted, served_model_);
        edits_->set_existing("model", std::move(quoted));
    }
    scratch_->pieces = edits_->pieces();
    body_bytes_ = edits_->size_after();
    if (service_->pd) {
        return true;  // adapters are shown the members
    }
    // The pieces point into the body and the edits; the reader is free for others.
    facts_.body = nullptr;
    worker_.readers.give_back(std::move(reader_));
    return true;
}

}  // namespace sluice::flow
