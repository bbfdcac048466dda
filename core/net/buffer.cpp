#include "core/net/buffer.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace sluice::net {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kKeep = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kKeep = false;
#else
constexpr bool kKeep = true;
#endif
#else
constexpr bool kKeep = true;
#endif

// The class of a kept size; only those have one.
std::size_t class_of(std::size_t capacity) noexcept {
    std::size_t c = 0;
    for (std::size_t size = kSmallBufferBytes; size < capacity; size *= 2) {
        ++c;
    }
    return c;
}

char* checked(void* p) {
    if (p == nullptr) {
        throw std::bad_alloc();
    }
    return static_cast<char*>(p);
}

}  // namespace

void Buffer::consume(std::size_t n) noexcept {
    size_ -= n;
    if (n != 0 && size_ != 0) {
        std::memmove(data_, data_ + n, size_);
    }
}

void Buffer::release() noexcept {
    if (data_ != nullptr) {
        pool_->give_back(data_, capacity_);
        data_ = nullptr;
    }
    size_ = capacity_ = 0;
}

void Buffer::grow(std::size_t capacity) {
    if (capacity <= capacity_) {
        return;
    }
    if (capacity_ > kLargeBufferBytes) {  // off the pool's classes on both sides
        data_ = checked(std::realloc(data_, capacity + kSlackBytes));
        pool_->lent_bytes_ += capacity - capacity_;
        capacity_ = capacity;
        return;
    }
    Buffer bigger = pool_->take(capacity);
    if (size_ != 0) {
        std::memcpy(bigger.data_, data_, size_);
    }
    bigger.size_ = size_;
    *this = std::move(bigger);
}

BufferPool::~BufferPool() {
    for (Free* head : free_) {
        while (head != nullptr) {
            Free* next = head->next;
            std::free(head);
            head = next;
        }
    }
}

Buffer BufferPool::take(std::size_t capacity) {
    char* data = allocate(capacity);
    lent_bytes_ += capacity;
    return Buffer(this, data, capacity);
}

char* BufferPool::allocate(std::size_t& capacity) {
    if (capacity > kLargeBufferBytes) {
        return checked(std::malloc(capacity + kSlackBytes));
    }
    const std::size_t c = class_of(capacity);
    capacity = kSmallBufferBytes << c;
    if (Free* head = free_[c]; head != nullptr) {
        free_[c] = head->next;
        kept_bytes_ -= capacity;
        return reinterpret_cast<char*>(head);
    }
    return checked(std::malloc(capacity + kSlackBytes));
}

void BufferPool::give_back(char* data, std::size_t capacity) noexcept {
    lent_bytes_ -= capacity;
    if (!kKeep || capacity > kLargeBufferBytes || kept_bytes_ + capacity > kMaxKeptBufferBytes) {
        std::free(data);
        return;
    }
    auto* node = reinterpret_cast<Free*>(data);
    const std::size_t c = class_of(capacity);
    node->next = free_[c];
    free_[c] = node;
    kept_bytes_ += capacity;
}

}  // namespace sluice::net
