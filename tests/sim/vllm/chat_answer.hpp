// The answer to a chat request, as one JSON object or as a stream of chunks.
//
// Threads: the connection's.
// Source:  captures chat-*, b-chat-*.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/engine/run.hpp"
#include "tests/sim/vllm/params.hpp"
#include "tests/sim/vllm/service.hpp"
#include "tests/sim/vllm/shapes.hpp"
#include "tests/sim/vllm/tools.hpp"

namespace sluice::sim::vllm {

class ChatAnswer {
public:
    struct Setup {
        Params params;
        ToolChoice tools = ToolChoice::None;
        std::string model;
        std::vector<TokenId> prompt;
        std::string echoed;        // shown before the generated text
        bool is_thinking = false;  // text belongs to `reasoning` until </think>
    };

    ChatAnswer(Service& s, Setup setup);
    void answer(Run& run);
    void stream(Run& run, http::Exchange& exchange);

private:
    struct Choice {
        std::string text;
        std::string reasoning;
        std::string pending;  // may be the beginning of </think>
        std::vector<TokenId> ids;
        std::optional<Finish> finish;
        bool is_thinking = false;
        std::uint64_t reasoning_tokens = 0;
        ToolStream tools;
    };
    struct Split {
        std::string reasoning;
        std::string text;
    };
    // One delta of a chunk; nothing set is the empty object.
    struct Delta {
        std::optional<std::string> text;
        std::optional<std::string> reasoning;
        std::optional<ToolDelta> tool;
    };

    Split add(Choice& c, const Step& step);
    std::vector<Delta> deltas(Choice& c, const Split& split) const;
    std::string finish_word(const Choice& c) const;
    Usage usage(const Run& run) const;

    void begin(json::Writer& w, std::string_view object) const;
    std::string role_chunk(std::size_t index) const;
    std::string delta_chunk(std::size_t index, const Choice& c, const Delta& d, const Step& step,
                            bool is_last, bool has_tokens) const;
    std::string usage_chunk(const Run& run) const;
    void write_delta(json::Writer& w, const Delta& d) const;
    void write_chunk_usage(json::Writer& w, std::size_t completion) const;
    void write_logprobs(json::Writer& w, const std::vector<TokenId>& ids) const;
    void write_message(json::Writer& w, const Choice& c) const;
    std::string plain(const Run& run) const;

    Service& service_;
    Setup setup_;
    const Params& p_;
    std::uint64_t created_;
    std::vector<Choice> choices_;
};

}  // namespace sluice::sim::vllm
