#include "tests/sim/trtllm/hash.hpp"

#include <doctest/doctest.h>

#include <charconv>
#include <fstream>

#include "tests/sim/support/json.hpp"
#include "tests/sim/trtllm/block_key.hpp"

using namespace sluice::sim;
using namespace sluice::sim::trtllm;

namespace {

Digest digest_of(std::string_view hex_text) {
    Digest out{};
    for (std::size_t i = 0; i < out.size(); ++i) {
        std::from_chars(hex_text.data() + 2 * i, hex_text.data() + 2 * i + 2, out[i], 16);
    }
    return out;
}

std::optional<std::uint64_t> number_of(const json::Value* v) {
    if (v == nullptr || v->text() == nullptr) {
        return std::nullopt;
    }
    std::uint64_t out = 0;
    std::from_chars(v->text()->data(), v->text()->data() + v->text()->size(), out);
    return out;
}

// A salt that the engine's own library hashes has no number on the line.
std::optional<std::uint64_t> salt_of(const json::Value& line) {
    return line.text_of("salt_derivation") == "libstdcxx_string_hash"
               ? std::optional(salt_id(line.text_of("cache_salt"), SaltDerivation::LibraryHash))
               : number_of(line.get("cache_salt_id"));
}

std::vector<Element> elements_of(const json::Value& line) {
    std::vector<Element> out;
    for (const json::Value& t : *line.get("prompt_token_ids")->array()) {
        if (t.text() != nullptr) {
            out.emplace_back(digest_of(*t.text()));
        } else {
            out.emplace_back(static_cast<TokenId>(*t.integer()));
        }
    }
    if (line.text_of("token_rule") == "prompt_minus_last") {
        out.pop_back();
    }
    return out;
}

std::vector<MmKey> keys_of(const json::Value& line, std::size_t block) {
    std::vector<MmKey> out;
    const json::Value* all = line.get("mm_keys_per_block");
    if (all == nullptr || block >= all->array()->size()) {
        return out;
    }
    for (const json::Value& k : *(*all->array())[block].array()) {
        out.push_back({digest_of(k.text_of("hash")),
                       static_cast<std::uint64_t>(*k.get("start_offset")->integer())});
    }
    return out;
}

HashAlgorithm algorithm_of(std::string_view scheme) {
    return scheme == "v2_sha256"      ? HashAlgorithm::V2Sha256
           : scheme == "v2_sha256_64" ? HashAlgorithm::V2Sha256Short
                                      : HashAlgorithm::V1BlockKey;
}

}  // namespace

TEST_CASE("blocks of text hash as the engine's do, under every scheme and manager") {
    std::ifstream file("tests/vectors/trtllm_block_hashes.jsonl");
    REQUIRE(file);
    std::string text;
    int checked = 0;
    while (std::getline(file, text)) {
        const auto parsed = json::parse(text);
        const auto& line = std::get<json::Value>(parsed);
        if (line.flag("uses_extra_ids", false)) {
            continue;  // prompt tables: no request of the simulator has them
        }
        CAPTURE(line.text_of("id"));
        const Keyer keyer(line.text_of("manager") == "v2" ? Manager::V2 : Manager::V1,
                          algorithm_of(line.text_of("scheme")));
        const Scope scope{number_of(line.get("lora_task_id")), salt_of(line)};
        const auto elements = elements_of(line);
        const auto size = static_cast<std::size_t>(*line.get("tokens_per_block")->integer());
        BlockKey key = keyer.root(scope);
        for (const json::Value& block : *line.get("blocks")->array()) {
            const auto i = static_cast<std::size_t>(*block.get("index")->integer());
            const auto n = static_cast<std::size_t>(*block.get("num_tokens")->integer());
            key =
                keyer.next(key, std::span(elements).subspan(i * size, n), scope, keys_of(line, i));
            const std::string want(block.text_of("hash"));
            const bool is_hex = line.text_of("scheme") == "v2_sha256";
            CHECK(keyer.wire(key) == (is_hex ? '"' + want + '"' : want));
        }
        ++checked;
    }
    CHECK(checked == 71);
}

TEST_CASE("a salt's number is the beginning of its SHA-256, read little-endian") {
    std::ifstream file("tests/vectors/trtllm_block_hashes.jsonl");
    REQUIRE(file);
    std::string text;
    int checked = 0;
    while (std::getline(file, text)) {
        const auto parsed = json::parse(text);
        const auto& line = std::get<json::Value>(parsed);
        if (line.text_of("salt_derivation") != "sha256_8le") {
            continue;
        }
        CAPTURE(line.text_of("id"));
        CHECK(salt_id(line.text_of("cache_salt"), SaltDerivation::Sha256) ==
              number_of(line.get("cache_salt_id")));
        ++checked;
    }
    CHECK(checked > 5);
}
