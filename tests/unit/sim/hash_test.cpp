#include "tests/sim/vllm/hash.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <variant>

#include "tests/sim/support/json.hpp"

using namespace sluice::sim;

namespace {

std::string hex(const vllm::Digest& d) {
    static constexpr std::string_view kHex = "0123456789abcdef";
    std::string out;
    for (const std::uint8_t b : d) {
        out.push_back(kHex[b >> 4U]);
        out.push_back(kHex[b & 15U]);
    }
    return out;
}

vllm::Digest digest_from(std::string_view text) {
    vllm::Digest out{};
    for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] =
            static_cast<std::uint8_t>(std::stoul(std::string(text.substr(2 * i, 2)), nullptr, 16));
    }
    return out;
}

// A block's extra keys; false when they hold more than texts (media, embeddings).
bool read_keys(const json::Value& block, std::vector<vllm::ExtraKey>& out) {
    const json::Array* keys = block.array();
    for (const json::Value& key : keys != nullptr ? *keys : json::Array()) {
        vllm::ExtraKey k;
        if (key.text() != nullptr) {
            k.parts.push_back(*key.text());
        } else if (key.array() != nullptr) {
            k.is_tuple = true;
            for (const json::Value& part : *key.array()) {
                if (part.text() == nullptr) {
                    return false;
                }
                k.parts.push_back(*part.text());
            }
        } else {
            return false;
        }
        out.push_back(std::move(k));
    }
    return true;
}

}  // namespace

TEST_SUITE("sim/hash") {
    TEST_CASE("block hashes are those of vLLM's own hashing") {
        std::ifstream file("tests/vectors/vllm_block_hashes.jsonl");
        REQUIRE(file);
        std::size_t checked = 0;
        std::size_t with_keys = 0;
        for (std::string line; std::getline(file, line);) {
            auto parsed = json::parse(line);
            const json::Value& v = std::get<json::Value>(parsed);
            const auto algorithm = vllm::algorithm_from(v.text_of("algo"));
            if (!algorithm || v.flag("parent_is_integer", false)) {
                continue;  // an algorithm or a version this engine does not play
            }
            CAPTURE(v.text_of("id"));
            std::vector<TokenId> tokens;
            bool fits = true;
            for (const json::Value& t : *v.get("token_ids")->array()) {
                fits = fits && *t.integer() <= 0xFFFFFFFFLL;
                tokens.push_back(static_cast<TokenId>(*t.integer()));
            }
            const json::Array* extra =
                v.get("extra_keys") == nullptr ? nullptr : v.get("extra_keys")->array();
            std::vector<std::vector<vllm::ExtraKey>> keys(extra == nullptr ? 0 : extra->size());
            for (std::size_t i = 0; i < keys.size(); ++i) {
                fits = fits && read_keys((*extra)[i], keys[i]);
            }
            if (!fits) {
                continue;
            }
            const json::Value* seed = v.get("seed");
            vllm::Digest parent = vllm::none_hash(
                *algorithm, seed == nullptr ? "vllm-none-hash" : std::string_view(*seed->text()));
            CHECK(hex(parent) == v.text_of("none_hash_hex"));
            if (v.get("start_parent_hex") != nullptr) {
                parent = digest_from(v.text_of("start_parent_hex"));
            }
            const auto size = static_cast<std::size_t>(*v.get("block_size")->integer());
            const json::Value& expected = *v.get("expected");
            const json::Array& want = *expected.get("hash_hex")->array();
            const json::Array& low = *expected.get("u64")->array();
            REQUIRE(want.size() == tokens.size() / size);
            for (std::size_t i = 0; i < want.size(); ++i) {
                parent =
                    vllm::hash_block(*algorithm, parent, std::span(tokens).subspan(i * size, size),
                                     keys.empty() ? std::vector<vllm::ExtraKey>() : keys[i]);
                CHECK(hex(parent) == *want[i].text());
                CHECK(std::to_string(vllm::low_64(parent)) == *low[i].text());
            }
            ++checked;
            with_keys += keys.empty() ? 0 : 1;
        }
        CHECK(checked >= 60);
        CHECK(with_keys >= 15);
    }
}
