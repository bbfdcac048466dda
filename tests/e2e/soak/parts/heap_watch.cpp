// Preloaded into a gateway: tells once a second how many bytes it has allocated and not given back.
// The memory of a process goes up and down with what its heap keeps for later; this does not.
//
//   HEAP_WATCH_FILE   where the number is written
//   HEAP_WATCH_LEAK   so many bytes are lost every second: shows that a leak of that size is seen
//
// Threads: one of its own.
#include <malloc.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

void tell(const std::string& path) {
    const struct mallinfo2 heap = mallinfo2();
    const std::string fresh = path + ".new";
    if (std::FILE* file = std::fopen(fresh.c_str(), "w"); file != nullptr) {
        (void)std::fprintf(file, "%zu\n", heap.uordblks + heap.hblkhd);
        (void)std::fclose(file);
        (void)std::rename(fresh.c_str(), path.c_str());
    }
}

void watch(const std::string& path, std::size_t leak) {
    void* lost = nullptr;  // each holds on to the one before, and nobody to the last
    while (true) {
        if (leak >= sizeof(void*)) {
            void** next = static_cast<void**>(std::malloc(leak));
            *next = lost;
            lost = next;
        }
        tell(path);
        std::this_thread::sleep_for(std::chrono::seconds(1));
    }
}

[[maybe_unused]] const bool kStarted = [] {
    const char* path = std::getenv("HEAP_WATCH_FILE");
    const char* leak = std::getenv("HEAP_WATCH_LEAK");
    if (path != nullptr) {
        // The process has its own ways with signals; they are not this thread's.
        sigset_t all;
        sigset_t before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        std::thread(watch, std::string(path), leak == nullptr ? 0 : std::strtoul(leak, nullptr, 10))
            .detach();
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    return path != nullptr;
}();

}  // namespace
