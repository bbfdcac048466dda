// Prefill and decode on different engines: what all transfer dialects share, and the dialects.
//
// A dialect is a set of pure functions over one leg; nothing is kept between the calls. What decode
// must know of prefill's reply travels in the hand-off.
//
// Threads: request, several at once; immutable.
// Errors:  build functions throw Failure.
// Source:  vLLM contract, prefill/decode (live on 0.32, sources of 0.9 to 0.32); recorded exchanges
//          pd-* of tests/vectors/vllm_http/captures.jsonl.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/sdk.hpp"

namespace sluice::vllm {

enum class Connector : std::uint8_t { Nixl, Lmcache, Mooncake };

// Releases as numbers that compare: 0.11.1 is 11001; 0 = not known.
std::uint32_t version_number(std::string_view version) noexcept;

// Where a prefill engine of Mooncake is met: its bootstrap server and the engine of each rank.
struct Bootstrap {
    std::string address;  // "http://10.0.0.7:8998"
    std::map<std::uint32_t, std::string> engines;
};
std::optional<std::map<std::uint32_t, std::string>> parse_bootstrap(std::string_view body);

// What is known of the prefill engine of a leg.
struct PrefillFacts {
    std::uint32_t version = 0;       // version_number()
    std::uint32_t block_tokens = 0;  // 0 = not known
    std::uint64_t lease_us = 0;      // as the rule declares it; 0 = by version
    bool counts_holds = false;       // it says how many were read too late, or not at all
    std::optional<Bootstrap> bootstrap;
};

// A complete answer of a prefill leg, cut into its members once.
struct PrefillReply {
    std::vector<spans::Span> members;
    std::string_view object;          // of the hand-off; empty: there is none
    std::vector<spans::Span> params;  // its members; none where it is no object
};
std::optional<PrefillReply> read_prefill_reply(std::string_view body);

// Whether two legs can answer this request as one engine would.
bool can_split(const sluice_request& request);
// Both legs' X-Request-Id: the same for the whole attempt, another one for the next.
std::string receipt_id(const sluice_leg& leg);
// The client's body for one token and no stream, of the same prompt.
void shrink(Edits& body, std::string_view path);

class Dialect {
public:
    virtual ~Dialect() = default;
    virtual std::uint32_t plan_kind() const noexcept = 0;
    virtual std::uint32_t plan_flags() const noexcept { return 0; }

    // The body of a leg was given its shape; these add what the engines say to each other. They
    // return the request id of the leg.
    virtual std::string prefill(Edits& body, const sluice_leg& leg, const PrefillFacts& facts,
                                const sluice_leg_out& out) const = 0;
    virtual std::string decode(Edits& body, const sluice_leg& leg,
                               const PrefillFacts& facts) const = 0;
    // Whether a decode leg can make prefill let go of its blocks.
    virtual bool can_release() const noexcept { return false; }
    // Whether a decode leg reads blocks that one failed attempt may have used up.
    virtual bool reads_blocks(const sluice_leg& leg) const noexcept = 0;
    // A 2xx of prefill. Sets everything but cached_tokens and next; the text says why the engine's
    // hand-off is not used, empty when it is or there is none.
    virtual std::string_view prefilled(const sluice_leg& leg, const PrefillReply& reply,
                                       const PrefillFacts& facts, sluice_reply_out& out) const = 0;
};

const Dialect& dialect_of(Connector connector) noexcept;
const Dialect& nixl() noexcept;
const Dialect& lmcache() noexcept;
const Dialect& mooncake() noexcept;

// Prompt tokens a reply says were in the cache; SLUICE_ANY when it does not say.
std::uint32_t cached_tokens_of(const PrefillReply& reply);

}  // namespace sluice::vllm
