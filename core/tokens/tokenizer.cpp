#include "core/tokens/tokenizer.hpp"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <system_error>

#include "core/tokens/added_tokens.hpp"
#include "core/tokens/bpe.hpp"
#include "core/tokens/id_sink.hpp"
#include "core/tokens/segment_cache.hpp"
#include "core/tokens/tokenizer_json.hpp"
#include "core/tokens/unicode.hpp"
#include "core/tokens/word_cache.hpp"

namespace sluice::tokens {
namespace {

// Below this the words are found one by one faster than the segment under its lock.
constexpr std::size_t kMinCachedSegmentBytes = 32;
// The word mark of models that have no pre-tokenizer.
constexpr std::string_view kWordMark = "\u2581";

// An empty text if there is no such file and `may_be_absent`.
Result<std::string> read_file(const std::filesystem::path& path, bool may_be_absent) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (error) {
        if (may_be_absent && error == std::errc::no_such_file_or_directory) {
            return std::string();
        }
        return Error{Code::Io, path.string() + ": " + error.message()};
    }
    if (size > kMaxFileBytes) {
        return Error{Code::Limit,
                     path.string() + ": over " + std::to_string(kMaxFileBytes) + " bytes"};
    }
    std::string text(size, '\0');
    std::ifstream in(path, std::ios::binary);
    if (!in.read(text.data(), static_cast<std::streamsize>(size))) {
        return Error{Code::Io, path.string() + ": cannot be read"};
    }
    return text;
}

// Where text stops being UTF-8, for the error message.
std::size_t invalid_offset(std::string_view text) {
    std::size_t good = 0;
    while (good < text.size()) {
        const std::size_t length = unicode::length_of(static_cast<unsigned char>(text[good]));
        const std::string_view one = text.substr(good, length);
        if (one.size() != length || !simdjson::validate_utf8(one.data(), one.size())) {
            break;
        }
        good += length;
    }
    return good;
}

std::vector<AddedToken> pick(const TokenizerParts& parts, bool is_normalized) {
    std::vector<AddedToken> out;
    std::string buffer;
    for (const AddedToken& token : parts.added) {
        if (token.is_normalized == is_normalized) {
            out.push_back(token);
            if (is_normalized) {
                // Sought in normalized text, so it is brought to the same form.
                out.back().content = parts.normalizer.apply(token.content, buffer);
            }
        }
    }
    return out;
}

PreTokenizer with_word_cuts(PreTokenizer pre_tokenizer, const Bpe& bpe, bool is_byte_level) {
    if (!is_byte_level && pre_tokenizer.stages() < PreTokenizer::kMaxStages &&
        bpe.may_cut_before(kWordMark)) {
        PreTokenizer::Stage stage;
        stage.scanner = make_mark_scanner(kWordMark, false);
        pre_tokenizer.add(std::move(stage));
    }
    return pre_tokenizer;
}

// Words worth a large entry. Without spaces a "word" of Chinese or Japanese is a clause, and hardly
// one comes twice.
bool may_recur(std::string_view word) noexcept {
    const auto lead = static_cast<unsigned char>(word[word.size() - 3]);
    return word.size() <= WordCache::kLargeBytes && (lead < 0xE3 || lead > 0xE9);
}

}  // namespace

struct Tokenizer::Impl {
    Impl(TokenizerParts parts, const Options& options)
        : raw_tokens(pick(parts, false)),
          normalized_tokens(pick(parts, true)),
          normalizer(std::move(parts.normalizer)),
          is_byte_level(parts.model.is_byte_level),
          bpe(std::move(parts.model)),
          pre_tokenizer(with_word_cuts(std::move(parts.pre_tokenizer), bpe, is_byte_level)),
          before(std::move(parts.before)),
          after(std::move(parts.after)),
          spelled(std::move(parts.spelled)),
          special_tokens(std::move(parts.special_tokens)),
          depends_on_start(pre_tokenizer.depends_on_start()),
          words(options.word_cache_bytes),
          segments(options.segment_cache_bytes) {
        for (TokenId id = 0; id < bpe.id_end(); ++id) {
            if (const std::string_view split = bpe.split_of(id); !split.empty()) {
                words.put_if_free(split, id);
            }
        }
        for (TokenId id = 0; id < spelled.id_end(); ++id) {
            max_token_chars = std::max(max_token_chars, unicode::count_chars(spelled.at(id)));
        }
    }

