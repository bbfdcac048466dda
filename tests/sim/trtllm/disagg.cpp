#include "tests/sim/trtllm/disagg.hpp"

#include <algorithm>

#include "core/base/clock.hpp"
#include "tests/sim/support/http_client.hpp"
#include "tests/sim/trtllm/service.hpp"

namespace sluice::sim::trtllm {
namespace {

constexpr std::uint64_t kLeastGlobalId = std::uint64_t{1} << 40U;
constexpr int kPollMs = 20;
constexpr std::string_view kBadAuth = "Invalid internal disaggregated request authentication";

std::optional<std::uint64_t> number(const json::Value* v) {
    return v == nullptr || v->integer() == nullptr || *v->integer() < 0
               ? std::nullopt
               : std::optional(static_cast<std::uint64_t>(*v->integer()));
}

std::string text_of(const json::Value* v) {
    return v == nullptr ? "null" : json::Writer().value(*v).take();
}

// Whether who sent these fields had them from a worker of this deployment.
std::optional<ApiError> check_key(const Service& s, const http::Request& request,
                                  const json::Value& given) {
    const json::Value* state = given.get("encoded_opaque_state");
    const json::Value* endpoint = given.get("ctx_info_endpoint");
    const std::string& key = s.options().disagg_auth_key;
    if ((state == nullptr && endpoint == nullptr) || key.empty()) {
        return std::nullopt;
    }
    const std::string* said = request.header("x-trtllm-disagg-auth");
    return said != nullptr && *said == signature(key, text_of(endpoint), text_of(state))
               ? std::nullopt
               : std::optional(ApiError{400, std::string(kBadAuth)});
}

std::optional<ApiError> check_shape(const json::Value& body) {
    const auto n = number(body.get("n"));
    if (n && *n > 1) {
        return ApiError{400, "Disaggregated serving needs n = 1"};
    }
    if (body.flag("use_beam_search", false)) {
        return ApiError{400, "Disaggregated serving has no beam search"};
    }
    const json::Value* prompt = body.get("prompt");
    const bool is_list = prompt != nullptr && prompt->array() != nullptr;
    if (is_list && prompt->array()->size() > 1 && prompt->array()->front().integer() == nullptr) {
        return ApiError{400, "Disaggregated serving takes one prompt"};
    }
    return std::nullopt;
}

std::optional<ApiError> read_generation(const json::Value& given, Disagg& out) {
    out.ctx_request_id = number(given.get("ctx_request_id"));
    out.state = given.text_of("encoded_opaque_state");
    const json::Value* first = given.get("first_gen_tokens");
    for (const json::Value& v :
         first != nullptr && first->array() != nullptr ? *first->array() : json::Array()) {
        const auto id = number(&v);
        if (!id) {
            return ApiError{400, "first_gen_tokens are token ids"};
        }
        out.first.push_back(static_cast<TokenId>(*id));
    }
    if (out.first.empty() || (!out.ctx_request_id && !out.disagg_request_id)) {
        return ApiError{400, "first_gen_tokens and ctx_request_id of the context leg are missing"};
    }
    if (!peer_of(out.state)) {
        return ApiError{400, "encoded_opaque_state cannot be read"};
    }
    const json::Value* usage = given.get("ctx_usage");
    const json::Value* details = usage == nullptr ? nullptr : usage->get("prompt_tokens_details");
    out.ctx_cached = details == nullptr ? std::nullopt : number(details->get("cached_tokens"));
    if (usage != nullptr && !out.ctx_cached) {
        out.ctx_cached = 0;
    }
    return std::nullopt;
}

bool is_of(const BlockContent& content, const std::vector<TokenId>& prompt) {
    return std::equal(content.begin(), content.end(), prompt.begin(), prompt.end(),
                      [](const Slot& slot, TokenId id) { return slot.token == id; });
}

}  // namespace

std::variant<std::optional<Disagg>, ApiError> read_disagg(Service& s, const http::Request& request,
                                                          const json::Value& body) {
    const json::Value* given = body.get("disaggregated_params");
    if (given == nullptr || given->is_null()) {
        return std::nullopt;
    }
    const std::string_view type = given->text_of("request_type");
    if (type == "context_and_generation") {
        return std::nullopt;
    }
    if (type != "context_only" && type != "generation_only") {
        return ApiError{400, "Unknown request type: " + std::string(type)};
    }
    if (!s.transfers()) {
        return ApiError{400,
                        "Disaggregated serving is not enabled, please check the configuration"};
    }
    if (auto e = check_key(s, request, *given)) {
        return *std::move(e);
    }
    if (auto e = check_shape(body)) {
        return *std::move(e);
    }
    Disagg out;
    out.given = given;
    out.is_context = type == "context_only";
    out.disagg_request_id = number(given->get("disagg_request_id"));
    if (out.disagg_request_id && *out.disagg_request_id < kLeastGlobalId) {
        return ApiError{400, "disagg_request_id must be in [2^40, 2^63)"};
    }
    if (!out.is_context) {
        if (auto e = read_generation(*given, out)) {
            return *std::move(e);
        }
        return out;
    }
    out.ctx_request_id = s.next_id();
    out.state = s.new_state();
    out.returns_base64 = given->flag("return_prompt_token_ids_b64", false);
    return out;
}

std::variant<std::shared_ptr<const TransferAsk>, ApiError> ask_for(
    Service& s, http::Exchange& exchange, const Disagg& d, const std::vector<TokenId>& prompt) {
    auto out = std::make_shared<TransferAsk>();
    if (d.is_context) {
        const ContextFinish finish = s.options().context_finish;
        out->id = finish == ContextFinish::Stop ? 0 : d.id();
        out->state = d.state;
        out->holds_after_stop = finish == ContextFinish::Length;
        return out;
    }
    const auto failed = [&s](const std::string& why) {
        ++s.pulls().failed;
        return ApiError{500, "KV cache transfer failed: " + why};
    };
    const Peer peer = *peer_of(d.state);
    const std::string body = json::Writer()
                                 .open_object()
                                 .field("id", d.id())
                                 .field("state", d.state)
                                 .close_object()
                                 .take();
    const std::uint64_t ends = now_us() + s.options().engine.transfer_timeout_us;
    while (true) {
        const auto answer = http::ask(peer.host, peer.port, "POST", "/pull", body);
        if (!answer) {
            return failed("the context worker is gone");
        }
        if (answer->status == 200) {
            out->received = unpacked(answer->body);
            break;
        }
        if (answer->status != 404) {
            return failed("the state is not the one that was given");
        }
        if (now_us() >= ends) {
            return failed("timed out");
        }
        if (exchange.wait(kPollMs) == http::Wake::Gone) {
            return std::shared_ptr<const TransferAsk>();
        }
    }
    out->is_received = true;
    ++s.pulls().done;
    s.pulls().foreign += is_of(out->received, prompt) ? 0 : 1;
    return out;
}

std::string_view finish_word(const Service& s, const std::optional<Disagg>& d,
                             FinishReason reason) {
    if (!d || !d->is_context) {
        return to_string(reason);
    }
    switch (s.options().context_finish) {
        case ContextFinish::Length:
            return "length";
        case ContextFinish::Stop:
            return "stop";
        case ContextFinish::NotFinished:
            return reason == FinishReason::Length ? "not_finished" : to_string(reason);
        case ContextFinish::Auto:
            break;
    }
    return to_string(reason);
}

void write_disagg(json::Writer& w, const Service& s, const std::optional<Disagg>& d,
                  const std::vector<TokenId>& made) {
    w.key("disaggregated_params");
    if (!d) {
        w.null();
        return;
    }
    if (!d->is_context) {  // comes back as it was sent
        w.value(*d->given);
        return;
    }
    w.open_object().field("request_type", "context_only").key("first_gen_tokens").open_array();
    for (const TokenId id : made) {
        w.value(std::uint64_t{id});
    }
    w.close_array().field("ctx_request_id", *d->ctx_request_id);
    w.field("encoded_opaque_state", d->state).null_field("draft_tokens");
    if (s.options().era() >= Era::V1_3Early) {
        w.key("disagg_request_id");
        d->disagg_request_id ? w.value(*d->disagg_request_id) : w.null();
        w.field("ctx_dp_rank", std::uint64_t{0});
        w.null_field("ctx_info_endpoint").field("schedule_style", std::uint64_t{0});
    }
    w.close_object();
}

void write_prompt_ids(json::Writer& w, const Service& s, const std::optional<Disagg>& d,
                      const std::vector<TokenId>& prompt) {
    const bool in_base64 = d && d->returns_base64;
    w.key("prompt_token_ids");
    if (!d || !d->is_context || in_base64) {
        w.null();
    } else {
        w.open_array();
        for (const TokenId id : prompt) {
            w.value(std::uint64_t{id});
        }
        w.close_array();
    }
    if (s.options().era() >= Era::V1_3Late) {
        w.key("prompt_token_ids_b64");
        if (in_base64) {
            w.value(ids_in_base64(prompt));
        } else {
            w.null();
        }
    }
}

}  // namespace sluice::sim::trtllm
