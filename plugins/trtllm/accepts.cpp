#include "plugins/trtllm/accepts.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "plugins/trtllm/json.hpp"

namespace sluice::trtllm {

namespace {

struct Member {
    std::string_view name;
    std::uint32_t bit;
};
constexpr std::array<Member, 4> kOfHandoff{{{"disagg_request_id", kTransferId},
                                            {"schedule_style", kScheduleStyle},
                                            {"ctx_usage", kContextUsage},
                                            {"first_gen_log_probs", kFirstLogProbs}}};
constexpr std::array<Member, 2> kOfChat{
    {{"prompt_token_ids", kChatIds}, {"prompt_token_ids_b64", kChatIdsB64}}};

std::optional<json::Value> properties_of(const json::Value& root, std::string_view model) {
    std::optional<json::Value> at(root);
    for (const std::string_view name : {std::string_view("components"), std::string_view("schemas"),
                                        model, std::string_view("properties")}) {
        at = at ? json::member(*at, name) : std::nullopt;
    }
    return at;
}

template <class Members>
std::uint32_t known_of(const Members& members, const json::Value& properties) {
    std::uint32_t out = 0;
    for (const Member& m : members) {
        out |= json::member(properties, m.name) ? m.bit : 0U;
    }
    return out;
}

std::uint32_t bit_of(std::string_view name) noexcept {
    for (const Member& m : kOfHandoff) {
        if (m.name == name) {
            return m.bit;
        }
    }
    for (const Member& m : kOfChat) {
        if (m.name == name) {
            return m.bit;
        }
    }
    return 0;
}

bool is_word(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The last word of a text.
std::string_view last_word(std::string_view text) noexcept {
    while (!text.empty() && !is_word(text.back())) {
        text.remove_suffix(1);
    }
    std::size_t begin = text.size();
    while (begin > 0 && is_word(text[begin - 1])) {
        --begin;
    }
    return text.substr(begin);
}

// Of "'type': 'extra_forbidden', 'loc': ('body', 'disaggregated_params', 'NAME'), ...", in Python's
// spelling or JSON's; `text` begins behind the first word.
std::uint32_t named_by_place(std::string_view text) noexcept {
    constexpr std::size_t kNear = 24, kPlace = 256;
    const std::size_t open = text.substr(0, kNear).find_first_of("([");
    if (open == std::string_view::npos) {
        return 0;
    }
    const std::string_view place = text.substr(open, kPlace);
    const std::size_t close = place.find_first_of(")]");
    return close == std::string_view::npos ? 0 : bit_of(last_word(place.substr(0, close)));
}

// Of "disaggregated_params.NAME\n  Extra inputs are not permitted [type=...", the line break
// perhaps escaped; `text` ends before the sentence.
std::uint32_t named_by_line(std::string_view text) noexcept {
    while (text.ends_with(' ')) {
        text.remove_suffix(1);
    }
    if (text.ends_with("\\n")) {
        text.remove_suffix(2);
    } else if (text.ends_with('\n')) {
        text.remove_suffix(1);
    } else {
        return 0;
    }
    return !text.empty() && is_word(text.back()) ? bit_of(last_word(text)) : 0;
}

}  // namespace

std::optional<std::uint32_t> parse_schema(std::string_view openapi) {
    json::Document doc;
    const auto handoff =
        doc.parse(openapi) ? properties_of(doc.root(), "DisaggregatedParams") : std::nullopt;
    if (!handoff || !json::member(*handoff, "request_type")) {
        return std::nullopt;
    }
    std::uint32_t out = known_of(kOfHandoff, *handoff);
    if (const auto chat = properties_of(doc.root(), "ChatCompletionRequest")) {
        out |= known_of(kOfChat, *chat);
    }
    return out;
}

std::uint32_t accepted_by_release(std::string_view version) noexcept {
    if (const std::size_t space = version.rfind(' '); space != std::string_view::npos) {
        version.remove_prefix(space + 1);
    }
    std::array<unsigned, 3> parts{};
    const char* at = version.data();
    const char* const end = at + version.size();
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto [next, error] = std::from_chars(at, end, parts[i]);
        if (error != std::errc()) {
            return 0;
        }
        at = next;
        if (i + 1 < parts.size()) {
            if (at == end || *at != '.') {
                return 0;
            }
            ++at;
        }
    }
    const auto [major, minor, patch] = parts;
    if (major == 0) {
        return 0;
    }
    if (major == 1 && minor < 3) {
        return kChatIds;  // what 1.2 has else is not certain
    }
    std::uint32_t out = kChatIds | kTransferId | kScheduleStyle;
    // Candidates before the 24th of 1.3.0 do not know the usage.
    constexpr std::string_view kCandidate = "rc";
    const std::string_view rest(at, static_cast<std::size_t>(end - at));
    unsigned candidate = UINT32_MAX;
    if (rest.starts_with(kCandidate)) {
        candidate = 0;
        (void)std::from_chars(rest.data() + kCandidate.size(), rest.data() + rest.size(),
                              candidate);
    }
    const bool is_first = major == 1 && minor == 3 && patch == 0;
    if (!is_first || candidate >= 24) {
        out |= kContextUsage | kFirstLogProbs;
    }
    return out;
}

std::uint32_t refused_members(std::string_view refusal) noexcept {
    constexpr std::string_view kType = "extra_forbidden";
    constexpr std::string_view kSentence = "Extra inputs are not permitted";
    std::uint32_t out = 0;
    for (std::size_t at = refusal.find(kType); at != std::string_view::npos;
         at = refusal.find(kType, at + 1)) {
        out |= named_by_place(refusal.substr(at + kType.size()));
    }
    for (std::size_t at = refusal.find(kSentence); at != std::string_view::npos;
         at = refusal.find(kSentence, at + 1)) {
        out |= named_by_line(refusal.substr(0, at));
    }
    return out;
}

}  // namespace sluice::trtllm
