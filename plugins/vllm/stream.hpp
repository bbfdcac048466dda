// One rank's stream of batches, live and replayed, merged into one order; and what a hole, a lost
// connection or a restart means for the blocks known so far.
//
// The rules, all of them the engine's:
//   - Live batches are numbered from 0 at each engine start. A joiner has missed what came before.
//   - A replay brings the buffered batches from a number on, oldest first. It may lose some, and
//     its end marker too, so holes are asked for again until a round brings nothing new. What then
//     stays missing was never sent (its encoding failed): the blocks known before are doubtful.
//   - Live batches that come during a replay are held and merged in order.
//   - After a lost connection the engine may be another process, past our number. Asking for the
//     last batch we took proves the point: the same bytes, the same process; other bytes, or a
//     buffer that ends before it, another one: forget everything and begin at 0. A buffer that
//     begins after it no longer reaches: forget and go on from there.
//   - Without a replay socket only a smaller number tells a restart, and holes stay.
//
// Threads: none of its own; one instance per (endpoint, rank), event thread only.
// Errors:  none. Out hears of each decision, in order, from inside the call that caused it.
// Source:  vLLM 0.9 to 0.32, ZMQ publisher and replay.
// Limits:  kMaxHeldBytes and kMaxHeld batches held; beyond that the hole counts as unfillable.
//          kMaxRounds of asking in one replay.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "plugins/vllm/sequence.hpp"

namespace sluice::vllm {

enum class Doubt { Gap, Reconnect, Malformed };
enum class Loss {
    Restart,
    OutOfReach
};  // OutOfReach: the replay buffer begins after our last batch
enum class Trust { Fresh, LateJoin, Restarted, Filled };

class Stream {
public:
    using Bytes = std::span<const std::uint8_t>;
    static constexpr std::size_t kMaxHeld = 100'000;
    static constexpr std::size_t kMaxHeldBytes = 64U << 20U;
    static constexpr unsigned kMaxRounds = 64;

    class Out {
    public:
        virtual ~Out() = default;
        // False: it does not decode, or was refused; nothing of it was applied.
        virtual bool apply(std::uint64_t seq, Bytes payload) = 0;
        virtual void forget(Loss why) = 0;
        // Blocks known so far may be gone. `missing` batches are lost, 0 = not known.
        virtual void doubt(Doubt why, std::uint64_t missing) = 0;
        // What is known is right, as far as it reaches.
        virtual void trust(Trust why) = 0;
        // Ask for a replay on a new socket, so that no reply to an earlier request follows; answer
        // with replayed(), then round_over() or round_unanswered().
        virtual void ask(std::uint64_t from) = 0;
        // No replay is going on any more.
        virtual void replay_over() = 0;
    };

    Stream(Out& out, bool can_replay) noexcept : out_(out), can_replay_(can_replay) {}

    // The subscription's connection came up, or went down.
    void link_up();
    void link_down();
    void live(std::uint64_t seq, Bytes payload);
    void replayed(std::uint64_t seq, Bytes payload);
    // The end marker came, or the time limit passed after some reply.
    void round_over();
    // The time limit passed without any reply to this round.
    void round_unanswered();
    // The engine is known to be another process (told by other means): begin at 0 again.
    void engine_changed();
    // Every block of the rank was cleared by a batch just applied: earlier holes no longer matter.
    void all_cleared() noexcept { has_hole_ = false; }

    std::uint64_t next() const noexcept { return sequence_.next(); }
    bool is_replaying() const noexcept { return phase_ != Phase::Live; }
    bool is_doubtful() const noexcept { return doubtful_; }
    std::size_t held_bytes() const noexcept { return held_bytes_; }

private:
    enum class Phase {
        Live,
        FromZero,  // nothing taken yet of this engine process: the buffer may begin anywhere
        Filling,   // from the next expected number on
        Proving    // from the last one taken, to see whether it is still the same process
    };

    void take(std::uint64_t seq, Bytes payload);
    void hold(std::uint64_t seq, Bytes payload);
    void drain();
    void restart(std::uint64_t seq, Bytes payload);
    void begin(Phase phase);
    void give_up();
    void settle();
    void raise(Doubt why, std::uint64_t missing);

    Out& out_;
    bool can_replay_;
    bool linked_ = false;
    bool linked_before_ = false;
    Phase phase_ = Phase::Live;
    Sequence sequence_;
    std::map<std::uint64_t, std::vector<std::uint8_t>> held_;
    std::size_t held_bytes_ = 0;
    unsigned rounds_ = 0;
    bool progressed_ = false;  // this round brought something new
    bool has_blocks_ = false;  // a batch was applied since the last forget
    bool doubtful_ = false;
    bool has_hole_ = false;  // doubt that no replay can end
    Trust next_trust_ = Trust::Fresh;
};

}  // namespace sluice::vllm
