// The bodies of both legs, and the hand-off between them.
#include <array>
#include <charconv>
#include <vector>

#include "plugins/trtllm/accepts.hpp"
#include "plugins/trtllm/auth.hpp"
#include "plugins/trtllm/json.hpp"
#include "plugins/trtllm/pd.hpp"

namespace sluice::trtllm {

namespace {

constexpr std::string_view kObject = "disaggregated_params";
constexpr std::string_view kGeneration = "\"generation_only\"";

std::string hex(std::uint64_t n) {
    std::string out(16, '0');
    for (std::size_t i = 16; i-- > 0; n >>= 4U) {
        out[i] = "0123456789abcdef"[n & 15U];
    }
    return out;
}

std::string name_of(const sluice_endpoint* endpoint) {
    return endpoint == nullptr ? "none" : std::string(view(endpoint->name));
}

// The object with a member more; one of that name that is there already is replaced.
std::string with_member(std::string_view object, std::string_view name, std::string_view value) {
    const auto members = spans::members_of(object);
    if (!members) {
        return std::string(object);
    }
    std::string out;
    out.reserve(object.size() + name.size() + value.size() + 8);
    const char* from = object.data();
    bool is_there = false;
    for (const spans::Span& m : *members) {
        if (m.name == name) {
            out.append(from, m.value.data());
            out += value;
            from = m.value.data() + m.value.size();
            is_there = true;
        }
    }
    out.append(from, object.data() + object.size());
    if (!is_there) {
        out.insert(out.rfind('}'), (members->empty() ? "\"" : ",\"") + std::string(name) +
                                       "\":" + std::string(value));
    }
    return out;
}

}  // namespace

std::string pack(const Handoff& handoff) {
    std::string out;
    out.reserve(handoff.id.size() + handoff.params.size() + handoff.ids.size() +
                handoff.usage.size() + 96);
    for (const std::string_view part : {handoff.id, handoff.params, handoff.ids, handoff.usage}) {
        out += std::to_string(part.size()) + " ";
    }
    out += '\n';
    for (const std::string_view part : {handoff.id, handoff.params, handoff.ids, handoff.usage}) {
        out += part;
    }
    return out;
}

Handoff read_handoff(sluice_bytes bytes) {
    std::string_view rest = text(bytes);
    if (rest.empty()) {
        return {};
    }
    const auto refuse = [] {
        return Failure(SLUICE_E_INVALID, "the hand-off is not whole");
    };
    std::array<std::size_t, 4> sizes{};
    for (std::size_t& size : sizes) {
        const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
        if (error != std::errc() || end == rest.data() + rest.size() || *end != ' ') {
            throw refuse();
        }
        rest.remove_prefix(static_cast<std::size_t>(end - rest.data()) + 1);
    }
    if (!rest.starts_with('\n')) {
        throw refuse();
    }
    rest.remove_prefix(1);
    std::array<std::string_view, 4> parts;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (sizes[i] > rest.size()) {
            throw refuse();
        }
        parts[i] = rest.substr(0, sizes[i]);
        rest.remove_prefix(sizes[i]);
    }
    if (!rest.empty() || parts[1].empty()) {
        throw refuse();
    }
    return {parts[0], parts[1], parts[2], parts[3]};
}

std::string for_generation(std::string_view params) {
    return with_member(params, "request_type", kGeneration);
}

void make_context(Edits& body, std::uint64_t transfer_id, std::uint32_t accepts) {
    // Options of a stream without one are refused.
    body.erase("stream_options");
    if (body.has("stream")) {
        body.set("stream", "false");
    }
    std::string object = R"({"request_type":"context_only")";
    if ((accepts & kTransferId) != 0) {
        object += ",\"disagg_request_id\":" + std::to_string(transfer_id);
    }
    if ((accepts & kScheduleStyle) != 0) {
        object += ",\"schedule_style\":0";
    }
    body.set(kObject, object + "}");
}

void make_generation(Edits& body, std::string_view path, const Handoff& handoff,
                     std::uint32_t accepts) {
    if (handoff.params.empty()) {
        body.erase(kObject);
        return;
    }
    const bool has_usage = !handoff.usage.empty() && (accepts & kContextUsage) != 0;
    body.set(kObject, has_usage ? with_member(handoff.params, "ctx_usage", handoff.usage)
                                : std::string(handoff.params));
    if (handoff.ids.empty()) {
        return;
    }
    const bool is_b64 = handoff.ids.front() == '"';
    if (path != "/v1/chat/completions") {
        if (!is_b64) {
            body.set("prompt", std::string(handoff.ids));
        }
    } else if ((accepts & (is_b64 ? kChatIdsB64 : kChatIds)) != 0) {
        body.set(is_b64 ? "prompt_token_ids_b64" : "prompt_token_ids", std::string(handoff.ids));
    }
}

std::string receipt_id(const sluice_leg& leg) {
    const bool is_context = leg.kind == SLUICE_LEG_PREFILL;
    return "___prefill_addr_" + name_of(is_context ? leg.endpoint : leg.peer) + "___decode_addr_" +
           name_of(is_context ? leg.peer : leg.endpoint) + "_" + hex(leg.transfer_id) +
           hex(leg.request == nullptr ? 0 : leg.request->id);
}

std::string signature_of(std::string_view params, std::string_view key) {
    json::Document doc;
    if (key.empty() || !doc.parse(params)) {
        return {};
    }
    const Protected fields{json::text(json::member(doc.root(), "ctx_info_endpoint")),
                           json::text(json::member(doc.root(), "encoded_opaque_state"))};
    return sign(key, fields).value_or("");
}

}  // namespace sluice::trtllm
