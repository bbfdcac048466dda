// The readers behind tokenizer_json.hpp, one a section of the file, and what they share.
//
// Threads: any; pure functions.
// Errors:  as tokenizer_json.hpp.
#pragma once
#include <simdjson.h>

#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "core/tokens/tokenizer_json.hpp"

namespace sluice::tokens::file {

using simdjson::dom::element;

// The member, or a null element if it is absent.
element member(element object, std::string_view name) noexcept;
inline bool has(element object, std::string_view name) noexcept {
    return !member(object, name).is_null();
}

Result<std::string_view> text_of(element object, std::string_view name);
// `otherwise` if absent or null; an error if it is of another type.
Result<bool> flag_of(element object, std::string_view name, bool otherwise);
Result<TokenId> id_of(element value);

inline Error unsupported(std::string what) {
    return {Code::Unsupported, std::move(what)};
}
inline Error invalid(std::string what) {
    return {Code::Invalid, std::move(what)};
}

Status read_normalizer(element value, Normalizer& out);
// Sets `is_byte_level` if a ByteLevel ends the sequence.
Status read_pre_tokenizer(element value, PreTokenizer& out, bool& is_byte_level);
Status read_post_processor(element value, TokenizerParts& out);
// Vocabulary, merges and options; `out.model.is_byte_level` is set before.
Status read_model(element value, TokenizerParts& out);
// added_tokens of tokenizer.json; after read_model.
Status read_added_tokens(element value, TokenizerParts& out);
// Named special tokens and what transformers adds to or changes in the file's added tokens.
Status read_config(std::string_view config_json, TokenizerParts& out);

}  // namespace sluice::tokens::file
