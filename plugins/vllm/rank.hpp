// Follows the events of one rank: subscription, replay, decoding, attestation, the host's index.
//
// Threads: event thread only.
// Errors:  reported to the host as states of the signal with a reason; none thrown.
// Owns:    its SUB and, during a replay, its DEALER socket; destroying it stops everything.
// Source:  stream.hpp for the rules, replay.hpp and sequence.hpp for the frames.
// Limits:  messages of kMaxPayloadBytes and a little; a replay round is given up kRoundSilence
// after
//          its last frame.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "plugins/vllm/attest.hpp"
#include "plugins/vllm/discovery.hpp"
#include "plugins/vllm/stream.hpp"
#include "plugins/vllm/translate.hpp"
#include "sluice/sdk.hpp"

namespace sluice::vllm {

class Rank final : private Stream::Out {
public:
    static constexpr std::uint64_t kRoundSilenceUs = 2'000'000;
    static constexpr std::uint64_t kReplayTickUs = 250'000;
    // A subscription that is not connected for so long is reported.
    static constexpr std::uint64_t kUnreachableUs = 5'000'000;

    // What a rank needs from its endpoint.
    class Owner {
    public:
        virtual ~Owner() = default;
        virtual const Host& host() const noexcept = 0;
        virtual const Settings& settings() const noexcept = 0;
        virtual std::uint64_t endpoint() const noexcept = 0;
        // The path a LoRA adapter was given to the engine under; empty = not known.
        virtual std::string lora_path(const std::string& name) const = 0;
        virtual void link_changed(bool up) = 0;
        // The size of whole blocks was learned from events, or became another.
        virtual void block_tokens_seen(std::uint32_t tokens) = 0;
    };

    Rank(Owner& owner, Feed feed);
    ~Rank() override;
    Rank(const Rank&) = delete;
    Rank& operator=(const Rank&) = delete;

    const Feed& feed() const noexcept { return feed_; }
    bool is_linked() const noexcept { return linked_; }
    // Once a second: time limits of the link.
    void tick();
    void hint_algorithm(std::string_view name) { attestor_.hint(name); }
    // The engine behind the endpoint is another process.
    void engine_changed() { stream_.engine_changed(); }

private:
    bool apply(std::uint64_t seq, Stream::Bytes payload) override;
    void forget(Loss why) override;
    void doubt(Doubt why, std::uint64_t missing) override;
    void trust(Trust why) override;
    void ask(std::uint64_t from) override;
    void replay_over() override;

    void on_message(std::span<const sluice_bytes> frames);
    void on_link(bool up);
    void on_replay(std::span<const sluice_bytes> frames);
    void replay_tick();
    void send_request();
    void attest(Translated& out);
    void check_block_size();
    void count(std::uint32_t why, std::uint64_t n);
    // Why nothing can be asked for again, with the setting to change; empty where it can.
    struct Lack {
        std::string_view reason, advice;
    };
    Lack replay_lack() const noexcept;
    void say(std::uint32_t state, std::uint32_t why, std::uint64_t n, std::string_view reason,
             std::string_view detail = {}, std::string_view advice = {});

    Owner& owner_;
    const Host& host_;
    Feed feed_;
    Stream stream_;
    Translator translator_;
    Attestor attestor_;
    ZmqSocket subscription_;
    ZmqSocket replay_;
    Timer replay_timer_;
    std::uint64_t asked_from_ = 0;
    bool request_sent_ = false;
    bool round_answered_ = false;
    std::uint64_t round_heard_us_ = 0;
    bool linked_ = false;
    bool was_linked_ = false;
    bool said_unreachable_ = false;
    std::uint64_t down_since_us_ = 0;
    bool refused_ = false;  // another block size than declared: nothing is applied
    std::uint32_t told_block_tokens_ = 0;
};

}  // namespace sluice::vllm
