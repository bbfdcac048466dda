#include "plugins/vllm/pd.hpp"

#include <xxhash.h>

#include <array>
#include <charconv>

namespace sluice::vllm {

namespace {

bool is_given(const Edits& body, const sluice_field& field) {
    return field.type != SLUICE_JSON_NULL && body.value(field) != "false";
}

// One prompt: a text, a list of ids, or a list of one prompt.
bool is_one_prompt(const Edits& body, const sluice_field& field) {
    if (field.type == SLUICE_JSON_STRING) {
        return true;
    }
    if (field.type != SLUICE_JSON_ARRAY) {
        return false;
    }
    const std::string_view list = body.value(field);
    const std::size_t first = list.find_first_not_of(" \t\r\n", 1);
    if (first == std::string_view::npos || list[first] == ']') {
        return false;
    }
    if (list[first] != '"' && list[first] != '[') {
        return true;  // ids, which may be many
    }
    const auto elements = spans::elements_of(list);
    return elements && elements->size() == 1;
}

bool is_flag(std::string_view value) {
    return value == "true" || value == "false" || value == "null";
}

// What a prefill leg is sent something else for: where decode may refuse it, prefill would have
// computed for nothing, and would hold the blocks.
bool is_refused_by_decode(const Edits& body) {
    const auto value_of = [&body](std::string_view name) -> std::string_view {
        const sluice_field* field = body.find(name);
        return field == nullptr || field->type == SLUICE_JSON_NULL ? std::string_view()
                                                                   : body.value(*field);
    };
    std::optional<std::uint64_t> most;
    for (const std::string_view name : {"max_tokens", "max_completion_tokens"}) {
        const std::string_view value = value_of(name);
        const auto number = spans::whole_number(value);
        if (!value.empty() && !number) {
            return true;
        }
        most = number ? number : most;
    }
    const std::string_view stream = value_of("stream");
    const std::string_view least = value_of("min_tokens");
    const auto number = spans::whole_number(least);
    return (!stream.empty() && !is_flag(stream)) ||
           (stream != "true" && !value_of("stream_options").empty()) ||
           (!least.empty() && (!number || (most && *number > *most)));
}

// What only one engine alone can answer, or what would make the prompts of the legs differ.
bool keeps_whole(const Edits& body, const sluice_field& field) {
    const std::string_view name = view(field.name);
    const std::string_view value = body.value(field);
    if (name == "n" || name == "best_of") {
        return value != "1" && (name == "n" || value != "null");
    }
    // Every prompt token's logits are wanted; beams share nothing that can be handed over; the cut
    // of a prompt may depend on the room left for the answer.
    for (const std::string_view whole : {"prompt_logprobs", "echo", "use_beam_search",
                                         "truncate_prompt_tokens", "prompt_embeds"}) {
        if (name == whole) {
            return is_given(body, field);
        }
    }
    if (name == "max_tokens" || name == "max_completion_tokens") {
        return value == "0";
    }
    // One token is no whole call: older engines answer that with a refusal.
    return name == "tool_choice" && value == "\"required\"";
}

void append_hex(std::string& out, std::uint64_t n) {
    for (unsigned shift = 64; shift != 0; shift -= 4) {
        out += "0123456789abcdef"[n >> (shift - 4) & 15U];
    }
}

// IP:port of the endpoint's transfer agent where the rule names one, else of its API.
void append_transfer_address(std::string& out, const sluice_endpoint* endpoint) {
    if (endpoint == nullptr) {
        out += "none";
        return;
    }
    const std::string_view fields = view(endpoint->fields);
    if (const auto members = spans::members_of(fields.empty() ? "{}" : fields)) {
        const auto port = spans::whole_number(spans::value_of(*members, "nixl_port"));
        if (port && *port != 0 && *port <= 65535) {
            out.append(view(endpoint->address)).append(":").append(std::to_string(*port));
            return;
        }
    }
    out += view(endpoint->name);
}

}  // namespace

std::uint32_t version_number(std::string_view version) noexcept {
    if (const std::size_t space = version.rfind(' '); space != std::string_view::npos) {
        version.remove_prefix(space + 1);  // "vLLM 0.32.0"
    }
    std::array<std::uint32_t, 3> parts{};
    std::size_t read = 0;
    const char* at = version.data();
    const char* const end = at + version.size();
    for (; read < parts.size(); ++read) {
        const auto [next, error] = std::from_chars(at, end, parts[read]);
        if (error != std::errc() || parts[read] > 999) {
            break;
        }
        at = next;
        if (at == end || *at != '.') {
            ++read;
            break;
        }
        ++at;
    }
    return read < 2 ? 0 : parts[0] * 1'000'000 + parts[1] * 1'000 + parts[2];
}

bool can_split(const sluice_request& request) {
    const std::string_view path = view(request.path);
    const bool is_chat = path == "/v1/chat/completions";
    if ((!is_chat && path != "/v1/completions") || request.num_choices > 1 ||
        request.num_prompts > 1) {
        return false;
    }
    const Edits body(request.body, request.fields);
    std::size_t prompts = 0;
    for (const sluice_field& field : Rows<sluice_field>(request.fields)) {
        if (keeps_whole(body, field)) {
            return false;
        }
        if (view(field.name) == (is_chat ? "messages" : "prompt")) {
            if (++prompts > 1 || (!is_chat && !is_one_prompt(body, field))) {
                return false;
            }
        }
    }
    return prompts == 1 && !is_refused_by_decode(body);
}

std::string receipt_id(const sluice_leg& leg) {
    const bool is_prefill = leg.kind == SLUICE_LEG_PREFILL;
    const std::uint64_t request = leg.request == nullptr ? 0 : leg.request->id;
    std::string out;
    out.reserve(160);
    out += "___prefill_addr_";
    append_transfer_address(out, is_prefill ? leg.endpoint : leg.peer);
    out += "___decode_addr_";
    append_transfer_address(out, is_prefill ? leg.peer : leg.endpoint);
    out += '_';
    append_hex(out, leg.transfer_id);
    append_hex(out, XXH3_64bits_withSeed(&request, sizeof request, leg.transfer_id));
    return out;
}

void shrink(Edits& body, std::string_view path) {
    const bool is_chat = path == "/v1/chat/completions";
    body.set("max_tokens", "1");
    if (is_chat && body.has("max_completion_tokens")) {
        body.set("max_completion_tokens", "1");  // it wins over max_tokens
    }
    body.erase("min_tokens").erase("stream_options");
    if (body.has("stream")) {
        body.set("stream", "false");
    }
}

std::optional<PrefillReply> read_prefill_reply(std::string_view body) {
    auto members = spans::members_of(body);
    if (!members) {
        return std::nullopt;
    }
    PrefillReply out;
    out.members = std::move(*members);
    out.object = spans::value_of(out.members, "kv_transfer_params");
    if (out.object.starts_with('{')) {
        out.params = spans::members_of(out.object).value_or(std::vector<spans::Span>());
    }
    return out;
}

std::uint32_t cached_tokens_of(const PrefillReply& reply) {
    const auto inner = [](std::string_view object, std::string_view name) {
        const auto of = spans::members_of(object.empty() ? "{}" : object);
        return of ? spans::value_of(*of, name) : std::string_view();
    };
    const auto said =
        spans::whole_number(spans::value_of(reply.params, "remote_prefill_cached_tokens"));
    if (said) {
        return *said < SLUICE_ANY ? static_cast<std::uint32_t>(*said) : SLUICE_ANY;
    }
    const auto counted = spans::whole_number(inner(
        inner(spans::value_of(reply.members, "usage"), "prompt_tokens_details"), "cached_tokens"));
    return counted && *counted < SLUICE_ANY ? static_cast<std::uint32_t>(*counted) : SLUICE_ANY;
}

const Dialect& dialect_of(Connector connector) noexcept {
    switch (connector) {
        case Connector::Lmcache:
            return lmcache();
        case Connector::Mooncake:
            return mooncake();
        case Connector::Nixl:
            break;
    }
    return nixl();
}

}  // namespace sluice::vllm
