// A Scanner out of a function that finds the end of one split.
//
// `Next` is called as next(p, end) with p < end and returns the end of the split that starts at p,
// later than p. It suits every pattern whose matches leave no gap, or whose gaps are splits too.
//
// Threads: any; immutable.
#pragma once
#include <utility>

#include "core/tokens/scanner.hpp"

namespace sluice::tokens::scan {

template <class Next>
class Each final : public Scanner {
public:
    explicit Each(Next next) : next_(std::move(next)) {}

    std::size_t scan(const char* text, std::uint32_t& at, std::uint32_t end, Span* out,
                     std::size_t room) const override {
        const char* p = text + at;
        const char* const stop = text + end;
        std::size_t count = 0;
        while (p != stop && count != room) {
            const char* const split = p;
            p = next_(p, stop);
            out[count++] = {static_cast<std::uint32_t>(split - text),
                            static_cast<std::uint32_t>(p - text)};
        }
        at = static_cast<std::uint32_t>(p - text);
        return count;
    }

private:
    Next next_;
};

}  // namespace sluice::tokens::scan
