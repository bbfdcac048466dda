// The parts of a split request that are values: cures of faults, an adapter's edits, the usage that
// the client sees.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "core/flow/id_patch.hpp"
#include "core/flow/leg_edits.hpp"
#include "core/flow/member_mask.hpp"
#include "core/flow/pd_faults.hpp"
#include "core/flow/upstream_head.hpp"
#include "core/flow/usage_patch.hpp"

using namespace sluice;
using flow::PdCure;
using flow::PdFault;

namespace {

sluice_str text(std::string_view s) {
    return {s.data(), s.size()};
}

std::string body_of(flow::LegEdits& edits) {
    std::string out;
    for (const std::string_view piece : edits.pieces()) {
        out += piece;
    }
    return out;
}

// The text in parts of `size` bytes, as the client gets it.
std::string patched(std::string_view in, std::size_t size, std::uint32_t cached) {
    const std::optional<std::uint32_t> known(cached);
    flow::UsagePatch patch(known);
    std::string out;
    for (std::size_t at = 0; at < in.size(); at += size) {
        out += patch.apply(in.substr(at, size), at + size >= in.size());
    }
    return out;
}

}  // namespace

TEST_SUITE("flow/pd_faults") {
    TEST_CASE("each fault has its cure, and what stands behind it") {
        struct Row {
            const char* name;
            PdFault fault;
            flow::PdSpent spent;
            PdCure want;
            int status;
            const char* code;
        };
        const flow::PdSpent fresh{.max_legs = 3, .has_other = true};
        const flow::PdSpent alone{.max_legs = 3};
        const flow::PdSpent tired{.legs = 3, .max_legs = 3, .restarts = 1, .has_other = true};
        const flow::PdSpent allowed{.max_legs = 3, .may_repeat = true};
        for (const Row& row : {
                 Row{"nobody prefills", PdFault::NoPrefill, fresh, PdCure::Spare, 503,
                     "pd_pool_unavailable"},
                 Row{"prefill not reached", PdFault::PrefillUnreached, fresh, PdCure::Pair, 503,
                     "pd_pool_unavailable"},
                 Row{"the only prefill not reached", PdFault::PrefillUnreached, alone,
                     PdCure::Spare, 503, "pd_pool_unavailable"},
                 Row{"too many not reached", PdFault::PrefillUnreached, tired, PdCure::Spare, 503,
                     "pd_pool_unavailable"},
                 Row{"prefill cannot take part", PdFault::PrefillUnready, fresh, PdCure::Pair, 0,
                     ""},
                 Row{"no prefill can take part", PdFault::PrefillUnready, alone, PdCure::Plain, 0,
                     ""},
                 Row{"prefill died", PdFault::PrefillDied, alone, PdCure::Pair, 503,
                     "pd_pool_unavailable"},
                 Row{"prefill died twice", PdFault::PrefillDied, tired, PdCure::Refuse, 503,
                     "pd_pool_unavailable"},
                 Row{"prefill is late", PdFault::PrefillLate, fresh, PdCure::Refuse, 504,
                     "pd_prefill_timeout"},
                 Row{"prefill is full", PdFault::PrefillBusy, fresh, PdCure::Pair, 0, ""},
                 Row{"all prefills are full", PdFault::PrefillBusy, alone, PdCure::Relay, 0, ""},
                 Row{"prefill is broken", PdFault::PrefillBroken, fresh, PdCure::Pair, 0, ""},
                 Row{"all prefills are broken", PdFault::PrefillBroken, alone, PdCure::Plain, 0,
                     ""},
                 Row{"a prefill beside decode is broken", PdFault::PrefillBrokenBeside, fresh,
                     PdCure::Pair, 502, "pd_prefill_failed"},
                 Row{"all prefills beside decode are broken", PdFault::PrefillBrokenBeside, alone,
                     PdCure::Spare, 502, "pd_prefill_failed"},
                 Row{"decode not reached", PdFault::DecodeUnreached, fresh, PdCure::Decode, 503,
                     "pd_pool_unavailable"},
                 Row{"the only decode not reached", PdFault::DecodeUnreached, alone, PdCure::Spare,
                     503, "pd_pool_unavailable"},
                 Row{"a kept connection to decode broke", PdFault::DecodeStale, fresh, PdCure::Pair,
                     502, "pd_decode_backend_died"},
                 Row{"and broke again", PdFault::DecodeStale, tired, PdCure::Refuse, 502,
                     "pd_decode_backend_died"},
                 Row{"decode died", PdFault::DecodeDied, fresh, PdCure::Refuse, 502,
                     "pd_decode_backend_died"},
                 Row{"decode died and may be repeated", PdFault::DecodeDied, allowed, PdCure::Pair,
                     502, "pd_decode_backend_died"},
                 Row{"decode is late", PdFault::DecodeLate, fresh, PdCure::Refuse, 504,
                     "pd_decode_timeout"},
                 Row{"decode lost the blocks", PdFault::DecodeRestart, alone, PdCure::Pair, 0, ""},
                 Row{"decode may have read other blocks", PdFault::DecodeTooLate, allowed,
                     PdCure::Refuse, 502, "pd_decode_failed"},
                 Row{"decode lost the blocks twice", PdFault::DecodeRestart, tired, PdCure::Relay,
                     0, ""},
             }) {
            CAPTURE(row.name);
            const flow::PdAdvice advice = flow::advice_for(row.fault, row.spent);
            CHECK(advice.cure == row.want);
            CHECK(advice.refusal.status == row.status);
            CHECK(advice.refusal.code == row.code);
        }
    }
}

