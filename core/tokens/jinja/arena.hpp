// Memory of one rendering: handed out in order, freed as a whole.
//
// Values in it are trivially destructible and immutable once shared, so nothing is counted.
//
// Threads: one arena, one thread.
// Limits:  `limit` bytes. Past it exceeded() is true: requests of more than kSoft bytes then give
//          nullptr, smaller ones still succeed, so that only large ones need a check at the call.
#pragma once
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace sluice::tokens {

class Arena {
public:
    static constexpr std::size_t kSoft = 4096;

    explicit Arena(std::size_t limit) : limit_(limit) {}
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    // 8-byte aligned; nullptr only for more than kSoft bytes past the limit.
    void* allocate(std::size_t bytes) {
        const std::size_t rounded = (bytes + 7U) & ~std::size_t{7};
        char* at = aligned(next_);
        if (at == nullptr || static_cast<std::size_t>(end_ - at) < rounded) {
            return slow(rounded);
        }
        next_ = at + rounded;
        return at;
    }
    template <class T>
    T* array(std::size_t n) {
        static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= 8);
        return static_cast<T*>(allocate(n * sizeof(T)));
    }
    template <class T>
    T* make() {
        static_assert(sizeof(T) <= kSoft);
        return new (allocate(sizeof(T))) T();
    }
    // Unaligned room for text.
    char* text(std::size_t bytes) {
        if (static_cast<std::size_t>(end_ - next_) < bytes) {
            return static_cast<char*>(slow((bytes + 7U) & ~std::size_t{7}));
        }
        char* at = next_;
        next_ += bytes;
        return at;
    }
    // Makes text that was the last thing handed out longer in place; false if it was not the last
    // or there is no room.
    bool extend(const char* text_end, std::size_t bytes) {
        if (text_end != next_ || static_cast<std::size_t>(end_ - next_) < bytes) {
            return false;
        }
        next_ += bytes;
        return true;
    }

    bool exceeded() const noexcept { return exceeded_; }
    std::size_t used() const noexcept { return used_; }

private:
    static char* aligned(char* at) {
        return reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(at) + 7U) &
                                       ~std::uintptr_t{7});
    }
    void* slow(std::size_t bytes);

    std::size_t limit_;
    std::size_t used_ = 0;  // bytes of all chunks
    std::size_t chunk_ = 16384;
    char* next_ = nullptr;
    char* end_ = nullptr;
    bool exceeded_ = false;
    std::vector<std::unique_ptr<char[]>> chunks_;
};

}  // namespace sluice::tokens
