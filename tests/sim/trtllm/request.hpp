// From a request body to running generations: what completions and chat do alike.
//
// Threads: the connection's.
// Errors:  the first refusal in the server's order.
// Source:  contract sections 1.5, 3.2, 4.2; trtllm-serve's post-processing of mid-2025 to main.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tests/sim/engine/run.hpp"
#include "tests/sim/trtllm/api_error.hpp"
#include "tests/sim/trtllm/disagg.hpp"
#include "tests/sim/trtllm/fields.hpp"
#include "tests/sim/trtllm/service.hpp"

namespace sluice::sim::trtllm {

struct Prompt {
    std::vector<TokenId> ids;
    std::string text;
    std::vector<MediaItem> media;
};

struct Params {
    Sampling sampling;
    bool streams = false;
    bool includes_usage = false;
    bool has_continuous_usage = false;
    bool echoes = false;
    std::uint32_t choices = 1;
    std::optional<std::uint32_t> max_tokens;
    std::optional<std::string> salt;
    const Lora* lora = nullptr;
    std::string model;  // as asked for: it comes back in the reply
    std::optional<Disagg> disagg;
};

std::variant<Params, ApiError> read_params(Service& s, const http::Request& request,
                                           const json::Value& body);
// How many tokens may follow a prompt of that length.
std::variant<std::uint32_t, ApiError> room(const Service& s, const Params& p,
                                           std::size_t prompt_tokens);

struct Usage {
    std::uint64_t prompt = 0;
    std::uint64_t completion = 0;
    std::optional<std::uint64_t> cached;
};
void write_usage(json::Writer& w, const Usage& u);

// Runs the prompts, each as often as p.choices says; `answer` gets the run when it has begun.
void start(Service& s, const http::Request& request, http::Exchange& exchange, const Params& p,
           const std::vector<Prompt>& prompts, const std::function<void(Run&)>& answer);
// The tokens of every prompt that were cached; empty in builds that do not tell.
std::optional<std::uint64_t> cached_tokens(const Service& s, const Params& p, const Run& run);

// An id of a whole reply, and of the chunks of a stream.
std::string reply_id(std::string_view prefix);

class ChunkIds {
public:
    ChunkIds(Service& s, std::string_view prefix);
    // The same for every chunk, or a new one each, as the build does it.
    std::string next() const;

private:
    std::string prefix_;
    std::string steady_;
};

}  // namespace sluice::sim::trtllm