TEST_SUITE("flow/leg_edits") {
    TEST_CASE("what an adapter does not name stays byte for byte") {
        const std::string body = R"({ "max_tokens" : 1e2, "stream":true,"x":"\u00e9" })";
        flow::LegEdits edits(body);
        const sluice_leg_out out = edits.out();
        const std::size_t at = body.find("1e2");
        const std::size_t stream = body.find("true");
        REQUIRE(out.edit(out.ctx, at, 3, "1", 1) == SLUICE_OK);
        REQUIRE(out.edit(out.ctx, stream, 4, "false", 5) == SLUICE_OK);
        REQUIRE(out.edit(out.ctx, body.size() - 1, 0, ",\"y\":1", 6) == SLUICE_OK);
        CHECK(body_of(edits) == R"({ "max_tokens" : 1, "stream":false,"x":"\u00e9" ,"y":1})");
        CHECK(edits.size() == body_of(edits).size());
        CHECK(edits.is_good());
    }

    TEST_CASE("without an edit the body is one piece of the client's own") {
        const std::string body = "{}";
        flow::LegEdits edits(body);
        REQUIRE(edits.pieces().size() == 1);
        CHECK(edits.pieces()[0].data() == body.data());
    }

    TEST_CASE("spans that overlap, go back or leave the body are refused") {
        for (const auto& [first, second] :
             std::vector<std::pair<std::pair<std::uint64_t, std::uint64_t>,
                                   std::pair<std::uint64_t, std::uint64_t>>>{
                 {{4, 2}, {5, 1}},
                 {{4, 2}, {0, 1}},
                 {{0, 0}, {9, 0}},
                 {{0, 0}, {7, 5}},
                 {{0, 0}, {2, UINT64_MAX}}}) {
            flow::LegEdits edits("12345678");
            const sluice_leg_out out = edits.out();
            CHECK(out.edit(out.ctx, first.first, first.second, "x", 1) == SLUICE_OK);
            CHECK(out.edit(out.ctx, second.first, second.second, "x", 1) == SLUICE_E_INVALID);
            CHECK_FALSE(edits.is_good());
        }
    }

    TEST_CASE("headers that could end a head are refused") {
        flow::LegEdits edits("");
        const sluice_leg_out out = edits.out();
        CHECK(out.set_header(out.ctx, text("X-Request-Id"), text("a b")) == SLUICE_OK);
        CHECK(out.set_header(out.ctx, text("X"), text("a\r\nY: b")) == SLUICE_E_INVALID);
        CHECK(out.set_header(out.ctx, text("X: y"), text("a")) == SLUICE_E_INVALID);
        CHECK(out.set_header(out.ctx, text(""), text("a")) == SLUICE_E_INVALID);
        CHECK(edits.headers().size() == 1);
        CHECK_FALSE(edits.is_good());
    }

    TEST_CASE("an adapter's header stands in the place of the client's and of ours") {
        const std::vector<http::Header> fields{{"x-request-id", "client"}, {"X-Rank", "7"}};
        http::RequestHead head;
        head.method = "POST";
        head.path = "/v1/completions";
        head.headers = fields;
        const std::vector<http::Header> replaced{
            {"X-Request-Id", "pair"}, {"X-RANK", ""}, {"Content-Length", "9"}};
        std::string out;
        flow::write_upstream_head({.client = head,
                                   .connection = {},
                                   .host = "e:1",
                                   .request_id = "ours",
                                   .client_ip = "10.0.0.1",
                                   .authorization = {},
                                   .attempt = 1,
                                   .body_bytes = 2,
                                   .replaced = replaced},
                                  out);
        CHECK(out.find("X-Request-Id: pair\r\n") != std::string::npos);
        CHECK(out.find("client") == std::string::npos);
        CHECK(out.find("ours") == std::string::npos);
        CHECK(out.find("Rank") == std::string::npos);
        CHECK(out.find("Content-Length: 2\r\n") != std::string::npos);
        CHECK(out.find("Content-Length: 9") == std::string::npos);
    }
}

