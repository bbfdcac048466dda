#include "tests/sim/trtllm/fields.hpp"

namespace sluice::sim::trtllm {
namespace {

std::vector<Field> shared_fields(Era era) {
    std::vector<Field> out{{"model", Kind::Text, false, true},
                           {"best_of", Kind::Integer},
                           {"frequency_penalty", Kind::Number},
                           {"logit_bias", Kind::Object},
                           {"n", Kind::Integer, false},
                           {"presence_penalty", Kind::Number},
                           {"seed", Kind::Integer},
                           {"stop", Kind::TextOrList},
                           {"stream", Kind::Boolean},
                           {"stream_options", Kind::Object},
                           {"temperature", Kind::Number},
                           {"top_p", Kind::Number},
                           {"user", Kind::Text},
                           {"lora_request", Kind::Object},
                           {"use_beam_search", Kind::Boolean, false},
                           {"top_k", Kind::Integer, false},
                           {"top_p_min", Kind::Number, false},
                           {"min_p", Kind::Number, false},
                           {"repetition_penalty", Kind::Number, false},
                           {"length_penalty", Kind::Number},
                           {"early_stopping", Kind::Any},
                           {"stop_token_ids", Kind::List},
                           {"include_stop_str_in_output", Kind::Boolean, false},
                           {"ignore_eos", Kind::Boolean, false},
                           {"min_tokens", Kind::Integer, false},
                           {"skip_special_tokens", Kind::Boolean, false},
                           {"spaces_between_special_tokens", Kind::Boolean, false},
                           {"truncate_prompt_tokens", Kind::Integer},
                           {"echo", Kind::Boolean},
                           {"add_special_tokens", Kind::Boolean, false},
                           {"response_format", Kind::Object},
                           {"disaggregated_params", Kind::Object}};
    if (era >= Era::V1_0) {
        out.push_back({"prompt_ignore_length", Kind::Integer});
    }
    if (has_salt(era)) {
        out.push_back({"cache_salt", Kind::Text});
    }
    if (era >= Era::Main) {
        out.push_back({"priority", Kind::Number});
        out.push_back({"conversation_params", Kind::Object});
        out.push_back({"thinking_token_budget", Kind::Integer});
    }
    return out;
}

void write_model(json::Writer& w, std::string_view name, const std::vector<Field>& fields) {
    w.key(name).open_object().field("additionalProperties", false).key("properties").open_object();
    for (const Field& f : fields) {
        w.key(f.name).open_object().field("title", f.name).close_object();
    }
    w.close_object().field("title", name).field("type", "object").close_object();
}

// Findings about an object inside the body, its own unknown fields included.
void check_inside(const json::Value& body, std::string_view name, const std::vector<Field>& fields,
                  std::vector<std::string>& out) {
    const json::Value* inner = body.get(name);
    if (inner == nullptr || inner->object() == nullptr) {
        return;
    }
    for (const FieldComplaint& c : complaints(*inner, fields)) {
        out.push_back(finding(c, name));
    }
    for (const FieldComplaint& c : unknown_fields(*inner, fields)) {
        out.push_back(finding(c, name));
    }
}

}  // namespace

std::vector<Field> fields_of(Endpoint endpoint, Era era) {
    std::vector<Field> out = shared_fields(era);
    if (endpoint == Endpoint::Completions) {
        out.insert(out.begin() + 1, {"prompt", Kind::TextOrList, false, true});
        out.push_back({"logprobs", Kind::Integer});
        out.push_back({"max_tokens", Kind::Integer});
        out.push_back({"suffix", Kind::Text});
        out.push_back({"return_context_logits", Kind::Boolean, false});
        out.push_back({"detokenize", Kind::Boolean, false});
        return out;
    }
    out.insert(out.begin(), {"messages", Kind::List, false, true});
    for (const Field& f : std::initializer_list<Field>{{"prompt_token_ids", Kind::List},
                                                       {"logprobs", Kind::Boolean},
                                                       {"top_logprobs", Kind::Integer},
                                                       {"max_completion_tokens", Kind::Integer},
                                                       {"max_tokens", Kind::Integer},
                                                       {"tools", Kind::List},
                                                       {"tool_choice", Kind::Any},
                                                       {"add_generation_prompt", Kind::Boolean},
                                                       {"documents", Kind::List},
                                                       {"chat_template", Kind::Text},
                                                       {"chat_template_kwargs", Kind::Object}}) {
        out.push_back(f);
    }
    if (era >= Era::V1_1) {
        out.push_back({"reasoning_effort", Kind::Text});
        out.push_back({"mm_processor_kwargs", Kind::Object});
    }
    if (era >= Era::V1_3Late) {
        out.push_back({"prompt_token_ids_b64", Kind::Text});
    }
    if (era >= Era::Main) {
        out.push_back({"parallel_tool_calls", Kind::Boolean});
        out.push_back({"media_io_kwargs", Kind::Object});
        out.push_back({"agent_hierarchy", Kind::Object});
    }
    return out;
}

std::vector<Field> disagg_fields(Era era) {
    std::vector<Field> out{{"request_type", Kind::Text, false, true},
                           {"first_gen_tokens", Kind::List},
                           {"ctx_request_id", Kind::Integer},
                           {"encoded_opaque_state", Kind::Text},
                           {"draft_tokens", Kind::List}};
    if (era >= Era::V1_3Early) {
        out.push_back({"disagg_request_id", Kind::Integer});
        out.push_back({"ctx_dp_rank", Kind::Integer});
        out.push_back({"ctx_info_endpoint", Kind::Text});
        out.push_back({"schedule_style", Kind::Integer});
    }
    if (era >= Era::V1_3Late) {
        out.push_back({"ctx_usage", Kind::Object});
        out.push_back({"first_gen_log_probs", Kind::List});
        out.push_back({"first_gen_logits", Kind::List});
        out.push_back({"return_prompt_token_ids_b64", Kind::Boolean, false});
    }
    if (era == Era::V1_3Late) {
        out.push_back({"conversation_id", Kind::Text});
    }
    if (era >= Era::Main) {
        out.push_back({"resolved_thinking", Kind::Boolean});
    }
    return out;
}

std::optional<ApiError> check_fields(const json::Value& body, Endpoint endpoint, Era era) {
    // Validators of the whole model come before its fields.
    if (body.get("stream_options") != nullptr && !body.flag("stream", false)) {
        return invalid_value("Stream options can only be defined when stream is true.", body);
    }
    if (!body.text_of("suffix").empty()) {
        return invalid_value("suffix is not supported", body);
    }
    const std::vector<Field> fields = fields_of(endpoint, era);
    std::vector<std::string> findings;
    for (const FieldComplaint& c : complaints(body, fields)) {
        findings.push_back(finding(c));
    }
    check_inside(body, "stream_options",
                 {{"include_usage", Kind::Boolean}, {"continuous_usage_stats", Kind::Boolean}},
                 findings);
    check_inside(body, "disaggregated_params", disagg_fields(era), findings);
    for (const FieldComplaint& c : unknown_fields(body, fields)) {
        findings.push_back(finding(c));
    }
    return findings.empty() ? std::nullopt : std::optional(invalid_request(findings));
}

std::string openapi(Era era) {
    json::Writer w;
    w.open_object().field("openapi", "3.1.0").key("info").open_object();
    w.field("title", "FastAPI").field("version", "0.1.0").close_object();
    w.key("paths").open_object();
    for (const std::string_view path : {"/v1/completions", "/v1/chat/completions"}) {
        w.key(path).open_object().key("post").open_object().close_object().close_object();
    }
    w.close_object().key("components").open_object().key("schemas").open_object();
    write_model(w, "CompletionRequest", fields_of(Endpoint::Completions, era));
    write_model(w, "ChatCompletionRequest", fields_of(Endpoint::Chat, era));
    write_model(w, "DisaggregatedParams", disagg_fields(era));
    return w.close_object().close_object().close_object().take();
}

}  // namespace sluice::sim::trtllm
