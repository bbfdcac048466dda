// What became of a change of many rules: a restore or an import.
//
// Threads: any (values).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/rules/refusal.hpp"

namespace sluice::rules {

struct BulkChange {
    enum class Kind : std::uint8_t { Created, Replaced, Deleted };
    Kind kind = Kind::Created;
    std::uint32_t number = 0;
    std::string id, name;
    std::vector<Warning> warnings;
};

struct BulkRefused {
    std::size_t index = 0;  // in the document
    std::string id, name;
    Refusal why;
};

struct Bulk {
    std::optional<Refusal> refusal;     // nothing was changed
    std::vector<BulkRefused> refused;   // the rules that are the reason
    std::vector<BulkChange> changes;    // what would be or was done
    std::size_t unchanged = 0;          // rules left alone
    std::vector<std::string> settings;  // names of those that change
    bool is_committed = false;
};

}  // namespace sluice::rules
