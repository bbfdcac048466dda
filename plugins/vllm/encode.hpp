// The two byte forms vLLM hashes: canonical CBOR, and pickle protocol 5 as Python writes it for
// these few kinds of value.
//
// Threads: any.
// Errors:  none; Pickle::finish() is empty when the body passes 64 KiB (Python splits the frame).
// Source:  RFC 8949 4.2.1 as cbor2 writes it; CPython's pickle; the exact preimages of
//          tests/vectors/vllm_block_hashes.jsonl.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::vllm {

class Cbor {
public:
    void nil() { out_ += '\xf6'; }
    void unsigned_integer(std::uint64_t v) { head(0, v); }
    void integer(std::int64_t v);
    void bytes(std::string_view b);
    void text(std::string_view t);
    void array(std::uint64_t elements) { head(4, elements); }
    std::string take() { return std::move(out_); }

private:
    void head(unsigned major, std::uint64_t argument);
    std::string out_;
};

class Pickle {
public:
    void nil() { body_ += '\x4e'; }
    void integer(std::int64_t v);
    void unsigned_integer(std::uint64_t v);
    // A non-negative number given big-endian, of any length.
    void big_integer(std::string_view big_endian);
    void bytes(std::string_view b);
    // `shared`: a constant of the engine's source, one object wherever it occurs.
    void text(std::string_view t, bool shared = false);
    // Around the items of a tuple; the short forms have no opening.
    void open_tuple(std::size_t items);
    void close_tuple(std::size_t items);
    std::optional<std::string> finish();

private:
    void memoize();
    void little_endian(std::uint64_t v, std::size_t bytes);
    void long_integer(std::string little_endian_magnitude, bool negative);

    struct Shared {
        std::string text;
        std::uint32_t index;
    };
    std::string body_;
    std::uint32_t memo_ = 0;
    std::vector<Shared> shared_;
};

}  // namespace sluice::vllm
