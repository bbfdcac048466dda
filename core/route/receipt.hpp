// What was decided about one request and what came of it; the answer to "why did it go there".
//
// Never in it: prompt text, token ids, header values, keys.
//
// Threads: one owner while the request runs, then the flow ring. Views point into constants or into
//          what `keep` holds (the Names of a Service).
// Units:   *_us microseconds; started_us since the epoch, the others relative to it.
// Source:  the receipt of the management contract; to_json() is its shape.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::route {

enum class Api : std::uint8_t { Chat, Completions, Responses, Messages, Embeddings, Other };
std::string_view to_string(Api api) noexcept;

enum class Tier : std::uint8_t { None, Session, Prefix, KvExact, Selector, Rescue };
std::string_view to_string(Tier tier) noexcept;

enum class Outcome : std::uint8_t { Ok, ClientClosed, Refused, UpstreamError, Timeout, Truncated };
std::string_view to_string(Outcome outcome) noexcept;

enum class LegKind : std::uint8_t { Whole, Prefill, Decode };
std::string_view to_string(LegKind kind) noexcept;

struct LegRecord {
    LegKind kind = LegKind::Whole;
    std::uint32_t attempt = 1;
    std::string_view endpoint;
    std::uint32_t rank = UINT32_MAX;  // UINT32_MAX = the engine's choice
    Tier tier = Tier::None;
    std::uint32_t matched_blocks = 0;
    std::uint64_t queued_us = 0;  // how long it waited for a place
    std::uint64_t connect_us = 0;
    std::uint64_t first_byte_us = 0;
    std::uint64_t done_us = 0;
    std::uint16_t status = 0;  // 0 = no head came
    std::uint64_t bytes = 0;   // of the body, towards the client
    std::string_view verdict;  // relayed | connect_failed | stale_connection | busy | ...
};

struct CandidateRecord {
    LegKind leg = LegKind::Whole;
    std::string_view endpoint;
    std::string_view excluded;  // empty = eligible; down | draining | full | over_bound | ...
    std::uint32_t matched_blocks = 0;
    std::uint32_t inflight = 0;
    std::uint32_t running = 0;
    std::uint32_t waiting = 0;
    float score = 0;
};

struct MissRecord {
    Tier tier = Tier::None;
    std::string_view reason;
};

struct Receipt {
    static constexpr std::int64_t kUnknown = -1;
    static constexpr std::size_t kMaxCandidates = 64;  // of a large pool the first ones

    std::string id;
    std::uint64_t started_us = 0;
    std::string client;  // address without port
    std::string_view rule;
    std::uint32_t rule_number = 0;
    std::string model;
    Api api = Api::Other;
    bool is_stream = false;
    std::uint32_t prompt_tokens = 0;  // 0 = not tokenized
    std::uint32_t blocks = 0;         // of the prompt that an engine could reuse
    std::vector<LegRecord> legs;
    std::vector<CandidateRecord> candidates;
    std::vector<MissRecord> misses;
    std::uint64_t tokenize_us = 0;
    std::uint32_t cached_segments = 0;
    std::int64_t predicted_cached = kUnknown;  // tokens
    std::int64_t reported_cached = kUnknown;   // tokens, from the engine's usage
    Outcome outcome = Outcome::Ok;
    std::string_view error_code;
    std::shared_ptr<const void> keep;  // owns what the views point to

    // Empties it for the next request and keeps the memory.
    void reset();
    std::string to_json() const;
};

}  // namespace sluice::route
