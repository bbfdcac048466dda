// The signature of a hand-off against the golden ones.
#include "plugins/trtllm/auth.hpp"

#include "tests/unit/plugin_trtllm/vectors.hpp"

using namespace sluice::trtllm;
using namespace sluice::trtllm::test;

TEST_SUITE("trtllm/auth") {
    TEST_CASE("every golden hand-off is signed as the worker checks it") {
        const std::size_t lines =
            each_line("tests/vectors/trtllm_disagg_auth.jsonl", [](const Json& line) {
                CAPTURE(str(line, "id"));
                const std::string endpoint = str(line, "ctx_info_endpoint");
                const std::string state = str(line, "encoded_opaque_state");
                Protected fields;
                if (!is_null(line, "ctx_info_endpoint")) {
                    fields.ctx_info_endpoint = endpoint;
                }
                if (!is_null(line, "encoded_opaque_state")) {
                    fields.encoded_opaque_state = state;
                }
                const auto header = sign(str(line, "key"), fields);
                REQUIRE(header.has_value() == !is_null(line, "header"));
                if (header) {
                    CHECK(*header == str(line, "header"));
                    CHECK(signed_text(fields) == str(line, "signed_text"));
                }
            });
        CHECK(lines == 7);
    }

    TEST_CASE("texts are spelled as Python's JSON writer spells them, in ASCII") {
        Protected fields;
        fields.encoded_opaque_state = "a\"\\/\b\f\n\r\t\x01\x7f\xc3\xa9\xf0\x9f\x98\x80";
        CHECK(signed_text(fields) ==
              "{\"ctx_info_endpoint\":null,\"encoded_opaque_state\":"
              "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u007f\\u00e9\\ud83d\\ude00\"}");
        for (const char* odd : {"\x80", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80"}) {
            fields.encoded_opaque_state = odd;
            CHECK_FALSE(sign("key", fields));
        }
    }
}
