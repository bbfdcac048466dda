// Which requests two engines answer as one would.
#include <charconv>
#include <optional>

#include "plugins/trtllm/accepts.hpp"
#include "plugins/trtllm/pd.hpp"

namespace sluice::trtllm {

namespace {

std::optional<double> number_of(std::string_view value) {
    double out = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
    return error == std::errc() && end == value.data() + value.size() ? std::optional(out)
                                                                      : std::nullopt;
}

bool is_given(std::string_view value) {
    const auto number = number_of(value);
    return value != "null" && value != "false" && !(number && *number == 0);
}

// Beams and samples of one prompt cannot be handed over.
std::string_view refusal_of(std::string_view name, std::string_view value) {
    const auto number = number_of(value);
    const bool is_many = number && *number > 1;
    if (name == "n" && is_many) {
        return "n must be 1: this rule hands requests from one engine to another";
    }
    if (name == "best_of" && is_many) {
        return "best_of must be 1: this rule hands requests from one engine to another";
    }
    if (name == "use_beam_search" && is_given(value)) {
        return "use_beam_search must be false: this rule hands requests from one engine to another";
    }
    return {};
}

// Parts that are no text stand in typed members; inside a text the quotes would be escaped.
bool has_media(std::string_view messages) {
    for (const std::string_view kind :
         {"\"image_url\"", "\"video_url\"", "\"audio_url\"", "\"input_audio\"", "\"image_embeds\"",
          "\"audio_embeds\""}) {
        for (std::size_t at = messages.find(kind); at != std::string_view::npos;
             at = messages.find(kind, at + 1)) {
            if (at == 0 || messages[at - 1] != '\\') {
                return true;
            }
        }
    }
    return false;
}

// What one engine alone can answer.
bool keeps_whole(std::string_view name, std::string_view value, std::uint32_t all_accept) {
    // The prompt is answered too; what becomes of it may depend on the engine that tokenizes; the
    // budget is counted from the first token on.
    for (const std::string_view whole :
         {"echo", "return_context_logits", "truncate_prompt_tokens", "thinking_token_budget"}) {
        if (name == whole) {
            return is_given(value);
        }
    }
    // The context leg's token is the whole answer: handing it over makes some builds say two.
    if (name == "max_tokens" || name == "max_completion_tokens") {
        return number_of(value) == 1;
    }
    // Those of the first token are handed over by later builds only.
    if (name == "logprobs" || name == "top_logprobs") {
        return is_given(value) && (all_accept & kFirstLogProbs) == 0;
    }
    // Early builds do not take the grammar past the first token.
    if (name == "response_format" && is_given(value)) {
        const auto members = spans::members_of(value);
        const bool is_text = members && spans::value_of(*members, "type") == "\"text\"";
        return !is_text && (all_accept & kTransferId) == 0;
    }
    return false;
}

// What a context leg is sent something else for: where the generation worker may refuse it, the
// context worker would have computed for nothing.
bool is_refused_by_generation(const Edits& body) {
    const auto value_of = [&body](std::string_view name) -> std::string_view {
        const sluice_field* field = body.find(name);
        return field == nullptr || field->type == SLUICE_JSON_NULL ? std::string_view()
                                                                   : body.value(*field);
    };
    const std::string_view stream = value_of("stream");
    return (!stream.empty() && stream != "true" && stream != "false") ||
           (stream != "true" && !value_of("stream_options").empty());
}

// 0 where it is none, 2 for any number more than one.
std::size_t prompts_in(const sluice_field& field, std::string_view value) {
    if (field.type == SLUICE_JSON_STRING) {
        return 1;
    }
    const auto elements =
        field.type == SLUICE_JSON_ARRAY ? spans::elements_of(value) : std::nullopt;
    if (!elements || elements->empty()) {
        return 0;
    }
    const char first = elements->front().value.front();
    const bool is_list_of_prompts = first == '"' || first == '[';
    return is_list_of_prompts && elements->size() > 1 ? 2 : 1;
}

}  // namespace

Split split_of(const sluice_request& request, std::uint32_t all_accept) {
    const std::string_view path = view(request.path);
    const bool is_chat = path == "/v1/chat/completions";
    if (!is_chat && path != "/v1/completions") {
        return {};
    }
    const Edits body(request.body, request.fields);
    std::size_t prompts = 0;
    bool is_whole = false;
    for (const sluice_field& field : Rows<sluice_field>(request.fields)) {
        const std::string_view name = view(field.name);
        const std::string_view value = body.value(field);
        if (const std::string_view why = refusal_of(name, value); !why.empty()) {
            return {Split::Kind::Refused, why};
        }
        is_whole = is_whole || keeps_whole(name, value, all_accept);
        if (is_chat && name == "messages") {
            ++prompts;
            is_whole = is_whole || has_media(value);
        } else if (!is_chat && name == "prompt") {
            const std::size_t n = prompts_in(field, value);
            if (n > 1) {
                return {Split::Kind::Refused,
                        "prompt must be one prompt: this rule hands requests from one engine to "
                        "another"};
            }
            is_whole = is_whole || n == 0;
            ++prompts;
        }
    }
    is_whole = is_whole || prompts != 1 || is_refused_by_generation(body);
    return {is_whole ? Split::Kind::Whole : Split::Kind::Pair, {}};
}

}  // namespace sluice::trtllm