    bool encode_text(std::string_view text, IdSink& out, EncodeStats& stats) const;
    bool encode_segment(std::string_view segment, bool is_at_start, IdSink& out,
                        EncodeStats& stats) const;
    bool encode_raw(std::string_view segment, bool is_at_start, IdSink& out) const;
    bool encode_piece(std::string_view piece, bool is_at_start, IdSink& out) const;
    void encode_words(const char* text, std::size_t size, const Span* spans, std::size_t count,
                      IdSink& out) const;

    AddedTokens raw_tokens;
    AddedTokens normalized_tokens;
    Normalizer normalizer;
    bool is_byte_level;
    Bpe bpe;
    PreTokenizer pre_tokenizer;
    std::vector<TokenId> before;
    std::vector<TokenId> after;
    Vocabulary spelled;
    std::map<std::string, std::string> special_tokens;
    bool depends_on_start;
    std::size_t max_token_chars = 0;
    mutable WordCache words;        // synchronised inside
    mutable SegmentCache segments;  // synchronised inside
};

// Cuts at added tokens of the raw text.
bool Tokenizer::Impl::encode_text(std::string_view text, IdSink& out, EncodeStats& stats) const {
    AddedTokens::Cursor cursor(raw_tokens, text);
    AddedTokens::Match match{};
    std::size_t at = 0;
    while (cursor.next(match)) {
        if (at < match.begin &&
            !encode_segment(text.substr(at, match.begin - at), at == 0, out, stats)) {
            return false;
        }
        out.push(match.id);
        at = match.end;
    }
    return at == text.size() || encode_segment(text.substr(at), at == 0, out, stats);
}

bool Tokenizer::Impl::encode_segment(std::string_view segment, bool is_at_start, IdSink& out,
                                     EncodeStats& stats) const {
    ++stats.segments;
    if (segment.size() < kMinCachedSegmentBytes || !segments.accepts(segment.size())) {
        return encode_raw(segment, is_at_start, out);
    }
    const std::uint64_t salt = depends_on_start && is_at_start ? 1 : 0;
    const std::uint64_t key = SegmentCache::key_of(segment, salt);
    if (const SegmentCache::Ids ids = segments.find(key, segment, salt)) {
        ++stats.cached_segments;
        out.append(ids->data(), ids->size());
        return true;
    }
    const std::size_t first = out.size();
    if (!encode_raw(segment, is_at_start, out)) {
        return false;
    }
    segments.put(key, segment, salt, out.at(first), out.size() - first);
    return true;
}

// Normalizes, then cuts at added tokens of the normalized text.
bool Tokenizer::Impl::encode_raw(std::string_view segment, bool is_at_start, IdSink& out) const {
    std::string buffer;
    const std::string_view text = normalizer.apply(segment, buffer);
    AddedTokens::Cursor cursor(normalized_tokens, text);
    AddedTokens::Match match{};
    std::size_t at = 0;
    while (cursor.next(match)) {
        if (at < match.begin &&
            !encode_piece(text.substr(at, match.begin - at), is_at_start && at == 0, out)) {
            return false;
        }
        out.push(match.id);
        at = match.end;
    }
    return at == text.size() || encode_piece(text.substr(at), is_at_start && at == 0, out);
}

bool Tokenizer::Impl::encode_piece(std::string_view piece, bool is_at_start, IdSink& out) const {
    return pre_tokenizer.run(
        piece, is_at_start,
        [&](const char* text, std::size_t size, const Span* spans, std::size_t count) {
            encode_words(text, size, spans, count, out);
        });
}

