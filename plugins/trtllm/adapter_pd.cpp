// The adapter on legs of split requests: how they run, what they carry, what their replies mean.
#include "plugins/trtllm/adapter.hpp"
#include "plugins/trtllm/auth.hpp"
#include "plugins/trtllm/context_reply.hpp"
#include "plugins/trtllm/early_exit.hpp"
#include "plugins/trtllm/pd.hpp"
#include "plugins/trtllm/replies.hpp"

namespace sluice::trtllm {

namespace {

// A context worker keeps the blocks of a reply until they are fetched or its transceiver's time is
// over: kv_transfer_timeout_ms, 60 s where nothing else is configured. Early builds have no such
// limit, and wait longer; handing over later than the shortest of them is never safe.
constexpr std::uint64_t kLeaseUs = 60'000'000;

std::string name_of(const sluice_endpoint* endpoint) {
    return endpoint == nullptr ? "?" : std::string(view(endpoint->name));
}

// A worker that takes signed hand-offs only.
bool is_about_signature(std::string_view body) noexcept {
    return body.find("nternal disaggregated request authentication") != std::string_view::npos ||
           body.find("requires authenticated disaggregated") != std::string_view::npos;
}

std::string_view stream_options_of(const sluice_request& request) {
    const Edits body(request.body, request.fields);
    const sluice_field* field = body.find("stream_options");
    return field == nullptr || field->type != SLUICE_JSON_OBJECT ? std::string_view()
                                                                 : body.value(*field);
}

sluice_status write(const sluice_sink& to, std::string_view data) {
    return to.write(to.ctx, data.data(), data.size());
}

}  // namespace

sluice_status Adapter::plan(const sluice_request& request, sluice_plan& out) {
    const Split split = split_of(request, all_accept_.load(std::memory_order_relaxed));
    if (split.kind == Split::Kind::Refused) {
        throw Failure(SLUICE_E_UNSUPPORTED, std::string(split.why));
    }
    const bool is_pair = split.kind == Split::Kind::Pair;
    out.kind = is_pair ? SLUICE_PLAN_SEQUENTIAL : SLUICE_PLAN_WHOLE;
    out.flags = is_pair ? std::uint32_t{SLUICE_PLAN_HANDOFF} : 0U;
    return SLUICE_OK;
}

sluice_status Adapter::build_leg(const sluice_leg& leg, sluice_leg_out& out) {
    if (leg.kind == SLUICE_LEG_SINGLE) {
        return SLUICE_OK;
    }
    if ((leg.flags & SLUICE_LEG_RELEASE) != 0) {
        throw Failure(SLUICE_E_UNSUPPORTED, "a context worker's blocks cannot be given back");
    }
    const Attachment* at = attached(leg.at);
    const std::uint32_t accepts = at == nullptr ? 0 : at->accepts();
    Edits body(leg.request->body, leg.request->fields);
    std::string id = receipt_id(leg);
    if (leg.kind == SLUICE_LEG_PREFILL) {
        make_context(body, leg.transfer_id, accepts);
    } else {
        const Handoff handoff = read_handoff(leg.handoff);
        make_generation(body, view(leg.request->path), handoff, accepts);
        if (!handoff.id.empty()) {
            id = handoff.id;  // another endpoint than planned may have been taken
        }
        const std::string proof = signature_of(handoff.params, shared_.key.key()->text);
        // Empty removes the client's.
        const sluice_status status = out.set_header(out.ctx, borrow(kAuthHeader), borrow(proof));
        if (status != SLUICE_OK) {
            return status;
        }
    }
    const sluice_status status = out.set_header(out.ctx, borrow("X-Request-Id"), borrow(id));
    return status == SLUICE_OK ? body.emit(out) : status;
}

std::uint32_t Adapter::unsigned_leg(const sluice_leg& leg, sluice_error* err) const {
    const auto key = shared_.key.key();
    Attachment* at = attached(leg.at);
    if (at == nullptr || at->may_tell_of_key(key->serial)) {
        host_.error("hand-offs are refused for their signature",
                    {{"endpoint", name_of(leg.endpoint)},
                     {"reason", key->text.empty()
                                    ? "trt_disagg_key_file must hold its internal_request_auth_key"
                                    : "trt_disagg_key_file holds another key than its "
                                      "internal_request_auth_key"}});
    }
    (void)report(
        err, SLUICE_E_CONFIG,
        "the generation endpoint does not accept what it was handed for its signature: see "
        "trt_disagg_key_file");
    return SLUICE_NEXT_FAIL;
}

// What a leg's refusal means: who is to blame, and whether its blocks may be read again.
std::uint32_t Adapter::refused(const sluice_leg& leg, const sluice_reply& reply,
                               sluice_error* err) const {
    const bool is_context = leg.kind == SLUICE_LEG_PREFILL;
    const bool has_handoff = leg.kind == SLUICE_LEG_DECODE && leg.handoff.len != 0;
    if (reply.http_code == 400 || reply.http_code == 422) {
        const std::uint32_t unknown =
            is_context || has_handoff ? refused_members(text(reply.body)) : 0;
        if (Attachment* at = attached(leg.at); at != nullptr && unknown != 0) {
            at->refuses(unknown);
            return SLUICE_NEXT_REBUILD;
        }
        if (has_handoff && is_about_signature(text(reply.body))) {
            return unsigned_leg(leg, err);
        }
    }
    switch (meaning_of(reply.http_code)) {
        case ReplyMeaning::Busy:
            return SLUICE_NEXT_BUSY;
        case ReplyMeaning::Elsewhere:
            return has_handoff ? SLUICE_NEXT_RESTART : SLUICE_NEXT_ELSEWHERE;
        case ReplyMeaning::Relay:
            break;
    }
    if (reply.http_code < 500 || leg.kind == SLUICE_LEG_SINGLE) {
        return SLUICE_NEXT_RELAY;
    }
    // Blocks that may have been read belong to nobody; a context leg has shown nothing to anybody.
    return has_handoff  ? SLUICE_NEXT_RESTART
           : is_context ? SLUICE_NEXT_ELSEWHERE
                        : SLUICE_NEXT_RELAY;
}

std::uint32_t Adapter::prefilled(const sluice_leg& leg, const sluice_reply& reply,
                                 sluice_reply_out& out, sluice_error* err) const {
    const std::string name = name_of(leg.endpoint);
    const auto unused = [&](std::string_view fault) {
        host_.warn("a context leg's hand-off is not used, the generation endpoint computes",
                   {{"endpoint", name}, {"reason", fault}});
        return SLUICE_NEXT_CONTINUE;
    };
    if ((reply.flags & SLUICE_REPLY_CUT) != 0) {
        out.lease_us = kLeaseUs;
        return unused("the reply is too long to be kept");
    }
    const auto read = read_context_reply(text(reply.body));
    if (!read) {
        (void)report(err, SLUICE_E_PROTOCOL,
                     "the context endpoint answered with something that is no JSON object");
        host_.warn("a context endpoint's answer cannot be used",
                   {{"endpoint", name}, {"reason", "it is no JSON object"}});
        return SLUICE_NEXT_FAIL;
    }
    out.cached_tokens = read->cached_tokens();
    const std::string_view ids = read->ids();
    const auto numbers = token_ids(ids);
    if (out.prompt_ids != nullptr && !numbers.empty()) {
        out.prompt_ids(out.ctx, numbers.data(), numbers.size());
    }
    if (read->is_complete()) {
        const bool is_stream = (leg.request->flags & SLUICE_REQ_STREAM) != 0;
        const bool is_chat = view(leg.request->path) == "/v1/chat/completions";
        const std::string answer =
            is_stream
                ? streamed_answer(*read, is_chat, stream_wish(stream_options_of(*leg.request)))
                : whole_answer(*read);
        const sluice_status typed = out.set_header(
            out.ctx, borrow("Content-Type"),
            borrow(is_stream ? "text/event-stream; charset=utf-8" : "application/json"));
        if (typed != SLUICE_OK || write(out.body, answer) != SLUICE_OK) {
            (void)report(err, SLUICE_E_LIMIT, "the context endpoint's answer is too long");
            return SLUICE_NEXT_FAIL;
        }
        return SLUICE_NEXT_ANSWER;
    }
    std::string_view fault;
    const std::string_view params = read->params(fault);
    if (params.empty()) {
        return unused(fault);
    }
    // Used or not, the worker keeps the blocks now.
    out.lease_us = kLeaseUs;
    const Attachment* at = attached(leg.at);
    const auto members = spans::members_of(params);
    const auto told = members ? spans::whole_number(spans::value_of(*members, "disagg_request_id"))
                              : std::nullopt;
    if (at != nullptr && (at->accepts() & kTransferId) != 0 && told && *told != leg.transfer_id) {
        return unused("it is of another request");
    }
    const bool is_usable = !numbers.empty() || ids.starts_with('"');
    const std::string id = receipt_id(leg);
    const std::string object = for_generation(params);
    const std::string handoff =
        pack({id, object, is_usable ? ids : std::string_view(), read->usage()});
    if (write(out.handoff, handoff) != SLUICE_OK) {
        return unused("the gateway does not take it");
    }
    return SLUICE_NEXT_CONTINUE;
}

sluice_status Adapter::on_reply(const sluice_leg& leg, const sluice_reply& reply,
                                sluice_reply_out& out, sluice_error* err) {
    out.hold = 0;
    out.cached_tokens = SLUICE_ANY;
    out.lease_us = 0;
    const bool is_2xx = reply.http_code >= 200 && reply.http_code < 300;
    out.next = leg.kind == SLUICE_LEG_PREFILL && is_2xx ? prefilled(leg, reply, out, err)
                                                        : refused(leg, reply, err);
    return SLUICE_OK;
}

}  // namespace sluice::trtllm
