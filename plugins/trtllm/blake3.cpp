#include "plugins/trtllm/blake3.hpp"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

namespace sluice::trtllm {

namespace {

using Words = std::array<std::uint32_t, 16>;
using Chain = std::array<std::uint32_t, 8>;

constexpr Chain kStart{0x6A09E667U, 0xBB67AE85U, 0x3C6EF372U, 0xA54FF53AU,
                       0x510E527FU, 0x9B05688CU, 0x1F83D9ABU, 0x5BE0CD19U};
constexpr std::array<std::size_t, 16> kPermutation{2, 6,  3,  10, 7, 0,  4,  13,
                                                   1, 11, 12, 5,  9, 14, 15, 8};
constexpr std::size_t kBlockBytes = 64;
constexpr std::size_t kChunkBytes = 1024;
constexpr std::uint32_t kChunkStart = 1, kChunkEnd = 2, kParent = 4, kRoot = 8;

void mix(Words& v, std::size_t a, std::size_t b, std::size_t c, std::size_t d, std::uint32_t x,
         std::uint32_t y) noexcept {
    v[a] += v[b] + x;
    v[d] = std::rotr(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = std::rotr(v[b] ^ v[c], 12);
    v[a] += v[b] + y;
    v[d] = std::rotr(v[d] ^ v[a], 8);
    v[c] += v[d];
    v[b] = std::rotr(v[b] ^ v[c], 7);
}

Chain compress(const Chain& chain, Words message, std::uint64_t counter, std::size_t length,
               std::uint32_t flags) noexcept {
    Words v{};
    std::copy(chain.begin(), chain.end(), v.begin());
    std::copy_n(kStart.begin(), 4, v.begin() + 8);
    v[12] = static_cast<std::uint32_t>(counter);
    v[13] = static_cast<std::uint32_t>(counter >> 32U);
    v[14] = static_cast<std::uint32_t>(length);
    v[15] = flags;
    for (int round = 0; round < 7; ++round) {
        for (std::size_t i = 0; i < 4; ++i) {  // columns
            mix(v, i, i + 4, i + 8, i + 12, message[2 * i], message[2 * i + 1]);
        }
        for (std::size_t i = 0; i < 4; ++i) {  // diagonals
            mix(v, i, (i + 1) % 4 + 4, (i + 2) % 4 + 8, (i + 3) % 4 + 12, message[2 * i + 8],
                message[2 * i + 9]);
        }
        Words next{};
        for (std::size_t i = 0; i < 16; ++i) {
            next[i] = message[kPermutation[i]];
        }
        message = next;
    }
    Chain out{};
    for (std::size_t i = 0; i < 8; ++i) {
        out[i] = v[i] ^ v[i + 8];
    }
    return out;
}

Words words_of(std::string_view block) noexcept {
    Words out{};
    for (std::size_t i = 0; i < block.size(); ++i) {
        out[i / 4] |= std::uint32_t{static_cast<std::uint8_t>(block[i])} << (8U * (i % 4));
    }
    return out;
}

Chain chunk(std::string_view text, std::uint64_t counter, std::uint32_t root) noexcept {
    Chain chain = kStart;
    std::uint32_t flags = kChunkStart;
    while (text.size() > kBlockBytes) {
        chain = compress(chain, words_of(text.substr(0, kBlockBytes)), counter, kBlockBytes, flags);
        text.remove_prefix(kBlockBytes);
        flags = 0;
    }
    return compress(chain, words_of(text), counter, text.size(), flags | kChunkEnd | root);
}

Chain parent(const Chain& left, const Chain& right, std::uint32_t root) noexcept {
    Words both{};
    std::copy(left.begin(), left.end(), both.begin());
    std::copy(right.begin(), right.end(), both.begin() + 8);
    return compress(kStart, both, 0, kBlockBytes, kParent | root);
}

}  // namespace

std::array<std::uint8_t, 32> blake3(std::string_view text) {
    // The left subtrees that wait for their right half, largest first, with their chunks counted.
    std::vector<std::pair<Chain, std::uint64_t>> waiting;
    std::uint64_t counter = 0;
    while (text.size() > kChunkBytes) {
        Chain node = chunk(text.substr(0, kChunkBytes), counter++, 0);
        std::uint64_t chunks = 1;
        while (!waiting.empty() && waiting.back().second == chunks) {
            node = parent(waiting.back().first, node, 0);
            waiting.pop_back();
            chunks *= 2;
        }
        waiting.emplace_back(node, chunks);
        text.remove_prefix(kChunkBytes);
    }
    Chain node = chunk(text, counter, waiting.empty() ? kRoot : 0);
    while (!waiting.empty()) {
        const Chain left = waiting.back().first;
        waiting.pop_back();
        node = parent(left, node, waiting.empty() ? kRoot : 0);
    }
    std::array<std::uint8_t, 32> out{};
    for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = static_cast<std::uint8_t>(node[i / 4] >> (8U * (i % 4)));
    }
    return out;
}

}  // namespace sluice::trtllm
