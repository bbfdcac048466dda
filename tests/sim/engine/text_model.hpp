// What the simulated engine knows of language: a tokenizer, a chat template, and words to say.
//
// With a model directory the gateway's own tokenizer room encodes; decoding is done here from the
// spelling of the tokens. Without one there is a byte vocabulary: id n is byte n, five special
// tokens follow, and chats are written in ChatML.
//
// Threads: any; immutable after load().
// Errors:  load() names the file. encode() and render() refuse as core/tokens does.
// Source:  GPT-2's byte alphabet; `<0xNN>` and U+2581 of SentencePiece files.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "tests/sim/engine/token.hpp"
#include "tests/sim/support/json.hpp"

namespace sluice::sim {

class TextModel {
public:
    virtual ~TextModel() = default;

    static Result<std::unique_ptr<TextModel>> load(const std::filesystem::path& dir);
    static std::unique_ptr<TextModel> bytes();

    virtual Result<std::vector<TokenId>> encode(std::string_view text,
                                                bool add_special_tokens) const = 0;
    // The prompt of a chat request, as the chat endpoint would build it.
    virtual Result<std::string> render(const json::Value& request, std::string_view body) const = 0;
    // As the tokenizer file spells the token (`token_strs`).
    virtual std::string spelling(TokenId id) const = 0;
    virtual std::optional<TokenId> id_of(std::string_view token) const = 0;

    // The bytes a token stands for, special tokens included; empty for ids that are not used.
    std::string_view bytes_of(TokenId id) const noexcept;
    bool is_special(TokenId id) const noexcept;
    std::size_t vocabulary() const noexcept { return tokens_.size(); }
    // Ends a generation; empty when the model has no such token.
    std::optional<TokenId> eos() const noexcept { return eos_; }
    // Tokens that are whole characters and read as text.
    const std::vector<TokenId>& words() const noexcept { return words_; }

    // The text of `ids`; what is no UTF-8 becomes U+FFFD.
    std::string decode(const std::vector<TokenId>& ids, bool skips_special = true) const;

protected:
    struct Token {
        std::string bytes;
        bool is_special = false;  // not shown in decoded text
        bool is_added = false;    // not made by merges, and nothing a model says by chance
    };
    // Fills words_; call when tokens_ is complete.
    void collect_words();

    std::vector<Token> tokens_;
    std::optional<TokenId> eos_;

private:
    std::vector<TokenId> words_;
};

// Turns tokens into text one at a time, holding back unfinished characters.
class Detokenizer {
public:
    explicit Detokenizer(const TextModel& model) : model_(&model) {}
    // The text that became complete with this token.
    std::string push(TokenId id);

private:
    const TextModel* model_;
    std::string pending_;
};

}  // namespace sluice::sim
