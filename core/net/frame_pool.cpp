#include "core/net/frame_pool.hpp"

#include <cstdlib>
#include <new>

namespace sluice::net {
namespace {

constexpr std::size_t kGrain = 64;
constexpr std::size_t kClasses = kMaxFrameBytes / kGrain + 1;
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

struct Node {
    Node* next;
};

struct Lists {
    Node* free[kClasses];
    std::size_t kept_bytes;
    bool closed;  // the thread is ending
};

constinit thread_local Lists lists{};

struct Janitor {
    bool awake = false;
    ~Janitor() {
        lists.closed = true;
        for (Node*& head : lists.free) {
            while (head != nullptr) {
                Node* next = head->next;
                std::free(head);
                head = next;
            }
        }
    }
};

void* from_heap(std::size_t bytes) {
    static thread_local Janitor janitor;
    janitor.awake = true;  // so that it exists, and empties the lists when the thread ends
    void* p = std::malloc(bytes);
    if (p == nullptr) {
        throw std::bad_alloc();
    }
    return p;
}

constexpr std::size_t class_of(std::size_t size) noexcept {
    return (size + kGrain - 1) / kGrain;
}

}  // namespace

void* allocate_frame(std::size_t size) {
    if (size > kMaxFrameBytes) {
        return from_heap(size);
    }
    const std::size_t c = class_of(size);
    if (Node* node = lists.free[c]; node != nullptr) {
        lists.free[c] = node->next;
        lists.kept_bytes -= c * kGrain;
        return node;
    }
    return from_heap(c * kGrain);
}

void free_frame(void* frame, std::size_t size) noexcept {
    const std::size_t c = class_of(size);
    if (!kKeep || size > kMaxFrameBytes || lists.closed ||
        lists.kept_bytes + c * kGrain > kMaxKeptBytes) {
        std::free(frame);
        return;
    }
    auto* node = static_cast<Node*>(frame);
    node->next = lists.free[c];
    lists.free[c] = node;
    lists.kept_bytes += c * kGrain;
}

}  // namespace sluice::net
