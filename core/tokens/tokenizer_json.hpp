// Reads a tokenizer.json (and what matters of a tokenizer_config.json) into the parts of a
// Tokenizer.
//
// Threads: any; pure functions.
// Errors:  Code::Invalid for what is not such a file, Code::Unsupported for a component, option or
//          pattern this program does not have. The text names the field.
// Limits:  files up to kMaxFileBytes; added tokens up to kMaxAddedTokenBytes each.
// Source:  crate tokenizers 0.22.2 (serialization of each component); the six models' files.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/tokens/added_tokens.hpp"
#include "core/tokens/bpe.hpp"
#include "core/tokens/normalizer.hpp"
#include "core/tokens/pre_tokenizer.hpp"
#include "core/tokens/vocabulary.hpp"

namespace sluice::tokens {

inline constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20U;
inline constexpr std::size_t kMaxAddedTokenBytes = 1024;

struct TokenizerParts {
    Vocabulary spelled;                     // every id as the file spells it, added tokens too
    std::size_t model_vocabulary_size = 0;  // of `spelled`, without added tokens
    std::vector<AddedToken> added;
    Normalizer normalizer;
    PreTokenizer pre_tokenizer;
    Bpe::Model model;
    // What the post-processor puts around a text, with add_special_tokens.
    std::vector<TokenId> before;
    std::vector<TokenId> after;
    // bos_token and so on, by name.
    std::map<std::string, std::string> special_tokens;
};

// `config_json` is empty if there is no such file.
Result<TokenizerParts> read_tokenizer(std::string_view tokenizer_json,
                                      std::string_view config_json);

}  // namespace sluice::tokens
