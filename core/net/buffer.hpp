// Byte buffers that connections borrow while they have bytes to hold, and give back while idle.
//
// Threads: one pool a loop, its thread only.
// Limits:  the pool keeps at most kMaxKeptBufferBytes; sizes above kLargeBufferBytes are not kept.
#pragma once
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

namespace sluice::net {

inline constexpr std::size_t kSmallBufferBytes = 8192;    // requests
inline constexpr std::size_t kBufferBytes = 16384;        // responses
inline constexpr std::size_t kLargeBufferBytes = 131072;  // bulk
inline constexpr std::size_t kMaxKeptBufferBytes = std::size_t{16} << 20U;
// Parsers that read whole vectors may touch this much behind the last byte (simdjson asks for 64).
inline constexpr std::size_t kSlackBytes = 64;

class BufferPool;

// A block of capacity() + kSlackBytes bytes with size() bytes used from the front. Empty: no block.
class Buffer {
public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept
        : pool_(other.pool_),
          data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)),
          capacity_(std::exchange(other.capacity_, 0)) {}
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(pool_, other.pool_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
        return *this;
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { release(); }

    explicit operator bool() const noexcept { return data_ != nullptr; }
    char* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    std::size_t capacity() const noexcept { return capacity_; }
    std::size_t room() const noexcept { return capacity_ - size_; }
    std::string_view view() const noexcept { return {data_, size_}; }

    void resize(std::size_t size) noexcept { size_ = size; }  // size <= capacity()
    // Drops the first `n` bytes; the rest moves to the front.
    void consume(std::size_t n) noexcept;
    // Gives the block back.
    void release() noexcept;
    // Makes capacity() at least `capacity`, keeping the bytes. The block may move.
    void grow(std::size_t capacity);

private:
    friend class BufferPool;
    Buffer(BufferPool* pool, char* data, std::size_t capacity) noexcept
        : pool_(pool), data_(data), capacity_(capacity) {}

    BufferPool* pool_ = nullptr;
    char* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

class BufferPool {
public:
    BufferPool() = default;
    ~BufferPool();
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;

    // An empty buffer of at least `capacity` bytes.
    Buffer take(std::size_t capacity);
    std::size_t lent_bytes() const noexcept { return lent_bytes_; }
    std::size_t kept_bytes() const noexcept { return kept_bytes_; }

private:
    friend class Buffer;
    struct Free {
        Free* next;
    };
    static constexpr std::size_t kClasses = 5;  // 8, 16, 32, 64, 128 KiB

    char* allocate(std::size_t& capacity);
    void give_back(char* data, std::size_t capacity) noexcept;

    std::array<Free*, kClasses> free_{};
    std::size_t lent_bytes_ = 0;
    std::size_t kept_bytes_ = 0;
};

}  // namespace sluice::net
