#include "state/wal_check.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <fstream>
#include <vector>

namespace sluice::state {
namespace {

constexpr std::size_t kHeaderBytes = 32;
constexpr std::size_t kFrameHeaderBytes = 24;
constexpr std::uint32_t kMagic = 0x377F0682;  // + 1: checksums of big-endian words
constexpr std::uint32_t kVersion = 3'007'000;

std::uint32_t big_endian(const unsigned char* at) {
    return std::uint32_t{at[0]} << 24U | std::uint32_t{at[1]} << 16U | std::uint32_t{at[2]} << 8U |
           at[3];
}

std::uint32_t little_endian(const unsigned char* at) {
    return std::uint32_t{at[3]} << 24U | std::uint32_t{at[2]} << 16U | std::uint32_t{at[1]} << 8U |
           at[0];
}

struct Checksum {
    std::uint32_t a = 0, b = 0;
    bool operator==(const Checksum&) const = default;
};

Checksum checksum_at(const unsigned char* at) {
    return {big_endian(at), big_endian(at + 4)};
}

// `size` is a multiple of 8.
void add(Checksum& sum, const unsigned char* data, std::size_t size, bool is_big_endian) {
    const auto word = is_big_endian ? big_endian : little_endian;
    for (std::size_t i = 0; i < size; i += 8) {
        sum.a += word(data + i) + sum.b;
        sum.b += word(data + i + 4) + sum.a;
    }
}

struct Header {
    bool is_big_endian = false;
    std::size_t page_bytes = 0;
    std::array<unsigned char, 8> salts{};
    Checksum sum;
};

std::optional<Header> read_header(const std::array<unsigned char, kHeaderBytes>& bytes) {
    Header out;
    const std::uint32_t magic = big_endian(bytes.data());
    out.is_big_endian = (magic & 1U) != 0;
    out.page_bytes = big_endian(bytes.data() + 8);
    std::copy_n(bytes.begin() + 16, 8, out.salts.begin());
    add(out.sum, bytes.data(), 24, out.is_big_endian);
    const bool is_one = (magic & ~1U) == kMagic && big_endian(bytes.data() + 4) == kVersion &&
                        out.page_bytes >= 512 && out.page_bytes <= 65536 &&
                        std::has_single_bit(out.page_bytes) &&
                        out.sum == checksum_at(bytes.data() + 24);
    return is_one ? std::optional(out) : std::nullopt;
}

}  // namespace

std::optional<std::string> wal_damage(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::array<unsigned char, kHeaderBytes> head{};
    if (!in || !in.read(reinterpret_cast<char*>(head.data()), head.size())) {
        return std::nullopt;  // no log, or none that ever held a frame
    }
    if (in.peek() == std::ifstream::traits_type::eof()) {
        return std::nullopt;
    }
    const auto header = read_header(head);
    if (!header) {
        return "the header of its log is unreadable";
    }
    std::vector<unsigned char> frame(kFrameHeaderBytes + header->page_bytes);
    Checksum sum = header->sum;  // of the frame before, as it is stored
    bool has_bad = false;        // a frame that does not follow from the one before
    bool has_end_after = false;  // and the last frame behind it that did ended a transaction
    std::size_t bad_at = 0;
    for (std::size_t i = 0;
         in.read(reinterpret_cast<char*>(frame.data()), static_cast<std::streamsize>(frame.size()));
         ++i) {
        const unsigned char* bytes = frame.data();
        if (!std::equal(header->salts.begin(), header->salts.end(), bytes + 8)) {
            break;  // left over from before the log began anew
        }
        Checksum computed = sum;
        add(computed, bytes, 8, header->is_big_endian);
        add(computed, bytes + kFrameHeaderBytes, header->page_bytes, header->is_big_endian);
        sum = checksum_at(bytes + 16);
        if (computed != sum) {
            bad_at = has_bad ? bad_at : i;
            has_bad = true;
            has_end_after = false;
            continue;
        }
        if (has_bad && has_end_after) {
            return "frame " + std::to_string(bad_at) + " of its log is unreadable, and what " +
                   "follows it was acknowledged";
        }
        has_end_after = has_bad && big_endian(bytes + 4) != 0;
    }
    return std::nullopt;
}

}  // namespace sluice::state
