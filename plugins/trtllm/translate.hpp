// One endpoint's drains in the host's terms: per rank an order, a pool, and what may be matched.
//
// Handed on are whole blocks of the base model's plain text, in the pool that is followed. A
// partial tail, a salted block, one with extra ids, media, a content digest or a foreign hash is
// left out: what hangs on it finds no parent at the host and matches nothing either.
//
// A hole in a rank's numbers, or a smaller number, means that its blocks are in doubt: they are
// dropped at that event, and the event itself applies. There is nothing to fetch.
//
// Threads: none of its own; one instance per endpoint, event thread.
// Errors:  none. What cannot be used is left out and told.
// Units:   block sizes in tokens.
// Source:  trtllm-serve 0.21 to 1.3, KV events; tests/vectors/trtllm_kv_events.jsonl.
// Limits:  kMaxRanks ranks are followed; events of others are counted.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plugins/trtllm/events.hpp"
#include "plugins/trtllm/pool.hpp"
#include "plugins/trtllm/sequence.hpp"
#include "sluice/sdk.hpp"

namespace sluice::trtllm {

inline constexpr std::uint32_t kMaxRanks = 64;
inline constexpr std::uint32_t kDefaultBlockTokens = 32;

// Why a block was left out, in this order where several hold.
enum class LeftOut {
    ForeignHashAlgo,
    OtherWindow,
    OtherLayerGroup,
    BlockSizeMismatch,
    Partial,
    Salted,
    Multimodal,
    ExtraId,
    DigestToken,
    Adapter,      // names an adapter
    ForeignHash,  // its hash is not that of its tokens: an adapter, a hidden salt
    UnknownLevel
};
std::string_view name_of(LeftOut why) noexcept;

struct NotIndexed {
    std::uint32_t rank = 0;
    std::size_t event = 0, block = 0;  // places in the drain
    LeftOut why = LeftOut::Partial;
};

// Events of one rank to apply in order. Its hashes and tokens are borrowed from the drain.
struct Step {
    enum class Reset { None, Gap, Regression, OtherPool } reset = Reset::None;  // before the events
    std::uint32_t rank = 0;
    std::uint64_t expected = 0, got = 0;  // with Gap and Regression
    std::uint64_t last_id = 0;
    std::vector<sluice_kv_event> events;
};

struct LateJoin {
    std::uint32_t rank = 0;
    std::uint64_t id = 0;
};

struct Translated {
    std::vector<Step> steps;
    std::vector<NotIndexed> not_indexed;
    std::vector<LateJoin> late_joins;
    std::uint64_t indexed = 0;       // blocks
    std::uint64_t unknown_type = 0;  // events
    std::uint64_t other_ranks = 0;   // events beyond kMaxRanks
    std::uint32_t highest_rank = 0;
    std::optional<std::string> foreign_algo;  // another than admitted
    bool is_oversize = false;                 // a lone block was larger than whole ones should be
};

class Translator {
public:
    struct Options {
        std::uint32_t block_tokens = kDefaultBlockTokens;
        HashAlgo algo = HashAlgo::V1BlockKey;
        bool checks_hashes = true;
    };

    explicit Translator(Options options) : options_(options) {}

    // The result borrows from `drained`.
    Translated translate(const Drained& drained);

    // The size of whole blocks, where an event of several shows it: all but its last are whole.
    static std::optional<std::uint32_t> shown_block_tokens(const Drained& drained);

    void set_block_tokens(std::uint32_t tokens) noexcept { options_.block_tokens = tokens; }
    const Options& options() const noexcept { return options_; }
    // A drain was lost: nobody knows what it held.
    void lost() noexcept;
    // Another engine process.
    void forget() noexcept { ranks_.clear(); }

    // A rank as it stood before, for tests.
    void resume(std::uint32_t rank, std::optional<std::uint64_t> next) {
        ranks_[rank].sequence.continue_at(next);
    }
    void follow(std::uint32_t rank, std::uint64_t window, std::uint32_t group) {
        ranks_[rank].pool.follow(window, group);
    }
    std::optional<std::uint64_t> next(std::uint32_t rank) const;

private:
    struct Rank {
        Sequence sequence;
        PoolChoice pool;
        bool has_host = false, has_disk = false;  // blocks were seen there
    };

    void event(std::size_t at, const Event& e, Translated& out);
    void stored(std::size_t at, const Event& e, Rank& rank, Step& step, Translated& out);
    std::optional<LeftOut> reason(const Event& e, std::size_t block, Translated& out) const;
    static void removed(const Event& e, const Rank& rank, Step& step);
    static void updated(const Event& e, Rank& rank, Step& step);

    Options options_;
    std::map<std::uint32_t, Rank> ranks_;
};

}  // namespace sluice::trtllm
