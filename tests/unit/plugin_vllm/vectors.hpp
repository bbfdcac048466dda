// Golden lines of tests/vectors, and small builders for event payloads.
//
// Threads: none.
#pragma once
#include <doctest/doctest.h>
#include <simdjson.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::vllm::test {

inline std::string unhex(std::string_view hex) {
    std::string out;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
        out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
    }
    return out;
}

// Calls fn(element) for each JSON line; returns how many there were.
template <class F>
std::size_t each_line(const char* path, F&& fn) {
    std::ifstream file(path);
    REQUIRE(file.good());
    simdjson::dom::parser parser;
    std::size_t lines = 0;
    for (std::string line; std::getline(file, line);) {
        simdjson::dom::element element;
        REQUIRE(parser.parse(line).get(element) == simdjson::SUCCESS);
        fn(element);
        ++lines;
    }
    return lines;
}

inline std::string str(const simdjson::dom::element& e, const char* name) {
    std::string_view out;
    return e[name].get(out) == simdjson::SUCCESS ? std::string(out) : std::string();
}
inline bool is_null(const simdjson::dom::element& e, const char* name) {
    simdjson::dom::element v;
    return e[name].get(v) != simdjson::SUCCESS || v.is_null();
}

inline std::span<const std::uint8_t> bytes(std::string_view s) {
    return {reinterpret_cast<const std::uint8_t*>(s.data()), s.size()};
}

// A tiny MessagePack writer for payloads of tests.
class Pack {
public:
    Pack& array(std::size_t n) { return small(0x90, 0xdc, n); }
    Pack& map(std::size_t n) { return small(0x80, 0xde, n); }
    Pack& nil() { return raw("\xc0"); }
    Pack& text(std::string_view s) {
        out_ += '\xd9';
        out_ += static_cast<char>(s.size());
        return raw(s);
    }
    Pack& bin(std::string_view s) {
        out_ += '\xc4';
        out_ += static_cast<char>(s.size());
        return raw(s);
    }
    Pack& u64(std::uint64_t v) {
        out_ += '\xcf';
        for (int shift = 56; shift >= 0; shift -= 8) {
            out_ += static_cast<char>(v >> shift);
        }
        return *this;
    }
    Pack& raw(std::string_view s) {
        out_ += s;
        return *this;
    }
    std::string take() { return std::move(out_); }

private:
    Pack& small(unsigned fix, unsigned wide, std::size_t n) {
        if (n < 16) {
            out_ += static_cast<char>(fix | n);
        } else {
            out_ += static_cast<char>(wide);
            out_ += static_cast<char>(n >> 8U);
            out_ += static_cast<char>(n);
        }
        return *this;
    }
    std::string out_;
};

}  // namespace sluice::vllm::test
