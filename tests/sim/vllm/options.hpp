// The command line of `sluice-sim vllm`: vLLM's flags where vLLM has them.
//
// Threads: any; a value.
// Errors:  parse() names the flag. Nothing is defaulted when a given value is wrong.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "tests/sim/vllm/engine.hpp"
#include "tests/sim/vllm/publisher.hpp"

namespace sluice::sim::vllm {

struct Options {
    std::string host = "127.0.0.1";
    std::uint16_t port = 8000;
    std::string model;  // tokenizer directory; empty: bytes
    std::vector<std::string> served_names;
    std::vector<Lora> loras;
    std::string api_key;
    std::string version = "0.32.0";
    std::uint32_t max_model_len = 4096;
    std::uint32_t data_parallel_size = 1;
    EngineOptions engine;
    std::string hash_algorithm = "sha256";
    EventsConfig events;
    EventEncoding encoding = EventEncoding::Map;
    HashForm hash_form = HashForm::Integer;
    std::string side_channel_host;        // empty: host
    std::uint16_t side_channel_port = 0;  // rank N at port + N; 0: any
    std::uint16_t bootstrap_port = 0;

    bool offers_discovery = true;
    bool reports_prompt_details = false;
    bool forces_usage = false;
    bool echoes_request_ids = false;
    bool tracks_load = false;
    bool is_dev_mode = false;
    bool offers_tools = false;  // --enable-auto-tool-choice and --tool-call-parser
    bool parses_reasoning = false;
};

Result<Options> parse_options(std::span<const std::string_view> args);
// The text --help prints.
std::string_view usage() noexcept;

}  // namespace sluice::sim::vllm
