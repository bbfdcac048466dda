// The command line of `sluice-sim trtllm`: names of trtllm-serve's options where it has them.
//
// Threads: any; a value.
// Errors:  parse_options() names the flag. Nothing is defaulted when a given value is wrong.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "tests/sim/trtllm/drain_desk.hpp"
#include "tests/sim/trtllm/engine.hpp"

namespace sluice::sim::trtllm {

// How a context leg's answer is said to have ended.
enum class ContextFinish { Auto, Length, NotFinished, Stop };

struct Options {
    std::string host = "127.0.0.1";
    std::uint16_t port = 8000;
    std::string model;  // tokenizer directory; empty: bytes
    std::string served_name;
    std::uint32_t max_seq_len = 4096;
    EngineOptions engine;
    std::uint32_t dp_size = 1;
    std::uint32_t event_buffer = 0;
    // What /server_info says; 0: the real size. Some attention back ends force another one.
    std::uint32_t configured_tokens_per_block = 0;
    DrainDesk::Timing timing;
    bool publishes_elsewhere = false;
    bool returns_perf_metrics = false;
    bool has_iteration_stats = false;
    bool has_transceiver = true;  // takes part in context/generation pairs
    ContextFinish context_finish = ContextFinish::Auto;
    std::string disagg_auth_key;  // empty: nobody has to sign

    Era era() const noexcept { return engine.cache.era; }
};

Result<Options> parse_options(std::span<const std::string_view> args);
// The text --help prints.
std::string_view usage() noexcept;

}  // namespace sluice::sim::trtllm
