// The schema, version by version.
//
// Threads: the opener's.
// Errors:  Unsupported for a file of a newer version, which is left untouched.
#pragma once
#include <cstdint>

#include "core/base/result.hpp"
#include "state/db.hpp"

namespace sluice::state {

// "SLUI": says in the file's header whose it is.
inline constexpr std::uint32_t kApplicationId = 0x534C5549;
// PRAGMA user_version of what this program writes.
std::uint32_t schema_version() noexcept;

// Whether the file is ours (or empty) and not newer than this program. Reads only.
Status check_version(Db& db);
// Each step in its own transaction; a file half way is completed at the next open.
Status migrate(Db& db);

}  // namespace sluice::state
