// A bounded, allocation-free reader over one MessagePack document.
//
// Values are pulled in order; a container's header is one item, its members follow. Once something
// is wrong the reader stays failed and every further item is Kind::Bad.
//
// Errors:  failed(): short input, a reserved byte, a count the rest of the input cannot hold, or
//          nesting deeper than kMaxDepth inside skip().
// Source:  MessagePack specification; encodings seen in tests/vectors/vllm_kv_events.jsonl.
// Limits:  a count is refused before anything is reserved for it: each element takes a byte.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sluice::vllm::msgpack {

enum class Kind { Bad, Nil, Bool, Integer, Float, Text, Bytes, Array, Map, Extension };

struct Item {
    Kind kind = Kind::Bad;
    bool is_negative = false;             // Integer: bits holds the two's complement
    std::uint64_t bits = 0;               // Integer: the value; Bool: 0 or 1
    double real = 0;                      // Float
    std::size_t count = 0;                // Array: elements; Map: pairs
    std::span<const std::uint8_t> bytes;  // Text, Bytes, Extension

    std::string_view text() const noexcept {
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
    // An unsigned number that fits 32 bits.
    bool is_u32() const noexcept {
        return kind == Kind::Integer && !is_negative && bits <= UINT32_MAX;
    }
};

class Reader {
public:
    static constexpr std::size_t kMaxDepth = 32;

    explicit Reader(std::span<const std::uint8_t> data) noexcept : data_(data) {}
    Item next() noexcept;
    // Passes over one whole value.
    void skip() noexcept;
    // Passes over the members of a container whose header was just read.
    void skip_members(const Item& header) noexcept;
    bool failed() const noexcept { return failed_; }
    bool at_end() const noexcept { return at_ == data_.size(); }

private:
    std::uint64_t big_endian(std::size_t bytes) noexcept;
    Item blob(Kind kind, std::uint64_t size) noexcept;
    Item container(Kind kind, std::uint64_t count) noexcept;
    Item bad() noexcept;
    void skip_values(std::uint64_t count) noexcept;

    std::span<const std::uint8_t> data_;
    std::size_t at_ = 0;
    bool failed_ = false;
};

}  // namespace sluice::vllm::msgpack
