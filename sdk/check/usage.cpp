#include "sdk/check/usage.hpp"

#include <dirent.h>
#include <malloc.h>

#include <memory>

extern "C" __attribute__((weak)) std::size_t __sanitizer_get_current_allocated_bytes();

namespace sluice::check {
namespace {

std::size_t entries(const char* path) {
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(path), &::closedir);
    std::size_t n = 0;
    while (dir && ::readdir(dir.get()) != nullptr) {
        ++n;
    }
    return n;
}

}  // namespace

Usage usage() {
    Usage out;
    if (&__sanitizer_get_current_allocated_bytes != nullptr) {
        out.heap_bytes = __sanitizer_get_current_allocated_bytes();
    } else {
        const struct mallinfo2 info = ::mallinfo2();
        out.heap_bytes = info.uordblks + info.hblkhd;
    }
    out.descriptors = entries("/proc/self/fd");
    out.threads = entries("/proc/self/task");
    return out;
}

}  // namespace sluice::check
