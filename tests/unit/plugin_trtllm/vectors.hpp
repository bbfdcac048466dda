// Golden lines of tests/vectors, and builders of an engine's replies.
//
// Threads: none.
#pragma once
#include <doctest/doctest.h>
#include <simdjson.h>

#include <cstdint>
#include <fstream>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/trtllm/hashing.hpp"

namespace sluice::trtllm::test {

using Json = simdjson::dom::element;

// Calls fn(element) for each JSON line; returns how many there were.
template <class F>
std::size_t each_line(const char* path, F&& fn) {
    std::ifstream file(path);
    REQUIRE(file.good());
    simdjson::dom::parser parser;
    std::size_t lines = 0;
    for (std::string line; std::getline(file, line);) {
        Json element;
        REQUIRE(parser.parse(line).get(element) == simdjson::SUCCESS);
        fn(element);
        ++lines;
    }
    return lines;
}

inline std::string str(const Json& e, const char* name) {
    std::string_view out;
    return e[name].get(out) == simdjson::SUCCESS ? std::string(out) : std::string();
}
inline bool is_null(const Json& e, const char* name) {
    Json v;
    return e[name].get(v) != simdjson::SUCCESS || v.is_null();
}
inline simdjson::dom::array list(const Json& e, const char* name) {
    simdjson::dom::array out;
    REQUIRE(e[name].get(out) == simdjson::SUCCESS);
    return out;
}
inline simdjson::dom::object object(const Json& e, const char* name) {
    simdjson::dom::object out;
    REQUIRE(e[name].get(out) == simdjson::SUCCESS);
    return out;
}
inline std::uint64_t num(const Json& e, const char* name) {
    std::uint64_t out = 0;
    REQUIRE(e[name].get(out) == simdjson::SUCCESS);
    return out;
}

// A prompt's blocks as an engine stores them.
struct Prompt {
    std::vector<std::uint32_t> tokens;
    std::vector<std::uint64_t> hashes;
    std::uint32_t block_tokens = 32;
};
inline Prompt prompt(std::uint32_t first_token, std::size_t num_tokens,
                     std::uint32_t block_tokens = 32, const V1Scope& scope = {}) {
    Prompt p;
    p.block_tokens = block_tokens;
    p.tokens.resize(num_tokens);
    std::iota(p.tokens.begin(), p.tokens.end(), first_token);
    std::uint64_t parent = 0;
    for (std::size_t at = 0; at < num_tokens; at += block_tokens) {
        const auto block = std::span<const std::uint32_t>(p.tokens).subspan(
            at, std::min<std::size_t>(block_tokens, num_tokens - at));
        parent = v1_block(parent, block, scope);
        p.hashes.push_back(parent);
    }
    return p;
}

// One event of a reply; `more` are further members of the envelope, each after a comma.
inline std::string event(std::uint64_t id, const std::string& data, const std::string& more = "") {
    return R"({"event_id":)" + std::to_string(id) + R"(,"data":)" + data +
           R"(,"window_size":4096)" + more + "}";
}
inline std::string stored(const Prompt& p, std::size_t from = 0,
                          const std::string& block_more = "") {
    std::string out = R"({"type":"stored","parent_hash":)";
    out += from == 0 ? "null" : std::to_string(p.hashes[from - 1]);
    out += R"(,"blocks":[)";
    for (std::size_t i = from; i < p.hashes.size(); ++i) {
        out += i == from ? "" : ",";
        out += R"({"type":"stored_block","block_hash":)" + std::to_string(p.hashes[i]) +
               R"(,"tokens":[)";
        const std::size_t end = std::min((i + 1) * p.block_tokens, p.tokens.size());
        for (std::size_t t = i * p.block_tokens; t < end; ++t) {
            out += t == i * p.block_tokens ? "" : ",";
            out += R"({"type":"unique_token","token_id":)" + std::to_string(p.tokens[t]) +
                   R"(,"token_extra_id":0})";
        }
        out += R"(],"cache_level":0,"priority":35,"mm_keys":[])" + block_more + "}";
    }
    return out + "]}";
}
inline std::string created() {
    return R"({"type":"created","num_blocks_per_cache_level":[1000,0]})";
}
inline std::string removed(std::uint64_t hash) {
    return R"({"type":"removed","block_hashes":[)" + std::to_string(hash) + "]}";
}
inline std::string reply(const std::vector<std::string>& events) {
    std::string out = "[";
    for (const std::string& e : events) {
        out += out.size() == 1 ? e : "," + e;
    }
    return out + "]";
}

}  // namespace sluice::trtllm::test
