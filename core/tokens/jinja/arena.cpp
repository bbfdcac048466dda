#include "core/tokens/jinja/arena.hpp"

#include <algorithm>

namespace sluice::tokens {

void* Arena::slow(std::size_t bytes) {
    // Chunks double, so a large prompt costs few of them; the rest of the old one is given up.
    const std::size_t size = std::max(bytes, chunk_);
    if (size > limit_ || used_ > limit_ - size) {
        exceeded_ = true;
        if (bytes > kSoft) {
            return nullptr;
        }
    }
    const std::size_t take = exceeded_ ? std::max(bytes, kSoft) : size;
    chunks_.push_back(std::unique_ptr<char[]>(new char[take]));
    used_ += take;
    chunk_ = std::min(chunk_ * 2, std::size_t{4} << 20U);
    next_ = chunks_.back().get();
    end_ = next_ + take;
    char* at = next_;
    next_ += bytes;
    return at;
}

}  // namespace sluice::tokens
