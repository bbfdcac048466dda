// Appends ids to a vector in bursts, without a capacity check an id.
//
// Threads: one.
// Owns:    nothing; finish() trims the vector to what was written.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/tokens/token_id.hpp"

namespace sluice::tokens {

class IdSink {
public:
    explicit IdSink(std::vector<TokenId>& out) : out_(out), used_(out.size()) {}

    // Room for at least `n` ids at the end; written ones count after commit().
    TokenId* room(std::size_t n) {
        if (out_.size() - used_ < n) {
            out_.resize(used_ + std::max(n, used_ / 2 + 256));
        }
        return out_.data() + used_;
    }
    void commit(std::size_t n) noexcept { used_ += n; }
    void push(TokenId id) {
        *room(1) = id;
        commit(1);
    }
    void append(const TokenId* ids, std::size_t n) {
        std::copy_n(ids, n, room(n));
        commit(n);
    }

    std::size_t size() const noexcept { return used_; }
    const TokenId* at(std::size_t i) const noexcept { return out_.data() + i; }
    void finish(std::size_t keep) { out_.resize(keep); }
    void finish() { out_.resize(used_); }

private:
    std::vector<TokenId>& out_;
    std::size_t used_;
};

}  // namespace sluice::tokens
