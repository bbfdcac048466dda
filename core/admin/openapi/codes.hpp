// Every code that the management interface answers a refusal or a warning with.
//
// A code is part of the interface: programs branch on it, so it is never renamed and never means
// two things. Plugins of others bring codes of their own; those of this tree are listed here.
//
// Threads: any (static data).
// Source:  the management contract, section Errors; tests/lint/codes.py finds a code of the sources
//          that has no row here, and a row that no source uses.
#pragma once
#include <span>
#include <string_view>

namespace sluice::admin::openapi {

struct CodeRow {
    std::string_view code;
    std::string_view statuses;  // HTTP, "400 422"; empty = a warning, the request succeeds
    std::string_view about;     // a sentence
};

// Sorted by code.
std::span<const CodeRow> codes();

}  // namespace sluice::admin::openapi
