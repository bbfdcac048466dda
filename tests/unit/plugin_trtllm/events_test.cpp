// What a reply may look like, and what makes it lost.
#include "plugins/trtllm/events.hpp"

#include "tests/unit/plugin_trtllm/vectors.hpp"

using namespace sluice::trtllm;
using namespace sluice::trtllm::test;

namespace {

constexpr const char* kDigest =
    R"("abababababababababababababababababababababababababababababababab")";

std::string block(const std::string& hash, const std::string& token, const std::string& more = "") {
    return R"({"block_hash":)" + hash + R"(,"tokens":[)" + token + "]" + more + "}";
}
std::string stored_of(const std::string& blocks, const std::string& parent = "null") {
    return reply({event(
        0, R"({"type":"stored","parent_hash":)" + parent + R"(,"blocks":[)" + blocks + "]}")});
}
const std::string kToken = R"({"token_id":1})";

}  // namespace

TEST_SUITE("trtllm/events") {
    TEST_CASE("a reply that is not as documented is lost as a whole") {
        const std::string good = event(0, removed(1));
        for (const std::string& body : {
                 std::string(),
                 std::string(" "),
                 std::string("1"),
                 std::string("[1]"),
                 "[" + good + ",7]",
                 "[" + good + "",
                 reply({R"({"event_id":-1,"data":{"type":"x"}})"}),
                 reply({R"({"event_id":18446744073709551615,"data":{"type":"x"}})"}),
                 reply({R"({"event_id":"1","data":{"type":"x"}})"}),
                 reply({R"({"event_id":1,"data":{}})"}),
                 reply({R"({"event_id":1,"data":{"type":1}})"}),
                 reply({event(0, removed(1), R"(,"attention_dp_rank":"1")")}),
                 reply({event(0, removed(1), R"(,"attention_dp_rank":4294967296)")}),
                 reply({event(0, removed(1), R"(,"layer_group_id":-1)")}),
                 reply({event(0, removed(1), R"(,"hash_algo":7)")}),
                 reply({event(0, R"({"type":"removed"})")}),
                 reply({event(0, R"({"type":"removed","block_hashes":["xy"]})")}),
                 reply({event(
                     0, std::string(R"({"type":"removed","block_hashes":[1,)") + kDigest + "]}")}),
                 reply({event(
                     0, std::string(R"({"type":"removed","block_hashes":[)") + kDigest + ",1]}")}),
                 reply({event(0, R"({"type":"updated"})")}),
                 reply({event(0, R"({"type":"updated","block_hash":1,"cache_level":{}})")}),
                 reply({event(0, R"({"type":"created","num_blocks_per_cache_level":["a"]})")}),
                 stored_of("1"),
                 stored_of(block("1.5", kToken)),
                 stored_of(block("1", kToken), R"("root")"),
                 stored_of(R"({"block_hash":1})"),
                 stored_of(R"({"tokens":[]})"),
                 stored_of(block("1", "1")),
                 stored_of(block("1", "{}")),
                 stored_of(block("1", R"({"token_id":4294967296})")),
                 stored_of(block("1", R"({"token_id":"abc"})")),
                 stored_of(block("1", R"({"token_id":1,"token_extra_id":-1})")),
                 stored_of(block("1", kToken, R"(,"cache_level":"gpu")")),
                 stored_of(block("1", kToken, R"(,"cache_salt":5)")),
                 stored_of(block("1", kToken, R"(,"mm_keys":{})")),
             }) {
            CAPTURE(body);
            Drained drained;
            CHECK_FALSE(decode(body, drained));
            CHECK_FALSE(drained.fault.empty());
            CHECK(drained.events.empty());
        }
    }

    TEST_CASE("what a block depends on beside its tokens is seen, and the salt is not kept") {
        struct Row {
            std::string token, more;
            std::uint32_t traits;
        };
        for (const Row& row : {
                 Row{kToken, "", 0},
                 Row{kToken, R"(,"cache_salt":null,"mm_keys":[],"lora_id":null)", 0},
                 Row{kToken, R"(,"cache_salt":"")", kSalted},
                 Row{kToken, R"(,"lora_id":0)", kLora},
                 Row{kToken, R"(,"mm_keys":[{"hash":"my-image","start_offset":0}])", kMultimodal},
                 Row{R"({"token_id":1,"token_extra_id":18446744073709551615})", "", kExtraId},
                 Row{std::string(R"({"token_id":)") + kDigest + "}", "", kDigestToken},
             }) {
            CAPTURE(row.more);
            Drained drained;
            REQUIRE(decode(stored_of(block("1", row.token, row.more)), drained));
            CHECK(drained.events.at(0).blocks.at(0).traits == row.traits);
            CHECK(drained.events.at(0).tokens.size() == 1);
        }
    }

    TEST_CASE("levels and priorities that are left out are the first ones") {
        Drained drained;
        REQUIRE(decode(stored_of(block("1", kToken) + "," +
                                 block("2", kToken, R"(,"cache_level":2,"priority":80)")),
                       drained));
        const auto& blocks = drained.events.at(0).blocks;
        CHECK(blocks.at(0).level == 0);
        CHECK(blocks.at(1).level == 2);
        CHECK(blocks.at(1).priority == 80);
        CHECK(blocks.at(1).first_token == 1);
    }
}
