// sel 0: each row in turn.
//
// Threads: pick on request threads, several at once.
// Errors:  no row may be chosen: SLUICE_PASS, the host's fallback decides.
#pragma once
#include "plugins/selectors/cursor.hpp"

namespace sluice::selectors {

class RoundRobin final : public Selector<RoundRobin> {
public:
    RoundRobin(Host, std::string_view) {}

    // The turn counts over the rows that may be chosen, so an excluded row's share goes to all
    // others alike, not to its neighbour.
    sluice_status pick(const sluice_choice& c, Rows<sluice_candidate> rows, std::uint32_t* index) {
        std::uint32_t eligible = 0;
        for (const sluice_candidate& row : rows) {
            eligible += row.excluded == 0 ? 1U : 0U;
        }
        if (eligible == 0) {
            return SLUICE_PASS;
        }
        auto skip = static_cast<std::uint32_t>(cursor_.turn(c) % eligible);
        for (std::uint32_t i = 0; i < rows.size(); ++i) {
            if (rows[i].excluded == 0 && skip-- == 0) {
                *index = i;
                return SLUICE_OK;
            }
        }
        return SLUICE_PASS;
    }

private:
    Cursor cursor_;
};

}  // namespace sluice::selectors
