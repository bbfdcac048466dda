// A Scanner that finds plain words 64 bytes at a time and leaves the rest to a function.
//
// Most text is ASCII words with at most one character (a space) in front. From a block's bit masks
// such a word costs a shift and a count of zeros; anything else, and words that reach over the
// block or stop at a character over ASCII, goes to Next, which is always right. Next says
//   next(p, end)           the end of the split at p < end, as for Each
//   kPrefix                which ASCII characters may stand before a word and belong to it
//   kSplitsCase            a word goes on with lower case only, and an apostrophe may continue it
//
// Threads: any; immutable.
#pragma once
#include <bit>
#include <utility>

#include "core/tokens/scan_runs.hpp"
#include "core/tokens/scanner.hpp"

namespace sluice::tokens::scan {

// A bit for each of 64 bytes, the first in bit 0.
struct Block {
    static constexpr std::size_t kBytes = 64;

    std::uint64_t letters = 0;  // of ASCII
    std::uint64_t upper = 0;    // A to Z
    std::uint64_t not_ascii = 0;
    std::uint64_t apostrophes = 0;

    static Block at(const char* p) noexcept {
        Block block;
#if defined(__SSE2__)
        for (unsigned i = 0; i < kBytes; i += 16) {
            const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i));
            const __m128i lower = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
            const auto bits = [i](__m128i v) {
                return static_cast<std::uint64_t>(static_cast<unsigned>(_mm_movemask_epi8(v))) << i;
            };
            // Moved so that the last letter is the largest signed byte: one comparison.
            const auto is_last_26 = [](__m128i v, char last) {
                const __m128i moved = _mm_add_epi8(v, _mm_set1_epi8(static_cast<char>(127 - last)));
                return _mm_cmpgt_epi8(moved, _mm_set1_epi8(127 - 26));
            };
            block.letters |= bits(is_last_26(lower, 'z'));
            block.upper |= bits(is_last_26(bytes, 'Z'));
            block.not_ascii |= bits(bytes);
            block.apostrophes |= bits(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\'')));
        }
#else
        for (unsigned i = 0; i < kBytes; ++i) {
            const std::uint64_t bit = std::uint64_t{1} << i;
            block.letters |= ascii_of(p[i]) == Ascii::Letter ? bit : 0;
            block.upper |= p[i] >= 'A' && p[i] <= 'Z' ? bit : 0;
            block.not_ascii |= ascii_of(p[i]) == Ascii::NotAscii ? bit : 0;
            block.apostrophes |= p[i] == '\'' ? bit : 0;
        }
#endif
        return block;
    }
};

template <class Next>
class Words final : public Scanner {
public:
    std::size_t scan(const char* text, std::uint32_t& at, std::uint32_t end, Span* out,
                     std::size_t room) const override {
        const char* p = text + at;
        const char* const stop = text + end;
        std::size_t count = 0;
        const auto put = [&](const char* begin, const char* after) {
            out[count++] = {static_cast<std::uint32_t>(begin - text),
                            static_cast<std::uint32_t>(after - text)};
        };
        while (p != stop && count != room) {
            if (static_cast<std::size_t>(stop - p) < Block::kBytes) {
                const char* const begin = p;
                p = next_(p, stop);
                put(begin, p);
                continue;
            }
            const Block block = Block::at(p);
            const char* const origin = p;
            while (count != room && p < origin + Block::kBytes) {
                const auto offset = static_cast<unsigned>(p - origin);
                const unsigned length = plain_word(block, offset, *p);
                if (length == 0 && offset != 0 && reaches_over(block, offset)) {
                    break;  // a block that starts here tells more
                }
                const char* const begin = p;
                p = length != 0 ? p + length : next_(p, stop);
                put(begin, p);
            }
        }
        at = static_cast<std::uint32_t>(p - text);
        return count;
    }

private:
    // The length of the plain word at `offset` with its prefix, 0 if something else is there.
    static unsigned plain_word(const Block& block, unsigned offset, char first) noexcept {
        const std::uint64_t letters = block.letters >> offset;
        const bool has_prefix = (letters & 1U) == 0;
        const auto length = static_cast<unsigned>(std::countr_one(letters | 1U));
        const unsigned after = offset + length;
        if (after >= Block::kBytes ||
            (has_prefix && (length == 1 || !Next::kPrefix[static_cast<unsigned char>(first)])) ||
            (block.not_ascii >> after & 1U) != 0) {
            return 0;
        }
        if constexpr (Next::kSplitsCase) {
            // Capitals after the first letter, or an apostrophe that may belong to it.
            const std::uint64_t rest = (std::uint64_t{1} << length) - (has_prefix ? 4U : 2U);
            if ((block.upper >> offset & rest) != 0 || (block.apostrophes >> after & 1U) != 0) {
                return 0;
            }
        }
        return length;
    }
    // True if a word that starts at `offset` may go on after the block.
    static bool reaches_over(const Block& block, unsigned offset) noexcept {
        const std::uint64_t letters = block.letters >> offset | 1U;
        return static_cast<unsigned>(std::countr_one(letters)) + offset >= Block::kBytes;
    }

    Next next_;
};

}  // namespace sluice::tokens::scan
