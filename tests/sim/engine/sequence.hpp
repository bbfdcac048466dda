// A request inside an engine core.
//
// Threads: the engine's lock guards all of it.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/sim/engine/engine.hpp"

namespace sluice::sim {

class Sequence {
public:
    Sequence(GenerateRequest r, Generator g, std::weak_ptr<Generation> to, std::uint64_t at_us)
        : request(std::move(r)),
          tokens(request.prompt),
          generator(std::move(g)),
          mailbox(std::move(to)),
          arrived_us(at_us) {}

    GenerateRequest request;
    std::vector<TokenId> tokens;  // prompt and what was made
    Generator generator;
    std::weak_ptr<Generation> mailbox;

    std::unique_ptr<Holding> holding;  // the cache's; empty while it holds nothing
    std::uint32_t computed = 0;        // tokens whose KV is in the blocks
    std::uint64_t fetch = 0;           // the desk's number of what another engine has for it
    bool is_scheduled_once = false;
    bool is_running = false;
    bool is_done = false;

    std::uint64_t arrived_us;
    std::uint64_t scheduled_us = 0;
    std::uint64_t first_us = 0;
    std::uint64_t last_us = 0;

    std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(tokens.size()); }
};

}  // namespace sluice::sim
