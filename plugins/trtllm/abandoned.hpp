// Drains whose connection was closed before the engine answered, by base URL.
//
// The engine may go on with such a drain for seconds, and a second one beside it would take events
// from it. So whoever follows the same engine next, another instance of a changed rule maybe, waits
// until the engine must have ended it.
//
// Threads: event thread; all instances of the plugin share one.
// Errors:  none.
// Limits:  a note lasts a few minutes at most; those that are over are dropped with each new one.
#pragma once
#include <cstdint>
#include <string>

namespace sluice::trtllm {

void note_abandoned(const std::string& base_url, std::uint64_t until_us, std::uint64_t now_us);
// 0: nothing to wait for.
std::uint64_t wait_for_abandoned_us(const std::string& base_url, std::uint64_t now_us);

}  // namespace sluice::trtllm
