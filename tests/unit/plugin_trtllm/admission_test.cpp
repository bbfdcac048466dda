// Who may be followed, by every era's /server_info and by what events show later.
#include "plugins/trtllm/admission.hpp"

#include "tests/unit/plugin_trtllm/flow.hpp"

using namespace sluice;
using namespace sluice::trtllm;
using namespace sluice::trtllm::test;

TEST_SUITE("trtllm/admission") {
    TEST_CASE("/server_info of every era is read, anything else is not an answer") {
        const auto first = parse_server_info(R"({"disaggregated_params":{}})");
        REQUIRE(first);
        CHECK_FALSE(first->hash_algo);
        CHECK_FALSE(first->tokens_per_block);
        const auto late = parse_server_info(kServerInfo);
        REQUIRE(late);
        CHECK(late->hash_algo == "v1_block_key");
        CHECK(late->tokens_per_block == 32U);
        CHECK(late->max_batch_size == 64U);
        CHECK(parse_server_info(
            R"({"disaggregated_params":{"ctx_dp_rank":0,"ctx_info_endpoint":["tcp://192.0.2.7:4"]}})"));
        for (const char* odd : {"", "[]", "{", "null", R"({"tokens_per_block":0})",
                                R"({"tokens_per_block":"32"})", R"({"kv_cache_hash_algo":1})"}) {
            CAPTURE(odd);
            CHECK_FALSE(parse_server_info(odd));
        }
    }

    TEST_CASE("hash and block size are compared, with both values in the refusal") {
        struct Row {
            const char* config;
            const char* info;
            std::uint32_t http_code;
            std::uint32_t state;
            const char* reason;
            const char* detail;
        };
        for (const Row& row : {
                 Row{"{}", kServerInfo, 200, SLUICE_KV_LIVE, "", ""},
                 Row{R"({"kvBlockSize":32})", kServerInfo, 200, SLUICE_KV_LIVE, "", ""},
                 Row{R"({"kvBlockSize":64})", kServerInfo, 200, SLUICE_KV_REFUSED, "block_size",
                     "the engine's tokens_per_block is 32, the rule says 64"},
                 Row{"{}", R"({"kv_cache_hash_algo":"v2_sha256","tokens_per_block":32})", 200,
                     SLUICE_KV_REFUSED, "hash_algo",
                     "the engine's kv_cache_hash_algo is v2_sha256, this gateway reads "
                     "v1_block_key"},
                 Row{R"({"kvBlockSize":64})", R"({"disaggregated_params":{}})", 200, SLUICE_KV_LIVE,
                     "legacy",
                     "the engine names neither hash nor block size: v1_block_key and 64 tokens a "
                     "block are assumed"},
                 Row{"{}", "", 404, SLUICE_KV_LIVE, "legacy",
                     "the engine has no /server_info; the engine names neither hash nor block "
                     "size: "
                     "v1_block_key and 32 tokens a block are assumed"},
                 Row{"{}", "{}", 503, SLUICE_KV_WAITING, "unreachable",
                     "GET /server_info is answered 503"},
                 Row{"{}", "nonsense", 200, SLUICE_KV_WAITING, "unreachable",
                     "GET /server_info is answered with something else than its JSON"},
             }) {
            CAPTURE(row.config);
            CAPTURE(row.info);
            Flow f(row.config);
            f.host.answer("/server_info", code(row.http_code, row.info));
            f.attach();
            CHECK(f.word().state == row.state);
            CHECK(f.word().reason == row.reason);
            CHECK(f.word().detail == row.detail);
            CHECK((f.asked(kDrain) > 0) == (row.state == SLUICE_KV_LIVE));
        }
    }

    TEST_CASE("an engine that cannot be asked is told apart by the setting to look at") {
        struct Row {
            std::uint32_t http_code;
            const char* advice;
        };
        for (const Row& row : {Row{401, "backend_auth_file"}, Row{403, "backend_auth_file"},
                               Row{200, "kvEngineType"}, Row{405, "kvEngineType"}}) {
            CAPTURE(row.http_code);
            Flow f;
            f.host.answer("/server_info", code(row.http_code, "<html></html>"));
            f.attach();
            CHECK(f.word().reason == "unreachable");
            CHECK(f.word().advice.find(row.advice) != std::string::npos);
        }
        Flow f;
        f.host.answer("/server_info", down());
        f.attach();
        CHECK(f.word().advice.find("targetPort") != std::string::npos);
    }

    TEST_CASE("without an answer it is asked every five seconds, after a refusal every minute") {
        Flow f;
        f.host.answer("/server_info", down());
        f.attach();
        CHECK(f.asked("/server_info") == 1);
        f.host.advance(6 * kSecond);
        CHECK(f.asked("/server_info") == 2);
        f.host.answer("/server_info", ok(R"({"kv_cache_hash_algo":"v2_sha256_64"})"));
        f.host.advance(6 * kSecond);
        CHECK(f.word().state == SLUICE_KV_REFUSED);
        CHECK_FALSE(f.word().advice.empty());
        const std::size_t asked = f.asked("/server_info");
        f.host.advance(50 * kSecond);
        CHECK(f.asked("/server_info") == asked);
        CHECK(f.asked(kDrain) == 0);
        f.host.answer("/server_info", ok(kServerInfo));
        f.host.advance(15 * kSecond);
        CHECK(f.word().state == SLUICE_KV_LIVE);
        CHECK(f.asked(kDrain) > 0);
    }

    TEST_CASE(
        "a block size that only events show is taken, or refused where the rule says another") {
        const Prompt p = prompt(1, 160, 64);  // two whole blocks and a tail
        Flow free;
        free.attach();
        free.events({event(0, created()), event(1, stored(p))});
        CHECK(free.held() == std::set<std::uint64_t>{p.hashes[0], p.hashes[1]});
        CHECK(free.host.facts.back().facts.block_tokens == 64);
        CHECK(free.word().state == SLUICE_KV_LIVE);

        Flow bound(R"({"kvBlockSize":32})");
        bound.attach();
        bound.events({event(0, created()), event(1, stored(p))});
        CHECK(bound.held().empty());
        CHECK(bound.word().state == SLUICE_KV_REFUSED);
        CHECK(bound.word().detail == "the engine's blocks hold 64 tokens, the rule says 32");
        CHECK(bound.host.facts.back().facts.block_tokens == 64);
        const std::size_t drained = bound.asked(kDrain);
        bound.host.advance(5 * kSecond);
        CHECK(bound.asked(kDrain) == drained);
    }

    TEST_CASE("a lone block that is too large leaves the size open and asks admission again") {
        Flow f;
        f.host.answer("/server_info", code(404));
        f.attach();
        f.events({event(0, stored(prompt(1, 64, 64)))});
        CHECK(f.word().reason == "block_size");
        CHECK(f.word().state == SLUICE_KV_UNPROVEN);
        CHECK(f.held().empty());
        const std::size_t asked = f.asked("/server_info");
        f.host.advance(2 * kSecond);
        CHECK(f.asked("/server_info") > asked);
        f.events({event(1, stored(prompt(1, 128, 64), 1))});
        f.events({event(2, stored(prompt(500, 128, 64)))});
        CHECK(f.held() == set_of(prompt(500, 128, 64)));
        CHECK(f.word().reason == "legacy");
    }

    TEST_CASE("events of a foreign hash are not indexed and refuse the endpoint") {
        Flow f;
        f.attach();
        f.events({event(0, stored(prompt(1, 64)), R"(,"hash_algo":"v2_sha256_64")")});
        CHECK(f.held().empty());
        CHECK(f.word().state == SLUICE_KV_REFUSED);
        CHECK(f.word().reason == "hash_algo");
        CHECK(f.word().detail ==
              "the engine's events are tagged v2_sha256_64, this gateway reads v1_block_key");
        f.host.advance(62 * kSecond);
        CHECK(f.word().state == SLUICE_KV_LIVE);  // asked again; its events will tell
        f.events({event(9, stored(prompt(1, 64)))});
        CHECK(f.host.reports("attested").size() == 1);
    }
}
