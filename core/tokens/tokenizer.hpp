// Text to token ids, as the reference core does it for a Hugging Face tokenizer.json.
//
// encode() cuts the text at added tokens, normalizes each segment, splits it with the file's
// pre-tokenizer, merges each split by rank and applies the post-processor. Segments and splits are
// memoised by content, so a long conversation costs its new turn.
//
// Threads: any. One instance is shared by all; the caches inside are sharded and locked briefly.
// Errors:  load() refuses, by name, every component it does not know: an unknown normalizer that is
//          skipped would give wrong ids silently. encode() refuses text that is not UTF-8
//          (Code::Invalid, with the byte offset) and text over kMaxTextBytes (Code::Limit); `out`
//          is then as it was.
// Units:   ids are positions in the model's vocabulary; sizes are bytes unless named chars.
// Limits:  memory is the vocabulary plus Options::segment_cache_bytes plus
// Options::word_cache_bytes,
//          whatever is encoded. One encode() holds working memory in proportion to its longest
//          segment. At most one id a byte of normalized text comes out, plus special tokens.
// Source:  crate tokenizers 0.22.2; tests/vectors/tokens/*.jsonl.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/tokens/token_id.hpp"

namespace sluice::tokens {

// What one encode() found; counters are added to, not reset.
struct EncodeStats {
    std::size_t segments = 0;         // pieces of text between added tokens
    std::size_t cached_segments = 0;  // of those, answered from the segment cache
};

class Tokenizer {
public:
    static constexpr std::size_t kMaxTextBytes = std::size_t{256} << 20U;

    struct Options {
        std::size_t segment_cache_bytes = std::size_t{64} << 20U;
        std::size_t word_cache_bytes = std::size_t{32} << 20U;
    };

    // How full the caches are. `*_bytes` never pass the bounds in Options.
    struct CacheUse {
        std::size_t segment_entries = 0;
        std::size_t segment_bytes = 0;
        std::size_t word_entries = 0;
        std::size_t word_bytes = 0;
    };

    // Reads both files. `tokenizer_config_json` may be absent on disk: then there are no named
    // special tokens but the file's own.
    static Result<std::shared_ptr<const Tokenizer>> load(
        const std::filesystem::path& tokenizer_json,
        const std::filesystem::path& tokenizer_config_json);
    static Result<std::shared_ptr<const Tokenizer>> load(
        const std::filesystem::path& tokenizer_json,
        const std::filesystem::path& tokenizer_config_json, const Options& options);

    // The same from text already in memory; an empty `config_json` means there is none.
    static Result<std::shared_ptr<const Tokenizer>> parse(std::string_view tokenizer_json,
                                                          std::string_view config_json,
                                                          const Options& options);

    ~Tokenizer();
    Tokenizer(const Tokenizer&) = delete;
    Tokenizer& operator=(const Tokenizer&) = delete;

    // Appends the ids of `utf8` to `out`. No I/O. Special-token text in `utf8` becomes the special
    // token. `add_special_tokens` applies the file's post-processor (BOS and the like).
    Status encode(std::string_view utf8, bool add_special_tokens, std::vector<TokenId>& out,
                  EncodeStats* stats = nullptr) const;

    // bos_token, eos_token, ... of tokenizer_config.json, for chat templates. A token written as an
    // object is given by its content; one that is null is absent.
    const std::map<std::string, std::string>& special_tokens() const noexcept;

    // The id of a vocabulary entry or added token as the file spells it (byte-level files spell a
    // space as U+0120); empty if there is none.
    std::optional<TokenId> id_of(std::string_view token) const;
    // The spelling of an id in the file; empty for an id that is not used.
    std::string_view token_of(TokenId id) const noexcept;

    // Entries of the vocabulary with the added tokens.
    std::size_t vocab_size() const noexcept;
    // Characters of the longest entry: a text of more than n times this cannot fit n tokens.
    std::size_t max_token_chars() const noexcept;

    CacheUse cache_use() const;

private:
    struct Impl;
    explicit Tokenizer(std::unique_ptr<const Impl> impl) noexcept;
    std::unique_ptr<const Impl> impl_;
};

}  // namespace sluice::tokens