TEST_SUITE("flow/usage_patch") {
    TEST_CASE("cached tokens are those of prefill, however the answer is cut") {
        const std::string in =
            R"({"text":"\"cached_tokens\": 5","usage":{"prompt_tokens":1000,)"
            R"("prompt_tokens_details":{"cached_tokens": 1000}},"a":"cached_tokens"})";
        const std::string want =
            R"({"text":"\"cached_tokens\": 5","usage":{"prompt_tokens":1000,)"
            R"("prompt_tokens_details":{"cached_tokens": 32}},"a":"cached_tokens"})";
        for (std::size_t size = 1; size <= in.size(); ++size) {
            CAPTURE(size);
            CHECK(patched(in, size, 32) == want);
        }
    }

    TEST_CASE("what is no number is left alone") {
        for (const std::string_view in :
             {std::string_view(R"({"cached_tokens":null})"),
              std::string_view(R"(["cached_tokens"])"),
              std::string_view(R"({"cached_tokens_x":1})"), std::string_view("data: [DONE]\n\n"),
              std::string_view("\"cached_tokens\"")}) {
            CHECK(patched(in, 3, 32) == in);
            CHECK(patched(in, in.size(), 32) == in);
        }
    }

    TEST_CASE("an event is never held back") {
        flow::UsagePatch patch(1);
        const std::string event = "data: {\"choices\":[{\"text\":\" a\"}]}\n\n";
        CHECK(patch.apply(event, false) == event);
    }
}

