// A vector for tables that are read at random: large ones lie on huge pages if the system has any.
//
// Threads: as std::vector.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

namespace sluice::tokens {

template <class T>
struct HugeAllocator {
    using value_type = T;
    static constexpr std::size_t kHugePage = std::size_t{2} << 20U;
    static constexpr std::size_t kSmallStep = alignof(T) > 64 ? alignof(T) : 64;

    HugeAllocator() = default;
    template <class U>
    HugeAllocator(const HugeAllocator<U>&) noexcept {}  // NOLINT: allocators convert

    T* allocate(std::size_t count) {
        const std::size_t bytes = count * sizeof(T);
        const std::size_t step = bytes < kHugePage / 16 ? kSmallStep : kHugePage;
        const std::size_t rounded = (bytes + step - 1) / step * step;
        void* const raw = std::aligned_alloc(step, rounded);
        if (raw == nullptr) {
            throw std::bad_alloc();
        }
        if (step == kHugePage) {
            (void)madvise(raw, rounded, MADV_HUGEPAGE);  // a wish only
        }
        return static_cast<T*>(raw);
    }
    void deallocate(T* p, std::size_t) noexcept { std::free(p); }

    template <class U>
    bool operator==(const HugeAllocator<U>&) const noexcept {
        return true;
    }
};

template <class T>
using HugeVector = std::vector<T, HugeAllocator<T>>;

}  // namespace sluice::tokens
