// The service tables of a ScriptedHost.
//
// Threads: any (static tables).
#pragma once

namespace sluice::check {

// Null for an id that no gateway knows.
const void* scripted_service(const char* id) noexcept;

}  // namespace sluice::check
