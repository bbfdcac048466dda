// POST /v1/chat/completions: checks and prompt; the answer is chat_answer's.
#include <algorithm>

#include "tests/sim/vllm/chat_answer.hpp"
#include "tests/sim/vllm/request_start.hpp"
#include "tests/sim/vllm/service.hpp"

namespace sluice::sim::vllm {
namespace {

// A message without a role fits none of the message types, and each says so.
Check check_roles(const json::Array& messages) {
    for (std::size_t i = 0; i < messages.size(); ++i) {
        if (messages[i].get("role") != nullptr) {
            continue;
        }
        std::vector<Finding> findings;
        for (const std::string_view type :
             {"Developer", "System", "User", "Assistant", "Tool", "Function"}) {
            findings.push_back({"missing",
                                "body.messages." + std::to_string(i) + ".ChatCompletion" +
                                    std::string(type) + "MessageParam.role",
                                "Field required", shown(messages[i]), ""});
        }
        return invalid_request(findings);
    }
    return std::nullopt;
}

Check check_media(const json::Array& messages, const std::string& model) {
    for (const json::Value& m : messages) {
        const json::Value* content = m.get("content");
        const json::Array* parts = content == nullptr ? nullptr : content->array();
        for (const json::Value& part : parts != nullptr ? *parts : json::Array()) {
            const std::string_view type = part.text_of("type");
            if (type == "image_url" || type == "input_audio" || type == "video_url" ||
                type == "audio_url") {
                return refuse(model + " is not a multimodal model");
            }
        }
    }
    return std::nullopt;
}

Check check_body(const json::Value& body) {
    auto fields = common_fields();
    fields.insert(fields.begin(), {"messages", Kind::List, false, true});
    fields.push_back({"max_completion_tokens", Kind::Integer});
    fields.push_back({"logprobs", Kind::Boolean});
    fields.push_back({"top_logprobs", Kind::Integer});
    fields.push_back({"tools", Kind::List});
    if (auto e = validate(body, fields)) {
        return e;
    }
    if (auto e = check_roles(*body.get("messages")->array())) {
        return e;
    }
    if (auto e = check_stream_options(body)) {
        return e;
    }
    if (body.get("top_logprobs") != nullptr && !body.flag("logprobs", false)) {
        return refuse_param("when using `top_logprobs`, `logprobs` must be set to true.",
                            "top_logprobs");
    }
    if (body.flag("continue_final_message", false) && body.flag("add_generation_prompt", true)) {
        return refuse(
            "continue_final_message and add_generation_prompt are not compatible. Use "
            "continue_final_message when you want the model to continue the final message, and "
            "add_generation_prompt when you want to add a header that will prompt it to start a "
            "new assistant message instead.");
    }
    return check_salt(body);
}

std::string last_content(const json::Array& messages) {
    if (messages.empty()) {
        return {};
    }
    const json::Value* content = messages.back().get("content");
    const json::Array* parts = content == nullptr ? nullptr : content->array();
    return parts != nullptr && !parts->empty() ? std::string(parts->back().text_of("text"))
                                               : std::string(messages.back().text_of("content"));
}

// Whether the answer begins with thinking: not when the client or the template closed it.
bool starts_thinking(const json::Value& body, const std::string& prompt) {
    const json::Value* kwargs = body.get("chat_template_kwargs");
    return prompt.find("</think>") == std::string::npos &&
           (kwargs == nullptr || kwargs->flag("enable_thinking", true));
}

void read_chat_params(const json::Value& body, Params& p) {
    if (const json::Value* n = body.get("max_completion_tokens");
        n != nullptr && n->integer() != nullptr) {
        p.asked_max_tokens = *n->integer();
    }
    if (body.flag("logprobs", false)) {
        const json::Value* top = body.get("top_logprobs");
        p.logprobs =
            top != nullptr && top->integer() != nullptr
                ? static_cast<std::uint32_t>(std::clamp<std::int64_t>(*top->integer(), 0, 1000))
                : 0;
    }
    if (p.echoes && !p.prompt_logprobs) {
        p.prompt_logprobs = 0;
    }
}

}  // namespace

void handle_chat(Service& s, http::Request& request, http::Exchange& exchange) {
    auto parsed = read_body(request);
    if (const auto* r = std::get_if<http::Response>(&parsed)) {
        return exchange.send(*r);
    }
    const json::Value& body = std::get<json::Value>(parsed);
    const auto refuse_with = [&](const ApiError& e) {
        exchange.send(e.response());
    };
    if (auto e = check_body(body)) {
        return refuse_with(*e);
    }
    const auto tools = read_tools(body, s.options().offers_tools);
    if (const auto* e = std::get_if<ApiError>(&tools)) {
        return refuse_with(*e);
    }
    const auto named = s.find_model(body);
    if (const auto* e = std::get_if<ApiError>(&named)) {
        return refuse_with(*e);
    }
    const std::string& model = std::get<Service::Named>(named).name;
    const json::Array& messages = *body.get("messages")->array();
    if (messages.empty()) {
        return refuse_with(refuse(
            "Cannot apply chat template to an empty conversation. Provide at least one message."));
    }
    if (auto e = check_media(messages, model)) {
        return refuse_with(*e);
    }
    const auto rendered = s.model().render(body, request.body);
    if (!rendered) {
        return refuse_with(refuse(rendered.error().what));
    }
    auto ids = s.model().encode(*rendered, body.flag("add_special_tokens", false));
    if (!ids) {
        return refuse_with(refuse(ids.error().what));
    }
    Params p = read_params(body, request, s.options(), "chatcmpl-");
    read_chat_params(body, p);
    const auto space = room(p, ids->size(), s.options().max_model_len, std::nullopt);
    if (const auto* e = std::get_if<ApiError>(&space)) {
        return refuse_with(*e);
    }
    p.sampling.max_tokens = std::get<std::uint32_t>(space);
    if (auto e = check_sampling(body, p)) {
        return refuse_with(*e);
    }
    const ToolRequest& tool = std::get<ToolRequest>(tools);
    if (tool.function != nullptr) {
        hold_to_text(s.model(), json::Value(make_call(*tool.function)), p.sampling);
    } else if (p.structured_choice != nullptr) {
        hold_to_text(s.model(), *p.structured_choice, p.sampling);
    }
    ChatAnswer::Setup setup{p,
                            tool.choice,
                            model,
                            *ids,
                            p.echoes ? last_content(messages) : "",
                            s.options().parses_reasoning && starts_thinking(body, *rendered)};
    start_request(s, request, exchange, body, [&](Run& run, const Submit& submit) {
        submit(*ids, p, p.sampling.max_tokens, std::get<Service::Named>(named).lora);
        ChatAnswer answer(s, std::move(setup));
        if (p.streams) {
            answer.stream(run, exchange);
        } else {
            answer.answer(run);
        }
    });
}

}  // namespace sluice::sim::vllm
