// sel 4: fewest unfinished requests for its weight.
//
// Threads: score on request threads, several at once; no state.
// Errors:  none. Equal scores are settled by the host on (inflight, endpoint).
#pragma once
#include <string>

#include "sluice/sdk.hpp"

namespace sluice::selectors {

class LeastConnections final : public Selector<LeastConnections> {
public:
    LeastConnections(Host, std::string_view) {}

    void score(const sluice_choice&, Rows<sluice_candidate> rows, std::span<float> out) {
        std::size_t i = 0;
        for (const sluice_candidate& row : rows) {
            // weight / (weight + inflight) orders as inflight / weight does, within 0..1.
            const double weight = row.weight;
            out[i++] = weight == 0 ? 0.0F : static_cast<float>(weight / (weight + row.inflight));
        }
    }
    std::string explain(const sluice_choice& c, std::uint32_t index) {
        const sluice_candidate& row = Rows<sluice_candidate>{c.candidates}[index];
        return std::to_string(row.inflight) + " in flight at weight " + std::to_string(row.weight);
    }
};

}  // namespace sluice::selectors
