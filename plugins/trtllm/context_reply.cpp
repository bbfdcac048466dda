#include "plugins/trtllm/context_reply.hpp"

#include <charconv>

namespace sluice::trtllm {

namespace {

bool is_object(std::string_view value) noexcept {
    return !value.empty() && value.front() == '{';
}

bool is_base64(std::string_view value) noexcept {
    const std::string_view inside = spans::plain_text(value);
    return !inside.empty() && inside.size() % 4 == 0 &&
           inside.find_first_not_of(
               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") ==
               std::string_view::npos;
}

}  // namespace

std::optional<ContextReply> read_context_reply(std::string_view text) {
    auto members = spans::members_of(text);
    if (!members) {
        return std::nullopt;
    }
    ContextReply out{text, std::move(*members), {}, {}};
    const std::string_view choices = spans::value_of(out.members, "choices");
    const auto list = choices.empty() ? std::nullopt : spans::elements_of(choices);
    if (list && list->size() == 1) {
        if (auto inside = spans::members_of(list->front().value)) {
            out.choice = list->front().value;
            out.choice_members = std::move(*inside);
        }
    }
    return out;
}

bool ContextReply::is_complete() const {
    // Going on where nothing is said costs time, stopping costs the answer.
    const std::string_view reason = spans::value_of(choice_members, "finish_reason");
    return reason.size() > 2 && reason.front() == '"' && reason != "\"length\"" &&
           reason != "\"not_finished\"";
}

std::string_view ContextReply::params(std::string_view& fault) const {
    fault = {};
    if (choice.empty()) {
        fault = "the reply has not one choice";
        return {};
    }
    const std::string_view object = spans::value_of(choice_members, "disaggregated_params");
    const auto inside = is_object(object) ? spans::members_of(object) : std::nullopt;
    if (!inside) {
        fault = object.empty() ? "the reply has no disaggregated_params"
                               : "its disaggregated_params are no object";
        return {};
    }
    if (!spans::whole_number(spans::value_of(*inside, "ctx_request_id"))) {
        fault = "its disaggregated_params name no ctx_request_id";
        return {};
    }
    return object;
}

std::string_view ContextReply::ids() const {
    const std::string_view b64 = spans::value_of(members, "prompt_token_ids_b64");
    const std::string_view list = spans::value_of(members, "prompt_token_ids");
    if (list.empty()) {
        return is_base64(b64) ? b64 : std::string_view();
    }
    const auto elements = spans::elements_of(list);
    if (!elements || elements->empty()) {
        return {};
    }
    // A list of the one prompt's list, as some builds have it.
    return elements->front().value.front() != '[' ? list
           : elements->size() == 1                ? elements->front().value
                                                  : std::string_view();
}

std::string_view ContextReply::usage() const {
    const std::string_view usage = spans::value_of(members, "usage");
    return is_object(usage) ? usage : std::string_view();
}

std::uint32_t ContextReply::cached_tokens() const {
    const auto inner = [](std::string_view object, std::string_view name) {
        const auto of = is_object(object) ? spans::members_of(object) : std::nullopt;
        return of ? spans::value_of(*of, name) : std::string_view();
    };
    const auto cached =
        spans::whole_number(inner(inner(usage(), "prompt_tokens_details"), "cached_tokens"));
    return cached && *cached < SLUICE_ANY ? static_cast<std::uint32_t>(*cached) : SLUICE_ANY;
}

std::vector<std::uint32_t> token_ids(std::string_view list) {
    std::vector<std::uint32_t> out;
    if (!list.starts_with('[')) {
        return out;
    }
    const char* at = list.data() + 1;
    const char* const end = list.data() + list.size();
    const auto skip = [&] {
        while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) {
            ++at;
        }
    };
    while (true) {
        std::uint32_t id = 0;
        skip();
        const auto [next, error] = std::from_chars(at, end, id);
        if (error != std::errc()) {
            return {};
        }
        out.push_back(id);
        at = next;
        skip();
        if (at == end || (*at != ',' && *at != ']')) {
            return {};
        }
        if (*at++ == ']') {
            return at == end ? out : std::vector<std::uint32_t>();
        }
    }
}

}  // namespace sluice::trtllm
