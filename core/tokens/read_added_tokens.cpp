#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <utility>

#include "core/tokens/tokenizer_json_parts.hpp"

namespace sluice::tokens::file {
namespace {

// A token as the file describes it, without an id.
Result<AddedToken> token_of(element value) {
    AddedToken token;
    const auto content = text_of(value, "content");
    if (!content) {
        return content.error();
    }
    if (content->size() > kMaxAddedTokenBytes) {
        return Error{Code::Limit,
                     "an added token is over " + std::to_string(kMaxAddedTokenBytes) + " bytes"};
    }
    token.content = *content;
    const std::array<std::pair<std::string_view, bool AddedToken::*>, 4> flags = {
        {{"single_word", &AddedToken::is_single_word},
         {"lstrip", &AddedToken::strips_left},
         {"rstrip", &AddedToken::strips_right},
         {"special", &AddedToken::is_special}}};
    for (const auto& [name, field] : flags) {
        const auto flag = flag_of(value, name, false);
        if (!flag) {
            return flag.error();
        }
        token.*field = *flag;
    }
    // The reference's default: special tokens are sought in the raw text, others after it is
    // normalized.
    const auto normalized = flag_of(value, "normalized", !token.is_special);
    if (!normalized) {
        return normalized.error();
    }
    token.is_normalized = *normalized;
    return token;
}

// Gives the token the id its text has in the vocabulary, else the next free one, as the reference
// does; what the file says of ids is not asked. A token known by content gets the new flags.
Status add(AddedToken token, TokenizerParts& out) {
    if (token.content.empty()) {
        return {};
    }
    const TokenId known = out.spelled.find(token.content);
    if (known != kNoToken) {
        token.id = known;
        const auto same = std::find_if(out.added.begin(), out.added.end(),
                                       [known](const AddedToken& t) { return t.id == known; });
        if (same != out.added.end()) {
            *same = std::move(token);
            return {};
        }
    } else {
        const auto model_size = static_cast<TokenId>(out.model_vocabulary_size);
        TokenId highest = 0;
        for (const AddedToken& other : out.added) {
            highest = std::max(highest, other.id + 1);
        }
        token.id = std::max(model_size, highest);
        if (Status status = out.spelled.add(token.content, token.id); !status) {
            return status;
        }
    }
    out.added.push_back(std::move(token));
    return {};
}

// {"151643": {"content": ..., flags}, ...}, in order of the numbers.
Status read_decoder(element value, TokenizerParts& out) {
    simdjson::dom::object entries;
    if (value.is_null()) {
        return {};
    }
    if (value.get(entries) != simdjson::SUCCESS) {
        return invalid("added_tokens_decoder must be an object");
    }
    std::map<TokenId, AddedToken> tokens;
    for (const auto [key, item] : entries) {
        TokenId id = 0;
        const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
        if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size()) {
            return invalid("added_tokens_decoder has a key that is no number");
        }
        auto token = token_of(item);
        if (!token) {
            return std::move(token).error().at("added_tokens_decoder");
        }
        tokens.insert_or_assign(id, std::move(*token));
    }
    for (auto& entry : tokens) {
        if (Status status = add(std::move(entry.second), out); !status) {
            return status;
        }
    }
    return {};
}

// The text of a special token written as a string or as an object; empty if it is neither.
std::string_view content_of(element value) {
    std::string_view text;
    if (value.is_object()) {
        value = member(value, "content");
    }
    return value.get(text) == simdjson::SUCCESS ? text : std::string_view();
}

Status add_if_missing(std::string_view content, TokenizerParts& out) {
    if (content.size() > kMaxAddedTokenBytes) {
        return Error{Code::Limit,
                     "a special token is over " + std::to_string(kMaxAddedTokenBytes) + " bytes"};
    }
    const bool is_there =
        std::any_of(out.added.begin(), out.added.end(),
                    [content](const AddedToken& token) { return token.content == content; });
    if (content.empty() || is_there) {
        return {};
    }
    AddedToken token;
    token.content = content;
    token.is_special = true;
    return add(std::move(token), out);
}

// The text with integers of more digits than the parser takes written as floats. Files have them
// (a model_max_length of 10^30) where nothing reads them.
std::string with_long_integers_as_floats(std::string_view json) {
    constexpr std::size_t kSafeDigits = 18;
    const auto is_digit = [](char c) {
        return c >= '0' && c <= '9';
    };
    std::string out;
    out.reserve(json.size() + 16);
    bool is_in_string = false;
    for (std::size_t i = 0; i < json.size();) {
        if (!is_in_string && is_digit(json[i])) {
            std::size_t stop = i;
            while (stop < json.size() && is_digit(json[stop])) {
                ++stop;
            }
            const char before = i == 0 ? ' ' : json[i - 1];
            const char after = stop == json.size() ? ' ' : json[stop];
            const bool is_integer = before != '.' && before != 'e' && before != 'E' &&
                                    before != '+' && after != '.' && after != 'e' && after != 'E';
            out.append(json.substr(i, stop - i));
            if (is_integer && stop - i > kSafeDigits) {
                out += "e0";
            }
            i = stop;
            continue;
        }
        if (json[i] == '"') {
            is_in_string = !is_in_string;
        } else if (is_in_string && json[i] == '\\' && i + 1 < json.size()) {
            out += json[i++];
        }
        out += json[i++];
    }
    return out;
}

}  // namespace

Status read_added_tokens(element value, TokenizerParts& out) {
    out.model_vocabulary_size = out.spelled.size();
    simdjson::dom::array tokens;
    if (value.is_null()) {
        return {};
    }
    if (value.get(tokens) != simdjson::SUCCESS) {
        return invalid("must be an array");
    }
    out.added.reserve(tokens.size());
    for (const element item : tokens) {
        auto token = token_of(item);
        if (!token) {
            return std::move(token).error();
        }
        if (Status status = add(std::move(*token), out); !status) {
            return status;
        }
    }
    return {};
}

Status read_config(std::string_view config_json, TokenizerParts& out) {
    simdjson::dom::parser parser;
    simdjson::dom::object members;
    element root;
    if (const auto error = parser.parse(with_long_integers_as_floats(config_json)).get(root)) {
        return invalid(simdjson::error_message(error));
    }
    if (root.get(members) != simdjson::SUCCESS) {
        return invalid("it is no object");
    }
    if (Status status = read_decoder(member(root, "added_tokens_decoder"), out); !status) {
        return status;
    }
    for (const auto [name, value] : members) {
        if (name.ends_with("_token")) {
            if (const auto content = content_of(value); !content.empty()) {
                out.special_tokens.emplace(name, content);
            }
        }
    }
    // transformers adds these where the file lacks them.
    for (const std::string_view name : {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"}) {
        if (Status status = add_if_missing(content_of(member(root, name)), out); !status) {
            return status.error().at(name);
        }
    }
    simdjson::dom::array more;
    if (member(root, "additional_special_tokens").get(more) == simdjson::SUCCESS) {
        for (const element value : more) {
            if (Status status = add_if_missing(content_of(value), out); !status) {
                return status.error().at("additional_special_tokens");
            }
        }
    }
    return {};
}

}  // namespace sluice::tokens::file
