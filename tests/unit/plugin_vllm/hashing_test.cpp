#include "plugins/vllm/hashing.hpp"

#include "plugins/vllm/adapter.hpp"
#include "sluice/sdk_testing.hpp"
#include "tests/unit/plugin_vllm/vectors.hpp"

using namespace sluice::vllm;
using namespace sluice::vllm::test;
using simdjson::dom::element;

namespace {

std::string hex(std::string_view bytes) {
    std::string out;
    for (char c : bytes) {
        static constexpr char kDigits[] = "0123456789abcdef";
        out += kDigits[static_cast<unsigned char>(c) >> 4U];
        out += kDigits[static_cast<unsigned char>(c) & 15U];
    }
    return out;
}

ExtraKey key_of(const element& e) {
    ExtraKey key;
    if (e.is_string()) {
        key.kind = ExtraKey::Kind::Text;
        key.text = std::string_view(e);
    } else if (e.is_array()) {
        key.kind = ExtraKey::Kind::Tuple;
        for (const element item : simdjson::dom::array(e)) {
            key.items.push_back(key_of(item));
        }
    } else if (e.is_object()) {
        key.kind = ExtraKey::Kind::Bytes;
        key.text = unhex(str(e, "bytes_hex"));
    } else if (!e.is_null()) {
        key.kind = ExtraKey::Kind::Integer;
        key.integer = std::int64_t(e);
    }
    return key;
}

std::vector<BlockKeys> keys_of(const element& line) {
    std::vector<BlockKeys> out;
    if (is_null(line, "extra_keys")) {
        return out;
    }
    for (const element entry : simdjson::dom::array(line["extra_keys"])) {
        BlockKeys& keys = out.emplace_back();
        if (!entry.is_null()) {
            for (const element key : simdjson::dom::array(entry)) {
                keys.push_back(key_of(key));
            }
        }
    }
    return out;
}

struct Case {
    HashRule rule;
    std::optional<std::string> seed;
    std::vector<std::uint64_t> wide_tokens;
    std::vector<std::uint32_t> tokens;
    std::uint32_t block_size = 0;
};

Case case_of(const element& line) {
    Case c;
    c.rule.algorithm = *algorithm_named(str(line, "algo"));
    bool integer = false;
    c.rule.integer_parent = line["parent_is_integer"].get(integer) == simdjson::SUCCESS && integer;
    c.seed = is_null(line, "seed") ? std::nullopt : std::optional(str(line, "seed"));
    c.block_size = static_cast<std::uint32_t>(std::uint64_t(line["block_size"]));
    for (const element token : simdjson::dom::array(line["token_ids"])) {
        c.wide_tokens.push_back(std::uint64_t(token));
    }
    return c;
}

}  // namespace

