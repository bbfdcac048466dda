// Free lists for coroutine frames: after warm-up a request allocates none.
//
// Threads: any; the lists belong to the calling thread. A frame may be freed on another thread
//          than it came from, it then joins that thread's lists.
// Limits:  frames above kMaxFrameBytes and what would exceed kMaxKeptBytes go to the heap at once.
//          With AddressSanitizer everything does, so that it sees the life of each frame.
#pragma once
#include <cstddef>

namespace sluice::net {

inline constexpr std::size_t kMaxFrameBytes = 8192;
inline constexpr std::size_t kMaxKeptBytes = std::size_t{8} << 20U;

void* allocate_frame(std::size_t size);
void free_frame(void* frame, std::size_t size) noexcept;

}  // namespace sluice::net
