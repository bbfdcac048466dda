// What a simulated model says next, and when it stops.
//
// The next token is a hash of all tokens so far, so equal prompts give equal text on every engine,
// and a prompt that ends inside a generation is continued as that generation was.
//
// Threads: none of its own; values.
// Limits:  text is kept for one generation, bounded by the context length.
// Source:  stop texts, stop tokens and the text held back for them: vLLM 0.32's detokenizer,
//          captures comp-stop-*, comp-eos*, comp-min-tokens.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tests/sim/engine/text_model.hpp"

namespace sluice::sim {

struct Sampling {
    std::uint32_t max_tokens = 16;
    std::uint32_t min_tokens = 0;
    bool ignores_eos = false;
    std::vector<TokenId> stop_ids;
    std::vector<std::string> stop;
    bool includes_stop = false;
    // A logit_bias so large that nothing else is chosen.
    std::optional<TokenId> forced;
    // Tokens said first, before the end of the sequence (structured output, tool calls).
    std::vector<TokenId> script;
    // Tokens said first, whatever the model would say; the answer goes on after them.
    std::vector<TokenId> given;
    // Makes choices of one prompt differ; 0 for the first.
    std::uint64_t variant = 0;
};

enum class FinishReason { Stop, Length, Abort, Error };
std::string_view to_string(FinishReason r) noexcept;

struct Finish {
    FinishReason reason = FinishReason::Stop;
    // The stop text or token that was met; nothing for the end of the sequence.
    std::variant<std::monostate, std::string, TokenId> stop;
};

// One token as it reaches the client.
struct Step {
    TokenId token = 0;
    std::string text;  // what may be shown now; later text may have been held back
    std::optional<Finish> finish;
    bool is_fatal = false;  // with FinishReason::Error: the engine ends
};

// The state a model is in: of all tokens so far, in order.
std::uint64_t start_state(std::uint64_t seed) noexcept;
std::uint64_t next_state(std::uint64_t state, TokenId token) noexcept;

class Generator {
public:
    // `eos_after` fixes the length of an unbounded answer; 0 draws it from the prompt.
    Generator(const TextModel& model, Sampling sampling, const std::vector<TokenId>& prompt,
              std::uint64_t seed, std::uint32_t eos_after);

    // What the model has read, where that is more than its tokens (see kv_content.hpp).
    void set_state(std::uint64_t read) noexcept { state_ = read; }
    Step next();
    std::uint32_t made() const noexcept { return made_; }
    const Sampling& sampling() const noexcept { return sampling_; }

private:
    std::uint64_t view() const noexcept;
    TokenId choose();
    bool ends_with(TokenId token, Step& step);
    // Looks for stop texts in what was added last; cuts there.
    std::optional<std::string> find_stop(std::size_t from);
    std::string release(bool is_last);

    const TextModel* model_;
    Sampling sampling_;
    Detokenizer detokenizer_;
    std::uint64_t state_;
    std::uint32_t eos_at_;
    std::uint32_t made_ = 0;
    std::string text_;
    std::size_t shown_ = 0;      // bytes of text_ already released
    std::size_t held_back_ = 0;  // characters
};

}  // namespace sluice::sim
