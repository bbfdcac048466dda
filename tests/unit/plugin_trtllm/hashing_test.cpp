// The engine's own hashes against the golden ones, salts, and who is told from whom by them.
#include "plugins/trtllm/hashing.hpp"

#include "plugins/trtllm/attest.hpp"
#include "plugins/trtllm/blake3.hpp"
#include "plugins/trtllm/block_hashes.hpp"
#include "sluice/sdk.hpp"
#include "tests/unit/plugin_trtllm/vectors.hpp"

using namespace sluice::trtllm;
using namespace sluice::trtllm::test;

namespace {

std::string hex(std::span<const std::uint8_t> bytes) {
    std::string out;
    for (const std::uint8_t byte : bytes) {
        constexpr char kDigits[] = "0123456789abcdef";
        out += kDigits[byte >> 4U];
        out += kDigits[byte & 15U];
    }
    return out;
}

Event decoded(const Prompt& p, std::size_t from = 0) {
    Drained drained;
    REQUIRE(decode(reply({event(0, stored(p, from))}), drained));
    return drained.events.at(0);
}

}  // namespace

TEST_SUITE("trtllm/hashing") {
    TEST_CASE("BLAKE3 gives the published digests, over one block, one chunk and a tree") {
        // The published test input is the bytes 0, 1, .. 250, 0, 1, ..
        const auto digest_of = [](std::size_t size) {
            std::string input;
            for (std::size_t i = 0; i < size; ++i) {
                input += static_cast<char>(i % 251);
            }
            return hex(blake3(input));
        };
        struct Row {
            std::size_t size;
            const char* digest;
        };
        for (const Row& row :
             {Row{0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"},
              Row{1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"},
              Row{1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11"},
              Row{1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"},
              Row{1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"},
              Row{2048, "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a"},
              Row{3072, "b98cb0ff3623be03326b373de6b9095218513e64f1ee2edd2525c7ad1e5cffd2"},
              Row{5120, "9cadc15fed8b5d854562b26a9536d9707cadeda9b143978f319ab34230535833"}}) {
            CAPTURE(row.size);
            CHECK(digest_of(row.size) == row.digest);
        }
    }

    TEST_CASE("a salt becomes the number that each era makes of it") {
        std::size_t seen = 0;
        each_line("tests/vectors/trtllm_block_hashes.jsonl", [&](const Json& line) {
            const auto rule = salt_rule_named(str(line, "salt_derivation"));
            if (is_null(line, "cache_salt_id") || !rule) {
                return;
            }
            ++seen;
            CAPTURE(str(line, "id"));
            CHECK(std::to_string(*salt_id(*rule, str(line, "cache_salt"))) ==
                  str(line, "cache_salt_id"));
        });
        CHECK(seen == 14);
        CHECK_FALSE(salt_rule_named("explicit_id"));
    }

    TEST_CASE("every golden prompt has the hashes that the engine gives its whole blocks") {
        const std::size_t lines =
            each_line("tests/vectors/trtllm_block_hashes.jsonl", [](const Json& line) {
                CAPTURE(str(line, "id"));
                std::vector<std::uint32_t> tokens;
                for (const Json token : list(line, "prompt_token_ids")) {
                    std::uint64_t number = 0;
                    const bool is_id = token.get(number) == simdjson::SUCCESS;
                    // A digest is read from the line itself.
                    tokens.push_back(is_id ? static_cast<std::uint32_t>(number) : 0);
                }
                tokens.resize(num(line, "hashed_token_count"));
                std::vector<std::uint64_t> want;
                for (const Json hash : list(line, "full_block_hashes")) {
                    const std::string text{std::string_view(hash)};
                    want.push_back(text.size() == 64 ? folded(*digest_of(text))
                                                     : std::stoull(text));
                }
                CHECK(block_hashes(simdjson::minify(line), tokens,
                                   static_cast<std::uint32_t>(num(line, "tokens_per_block")),
                                   1000) == want);
            });
        CHECK(lines == 75);
    }

    TEST_CASE("a wrong description of a prompt is refused with the member's name") {
        const std::vector<std::uint32_t> tokens(8, 1);
        for (
            const char* params :
            {"[]", "{", R"({"scheme":"sha1"})", R"({"lora_task_id":"x"})",
             R"({"cache_salt_id":-1})", R"({"cache_salt":"t","salt_derivation":"md5"})",
             R"({"token_extra_ids":[1]})", R"({"mm_keys_per_block":[[{"hash":"uuid"}]]})",
             R"({"prompt_token_ids":["abc"]})",
             R"({"prompt_token_ids":["abababababababababababababababababababababababababababababababab"]})"}) {
            CAPTURE(params);
            CHECK_THROWS_AS((void)block_hashes(params, tokens, 8, 1), sluice::Failure);
        }
        CHECK_THROWS_AS((void)block_hashes("{}", tokens, 0, 1), sluice::Failure);
        CHECK(block_hashes("", tokens, 4, 1).size() == 1);
    }

    TEST_CASE("a text block of the base model is told from an adapter's and a salted one") {
        const Prompt base = prompt(1, 96);
        const Prompt adapter = prompt(1, 96, 32, {.lora_id = 7, .salt_id = {}});
        const Prompt salted = prompt(1, 96, 32, {.lora_id = {}, .salt_id = 7});
        const auto fits = [](const Event& e) {
            BlockCheck check(e);
            std::vector<bool> out;
            for (std::size_t i = 0; i < e.blocks.size(); ++i) {
                out.push_back(check.is_base_text(i));
            }
            return out;
        };
        using Bools = std::vector<bool>;
        CHECK(fits(decoded(base)) == Bools{true, true, true});
        CHECK(fits(decoded(base, 2)) == Bools{true});
        CHECK(fits(decoded(adapter)) == Bools{false, false, false});
        CHECK(fits(decoded(adapter, 1)) == Bools{false, false});
        // A salt is in the first block only: the others are told by their parent not being held.
        CHECK(fits(decoded(salted)) == Bools{false, true, true});
    }

    TEST_CASE("an engine's hashing is attested once, doubted after many that fit nothing") {
        Attestor attestor;
        CHECK_FALSE(attestor.see(0, Attestor::kDoubtAfter - 1));
        CHECK(attestor.see(0, 1) == Attestation::Foreign);
        CHECK_FALSE(attestor.see(0, 100));
        CHECK(attestor.see(1, 0) == Attestation::Attested);
        CHECK_FALSE(attestor.see(0, 100));
    }
}
