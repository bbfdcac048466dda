// Follows one endpoint's events: drains, one at a time, and hands them to the host.
//
// Threads: event thread.
// Errors:  none. A reply that is lost empties what is known of the endpoint; a call that brings no
//          reply changes nothing, the next number decides.
// Owns:    its timer and its one call; a call cut short is noted for whoever follows
// (abandoned.hpp). Source:  trtllm-serve 0.21 to 1.3, POST /kv_cache_events. Limits:  bodies by
// pace.hpp.
#pragma once
#include <cstdint>
#include <string>

#include "plugins/trtllm/attest.hpp"
#include "plugins/trtllm/gaps.hpp"
#include "plugins/trtllm/pace.hpp"
#include "plugins/trtllm/signal.hpp"
#include "plugins/trtllm/translate.hpp"
#include "sluice/sdk.hpp"

namespace sluice::trtllm {

class Feed {
public:
    static constexpr std::uint64_t kLostAfterUs = 3'000'000;

    class Owner {
    public:
        virtual ~Owner() = default;
        // A call ended, with or without a reply. Before anything of the reply is used.
        virtual void call_ended(const sluice_http_result& result) = 0;
        // Blocks hold another number of tokens than admitted. False: not to be followed any more.
        virtual bool block_tokens_shown(std::uint32_t tokens) = 0;
        virtual void algo_shown(const std::string& name) = 0;
        virtual void size_is_odd() = 0;  // without showing what it is
        virtual void ranks_seen(std::uint32_t count) = 0;
        virtual void restarted() = 0;
        // Requests were answered since this engine process is followed.
        virtual bool has_served() const = 0;
    };

    Feed(Owner& owner, const Host& host, Signal& signal, std::uint64_t endpoint,
         std::string base_url);
    ~Feed();
    Feed(const Feed&) = delete;
    Feed& operator=(const Feed&) = delete;

    void start(std::uint32_t block_tokens);
    void stop();
    bool is_running() const noexcept { return is_running_; }
    // The host has emptied what it knew of the endpoint.
    void engine_changed();
    // Whether the drain in flight takes too long, to be asked now and then.
    void look();

    std::uint64_t answered() const noexcept { return answered_; }  // drains
    // Since this engine process is followed.
    bool has_events() const noexcept { return has_events_; }

private:
    void wait(std::uint64_t delay_us);
    void drain();
    void on_reply(const sluice_http_result& r);
    void failed(const sluice_http_result& r);
    void lost(std::string_view why);
    Pace::Outcome take(std::string_view body);
    bool settle_block_tokens(const Drained& drained);
    void apply(const Translated& out, std::size_t length);
    void read_again();
    void apply_step(const Step& step, std::size_t length);
    void count(const Translated& out);

    Owner& owner_;
    const Host& host_;
    Signal& signal_;
    std::uint64_t endpoint_;
    std::string base_url_;
    Pace pace_;
    Translator translator_;
    GapJudge gaps_;
    Attestor attestor_;
    bool is_running_ = false;
    bool has_events_ = false;
    bool reply_was_lost_ = false;  // events may be missing, and it is known why
    std::uint64_t answered_ = 0;
    std::uint64_t begun_us_ = 0;
    std::uint64_t failing_since_us_ = 0;  // 0 = the last drain was answered
    std::uint32_t ranks_ = 1;
    unsigned calm_ = 0;      // drains since the last restart
    unsigned losses_ = 0;    // replies that were lost, until enough others were read
    unsigned readable_ = 0;  // drains since the last of them

    // Last members, so that callbacks end before what they touch.
    HttpCall call_;
    Timer timer_;
};

}  // namespace sluice::trtllm
