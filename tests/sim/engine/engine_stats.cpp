#include "tests/sim/engine/engine_stats.hpp"

#include <algorithm>

namespace sluice::sim {
namespace {

const std::vector<double> kTokens{1, 2, 5, 10, 20, 50, 100, 200, 500};
const std::vector<double> kIteration{1,   8,    16,   32,   64,   128,  256,
                                     512, 1024, 2048, 4096, 8192, 16384};
const std::vector<double> kFirstToken{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                      0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                      20,    40,    80,   160,  640,  2560};
const std::vector<double> kInterToken{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                      0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
const std::vector<double> kRequest{0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                   30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};

}  // namespace

Distribution::Distribution(const std::vector<double>& upper)
    : bounds(&upper), counts(upper.size() + 1) {}

void Distribution::add(double v) {
    const auto at = std::lower_bound(bounds->begin(), bounds->end(), v) - bounds->begin();
    ++counts[static_cast<std::size_t>(at)];
    ++count;
    sum += v;
}

EngineStats::EngineStats()
    : request_prompt_tokens(kTokens),
      request_generation_tokens(kTokens),
      iteration_tokens(kIteration),
      first_token_s(kFirstToken),
      inter_token_s(kInterToken),
      e2e_s(kRequest),
      queue_s(kRequest),
      prefill_s(kRequest),
      decode_s(kRequest) {}

}  // namespace sluice::sim