// Twice over the batch: first to ask for the words' places in the cache, then to use them.
void Tokenizer::Impl::encode_words(const char* text, std::size_t size, const Span* spans,
                                   std::size_t count, IdSink& out) const {
    std::array<WordCache::SmallKey, PreTokenizer::kBatch> keys;
    std::array<std::uint64_t, PreTokenizer::kBatch> hashes;
    for (std::size_t i = 0; i < count; ++i) {
        const char* const p = text + spans[i].begin;
        const std::uint32_t length = spans[i].end - spans[i].begin;
        if (length <= WordCache::kSmallBytes) {
            keys[i] = WordCache::small_key(p, length, size - spans[i].begin);
            hashes[i] = WordCache::hash_of(keys[i]);
            words.prefetch_small(hashes[i]);
        } else if (may_recur({p, length})) {
            hashes[i] = WordCache::hash_of(std::string_view(p, length));
            words.prefetch_large(hashes[i]);
        }
    }
    for (std::size_t i = 0; i < count; ++i) {
        const std::string_view word(text + spans[i].begin, spans[i].end - spans[i].begin);
        const std::size_t first = out.size();
        if (word.size() <= WordCache::kSmallBytes) {
            TokenId* const ids = out.room(WordCache::kSmallIds);
            if (const std::size_t found = words.find(keys[i], hashes[i], ids); found != 0) {
                out.commit(found);
                continue;
            }
            bpe.encode(word, out);
            words.put(keys[i], hashes[i], out.at(first), out.size() - first);
        } else if (may_recur(word)) {
            TokenId* const ids = out.room(WordCache::kLargeIds);
            if (const std::size_t found = words.find(word, hashes[i], ids); found != 0) {
                out.commit(found);
                continue;
            }
            bpe.encode(word, out);
            words.put(word, hashes[i], out.at(first), out.size() - first);
        } else {
            bpe.encode(word, out);
        }
    }
}

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(
    const std::filesystem::path& tokenizer_json,
    const std::filesystem::path& tokenizer_config_json) {
    return load(tokenizer_json, tokenizer_config_json, Options{});
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(
    const std::filesystem::path& tokenizer_json, const std::filesystem::path& tokenizer_config_json,
    const Options& options) {
    auto file = read_file(tokenizer_json, false);
    if (!file) {
        return std::move(file).error();
    }
    auto config = read_file(tokenizer_config_json, true);
    if (!config) {
        return std::move(config).error();
    }
    auto parsed = parse(*file, *config, options);
    if (!parsed) {
        return std::move(parsed).error().at(tokenizer_json.parent_path().string());
    }
    return parsed;
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::parse(std::string_view tokenizer_json,
                                                          std::string_view config_json,
                                                          const Options& options) {
    auto parts = read_tokenizer(tokenizer_json, config_json);
    if (!parts) {
        return std::move(parts).error();
    }
    return std::shared_ptr<const Tokenizer>(
        new Tokenizer(std::make_unique<const Impl>(std::move(*parts), options)));
}

Status Tokenizer::encode(std::string_view utf8, bool add_special_tokens, std::vector<TokenId>& out,
                         EncodeStats* stats) const {
    if (utf8.size() > kMaxTextBytes) {
        return Error{Code::Limit, "text is over " + std::to_string(kMaxTextBytes) + " bytes"};
    }
    if (!simdjson::validate_utf8(utf8.data(), utf8.size())) {
        return Error{Code::Invalid,
                     "text is not UTF-8 at byte " + std::to_string(invalid_offset(utf8))};
    }
    const std::size_t had = out.size();
    IdSink sink(out);
    EncodeStats found;
    if (add_special_tokens) {
        sink.append(impl_->before.data(), impl_->before.size());
    }
    if (!impl_->encode_text(utf8, sink, found)) {
        sink.finish(had);
        return Error{Code::Limit, "the pre-tokenizer's pattern gave up on this text"};
    }
    if (add_special_tokens) {
        sink.append(impl_->after.data(), impl_->after.size());
    }
    sink.finish();
    if (stats != nullptr) {
        stats->segments += found.segments;
        stats->cached_segments += found.cached_segments;
    }
    return {};
}

const std::map<std::string, std::string>& Tokenizer::special_tokens() const noexcept {
    return impl_->special_tokens;
}

std::optional<TokenId> Tokenizer::id_of(std::string_view token) const {
    const TokenId id = impl_->spelled.find(token);
    return id == kNoToken ? std::nullopt : std::optional(id);
}

std::string_view Tokenizer::token_of(TokenId id) const noexcept {
    return impl_->spelled.at(id);
}
std::size_t Tokenizer::vocab_size() const noexcept {
    return impl_->spelled.size();
}
std::size_t Tokenizer::max_token_chars() const noexcept {
    return impl_->max_token_chars;
}

Tokenizer::CacheUse Tokenizer::cache_use() const {
    const SegmentCache::Use segments = impl_->segments.use();
    return {segments.entries, segments.bytes, impl_->words.entries(), impl_->words.bytes()};
}

}  // namespace sluice::tokens