TEST_SUITE("vllm/hashing") {
    TEST_CASE("every golden chain is reproduced, digest for digest") {
        const std::size_t lines =
            each_line("tests/vectors/vllm_block_hashes.jsonl", [](const element& line) {
                CAPTURE(str(line, "id"));
                const Case c = case_of(line);
                const auto none = none_hash(c.rule, c.seed);
                REQUIRE(none.has_value());
                CHECK(hex(none->bytes) == str(line, "none_hash_hex"));
                const std::string start = str(line, "start_parent_hex");
                const Digest parent = start.empty() ? *none : Digest{unhex(start)};
                const auto chain =
                    hash_chain(c.rule, parent, std::span<const std::uint64_t>(c.wide_tokens),
                               c.block_size, keys_of(line));
                std::size_t i = 0;
                for (const element want : simdjson::dom::array(line["expected"]["hash_hex"])) {
                    REQUIRE(i < chain.size());
                    CHECK(hex(chain[i++].bytes) == std::string_view(want));
                }
                CHECK(i == chain.size());
                i = 0;
                for (const element want : simdjson::dom::array(line["expected"]["u64"])) {
                    CHECK(chain[i++].folded() == std::stoull(std::string(std::string_view(want))));
                }
                simdjson::dom::array groups;
                if (line["expected"]["group_u64"].get(groups) == simdjson::SUCCESS) {
                    // A group of larger blocks shows its last unit, 0.12 to 0.19 all units in a
                    // row.
                    const std::size_t units =
                        std::uint64_t(line["group_block_size"]) / c.block_size;
                    i = 0;
                    for (const element want : groups) {
                        i += units;
                        CHECK(chain[i - 1].folded() ==
                              std::stoull(std::string(std::string_view(want))));
                    }
                }
            });
        CHECK(lines == 112);
    }

    TEST_CASE("the keys of LoRA and salt are built in the form the engine's version hashes") {
        std::size_t built = 0;
        each_line("tests/vectors/vllm_block_hashes.jsonl", [&](const element& line) {
            if ((is_null(line, "lora_name") && is_null(line, "cache_salt")) ||
                !is_null(line, "mm_features") || !is_null(line, "lora_int_id")) {
                return;
            }
            CAPTURE(str(line, "id"));
            const bool tagged = str(line, "vllm") == "0.31.0+";
            const Identity who{str(line, "lora_name"), str(line, "lora_path"),
                               str(line, "cache_salt")};
            const auto want = keys_of(line);
            CHECK(text_keys(tagged ? KeyForm::Tagged : KeyForm::Bare, who, want.size()) == want);
            ++built;
        });
        CHECK(built >= 25);
    }

    TEST_CASE("the adapter's hash_blocks gives the engine's 64-bit hashes") {
        sluice::testing::FakeHost host;
        Adapter adapter(sluice::Host{host.raw()}, "{}");
        std::size_t ran = 0;
        each_line("tests/vectors/vllm_block_hashes.jsonl", [&](const element& line) {
            Case c = case_of(line);
            for (std::uint64_t t : c.wide_tokens) {
                c.tokens.push_back(static_cast<std::uint32_t>(t));
            }
            const bool is_narrow =
                std::equal(c.tokens.begin(), c.tokens.end(), c.wide_tokens.begin());
            CAPTURE(str(line, "id"));
            std::string params = R"({"algorithm":")" + str(line, "algo") + R"(","seed":)" +
                                 (c.seed ? sluice::json_quote(*c.seed) : "null") +
                                 R"(,"parent_is_integer":)" +
                                 (c.rule.integer_parent ? "true" : "false") + R"(,"key_form":")" +
                                 (str(line, "vllm") == "0.31.0+" ? "tagged" : "bare") +
                                 R"(","lora_path":)" + sluice::json_quote(str(line, "lora_path"));
            if (!str(line, "start_parent_hex").empty()) {
                params += R"(,"parent":")" + str(line, "start_parent_hex") + "\"";
            }
            // What is made of names and salts here is compared with the line's own keys in the
            // test above.
            if (!is_null(line, "mm_features") || !is_null(line, "lora_int_id") ||
                !is_null(line, "prompt_embeds_rows_hex")) {
                params += R"(,"extra_keys":)" + simdjson::minify(line["extra_keys"].value());
            }
            if (!is_narrow) {
                params += R"(,"token_ids":)" + simdjson::minify(line["token_ids"].value());
            }
            params += "}";
            const std::string lora = str(line, "lora_name");
            const std::string salt = str(line, "cache_salt");
            sluice_hash_input in{};
            in.size = sizeof in;
            in.block_tokens = c.block_size;
            in.tokens = c.tokens.data();
            in.num_tokens = c.tokens.size();
            in.lora = sluice::borrow(lora);
            in.salt = sluice::borrow(salt);
            in.params = sluice::borrow(params);
            std::vector<std::uint64_t> out(c.tokens.size() / c.block_size + 1);
            std::uint32_t num = 0;
            REQUIRE(adapter.hash_blocks(in, out, num) == SLUICE_OK);
            std::size_t i = 0;
            for (const element want : simdjson::dom::array(line["expected"]["u64"])) {
                REQUIRE(i < num);
                CHECK(out[i++] == std::stoull(std::string(std::string_view(want))));
            }
            CHECK(i == num);
            ++ran;
        });
        CHECK(ran == 112);
    }

    TEST_CASE("an xxhash engine without a seed starts from a random hash nobody can know") {
        CHECK_FALSE(none_hash({Algorithm::Xxhash, false}, std::nullopt).has_value());
        CHECK_FALSE(none_hash({Algorithm::XxhashCbor, false}, std::nullopt).has_value());
        CHECK(none_hash({Algorithm::Sha256, false}, std::nullopt).has_value());
    }

    TEST_CASE("a pickled block past the frame bound has no answer instead of a wrong one") {
        const HashRule rule{Algorithm::Sha256, false};
        const std::vector<std::uint32_t> tokens(20'000, 100'000);
        CHECK(hash_chain(rule, *none_hash(rule, "0"), tokens, 20'000, {}).empty());
        CHECK(hash_chain({Algorithm::Sha256Cbor, false}, *none_hash(rule, "0"), tokens, 20'000, {})
                  .size() == 1);
    }
}