TEST_SUITE("flow/member_mask") {
    const std::vector<std::string> kNames{"disaggregated_params", "a.b", "ids"};

    std::string masked(std::string_view in, std::size_t size) {
        flow::MemberMask mask(kNames);
        std::string out;
        for (std::size_t at = 0; at < in.size(); at += size) {
            out += mask.apply(in.substr(at, size), at + size >= in.size());
        }
        return out;
    }

    TEST_CASE("what engines say to each other is null for the client, however it is cut") {
        const std::string in =
            R"({"choices":[{"text":"a","disaggregated_params" : {"x":["]}\\",{"y":"\""}],"ids":[1]},)"
            R"("ids":[1,[2]],"n":{"ids":"b\"c"}},{"ids":-1.5e3,"disaggregated_params":true}],"ids":7 })";
        const std::string want =
            R"({"choices":[{"text":"a","disaggregated_params" : null,)"
            R"("ids":null,"n":{"ids":null}},{"ids":null,"disaggregated_params":null}],"ids":null })";
        for (std::size_t size = 1; size <= in.size(); ++size) {
            CAPTURE(size);
            CHECK(masked(in, size) == want);
        }
    }

    TEST_CASE("a text that only speaks of it stays as it is") {
        for (const std::string_view in :
             {std::string_view(R"({"text":"\"disaggregated_params\":{}"})"),
              std::string_view(R"(["disaggregated_params",{"disaggregated_params_x":1}])"),
              std::string_view(R"({"a.c":1,"id":2,"disaggregated_params":null})"),
              std::string_view("data: [DONE]\n\n"), std::string_view("\"ids\"  :")}) {
            CAPTURE(in);
            for (const std::size_t size : {std::size_t{1}, std::size_t{3}, in.size()}) {
                CHECK(masked(in, size) == in);
            }
        }
    }

    TEST_CASE("what may be a name is held back for a while only") {
        flow::MemberMask mask(kNames);
        CHECK(mask.apply("{\"id", false) == "{");
        CHECK(mask.apply("x\":1}", false) == "\"idx\":1}");
        std::string out(mask.apply("\"ids\"", false));
        for (int i = 0; i < 200; ++i) {
            out += mask.apply(" ", false);
        }
        CHECK(out.size() > 100);
    }

    TEST_CASE("a value of megabytes costs no memory") {
        flow::MemberMask mask(kNames);
        std::string out(mask.apply("{\"ids\":[", false));
        const std::string part(65536, '1');
        for (int i = 0; i < 64; ++i) {
            out += mask.apply(part, false);
        }
        out += mask.apply("]}", true);
        CHECK(out == "{\"ids\":null}");
    }
}

TEST_SUITE("flow/id_patch") {
    // The text in parts of `size` bytes, as the client gets it.
    std::string renamed(std::string_view in, std::size_t size, std::string_view ours) {
        flow::IdPatch patch("___addr_10.0.0.7:80_1f", ours);
        std::string out;
        for (std::size_t at = 0; at < in.size(); at += size) {
            out += patch.apply(in.substr(at, size), at + size >= in.size());
        }
        return out;
    }

    TEST_CASE("the engines' id is the client's wherever it stands and however it is cut") {
        const std::string in = R"({"id":"cmpl-___addr_10.0.0.7:80_1f-0","x":"____addr_10.0.0.7:80_)"
                               R"(","y":"____addr_10.0.0.7:80_1f___addr_10.0.0.7:80_1f"})";
        const std::string want = R"({"id":"cmpl-mine-0","x":"____addr_10.0.0.7:80_)"
                                 R"(","y":"_minemine"})";
        for (std::size_t size = 1; size <= in.size(); ++size) {
            CAPTURE(size);
            CHECK(renamed(in, size, "mine") == want);
        }
    }

    TEST_CASE("a client's id stays within its text") {
        CHECK(renamed(R"({"id":"___addr_10.0.0.7:80_1f"})", 5, "a\"b\\c\td") ==
              R"({"id":"a\"b\\c\td"})");
    }

    TEST_CASE("what has begun like an id and ends is not lost") {
        CHECK(renamed("data: ___addr_10", 4, "mine") == "data: ___addr_10");
        CHECK(renamed("data: _", 7, "mine") == "data: _");
    }

    TEST_CASE("an event is never held back") {
        flow::IdPatch patch("___addr_10.0.0.7:80_1f", "mine");
        const std::string event = "data: {\"choices\":[{\"text\":\"_\"}]}\n\n";
        CHECK(patch.apply(event, false) == event);
    }
}
