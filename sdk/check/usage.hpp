// What this process holds: memory, descriptors, threads.
//
// Threads: any.
// Source:  mallinfo2(3); the sanitizers' allocator interface where one is linked in; /proc/self.
#pragma once
#include <cstddef>

namespace sluice::check {

struct Usage {
    std::size_t heap_bytes = 0, descriptors = 0, threads = 0;
};
Usage usage();

}  // namespace sluice::check
