// What prefill's reply hands over, and what refusals of either leg mean.
#include "tests/unit/plugin_vllm/legs.hpp"

using namespace sluice::vllm;
using namespace sluice::vllm::test;

namespace {

void replace(std::string& text, std::string_view from, std::string_view to) {
    const std::size_t at = text.find(from);
    REQUIRE_MESSAGE(at != std::string::npos, from);
    text.replace(at, from.size(), to);
}

// A reply of 0.32 to `id`, with the object given or the usual one.
std::string object_for(const std::string& id) {
    return R"({"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[1,2,3]],)"
           R"("remote_engine_id":"e-1","remote_request_id":"cmpl-)" +
           id +
           R"(-0-98ac73bf","remote_host":"127.0.0.1","remote_port":15531,"tp_size":1,)"
           R"("remote_num_tokens":40,"remote_blocks_expiry_time":null,"transfer_mode":"pull",)"
           R"("remote_prefill_cached_tokens":16})";
}
std::string reply_with(const std::string& id, const std::string& object) {
    return R"({"id":"cmpl-)" + id +
           R"(","choices":[{"index":0,"text":"a","finish_reason":"length"}],"usage":)"
           R"({"prompt_tokens":40,"total_tokens":41,"prompt_tokens_details":{"cached_tokens":32}},)"
           R"("kv_transfer_params":)" +
           object + "}";
}

struct Prefilled {
    Pair pair;
    Request request{R"({"prompt":"x","max_tokens":7,"stream":true})"};
    std::string id = pair.id(request);

    explicit Prefilled(const char* version = R"({"version":"0.32.0"})", const char* config = "{}",
                       int block_tokens = 16)
        : pair(config, version, block_tokens) {}
    Judged judge(const std::string& body, std::uint32_t flags = 0) {
        return pair.judge(pair.leg(request, SLUICE_LEG_PREFILL), 200, body, flags);
    }
};

}  // namespace

TEST_SUITE("vllm/pd/replies") {
    TEST_CASE("recorded pairs: decode is sent what it was sent in the recording") {
        constexpr const char* kCaptures = "tests/vectors/vllm_http/captures.jsonl";
        std::map<std::string, std::string> sent;  // request id -> the decode leg's object
        each_line(kCaptures, [&](const auto& line) {
            const std::string body = str(line["request"].value(), "body_text");
            if (str(line, "id").starts_with("pd-decode-") && !body.empty()) {
                const auto members = sluice::spans::members_of(body);
                REQUIRE(members);
                sent.emplace(str(line, "group"),
                             std::string(sluice::spans::value_of(*members, "kv_transfer_params")));
            }
        });
        std::size_t pairs = 0;
        each_line(kCaptures, [&](const auto& line) {
            std::string own;
            std::string reply;
            simdjson::dom::array list;
            if (!str(line, "id").starts_with("pd-prefill-") ||
                line["response"]["chunks"].get(list) != simdjson::SUCCESS) {
                return;
            }
            for (const simdjson::dom::element chunk : list) {
                reply += str(chunk, "text");
            }
            REQUIRE(line["request"]["headers"].get(list) == simdjson::SUCCESS);
            for (const simdjson::dom::element header : list) {
                std::string_view name, value;
                REQUIRE(header.at(0).get(name) == simdjson::SUCCESS);
                REQUIRE(header.at(1).get(value) == simdjson::SUCCESS);
                own = name == "X-Request-Id" ? std::string(value) : own;
            }
            if (own.size() != 4 || own < "pd-1" || own > "pd-4") {
                return;  // those whose decode leg was a right one
            }
            CAPTURE(own);
            Prefilled p(R"({"version":"0.32.0"})", "{}", 32);
            // The attempt's id where the recorded one stood.
            const auto renamed = [&](std::string text) {
                for (std::size_t at = 0; (at = text.find(own, at)) != std::string::npos;) {
                    text.replace(at, own.size(), p.id);
                    at += p.id.size();
                }
                return text;
            };
            const Judged judged = p.judge(renamed(reply.substr(reply.find("\r\n\r\n") + 4)));
            CHECK(judged.next == SLUICE_NEXT_CONTINUE);
            const std::string want = renamed(sent.at(own));
            CHECK(judged.handoff == p.id + "\n" + want);
            CHECK(p.pair.build(p.request, SLUICE_LEG_DECODE, judged.handoff).body.find(want) !=
                  std::string::npos);
            CHECK(judged.cached == (own == "pd-2" ? 64 : 0));
            ++pairs;
        });
        CHECK(pairs == 4);
    }

    TEST_CASE("the whole object reaches the decode leg character for character") {
        Prefilled p;
        std::string object = object_for(p.id);
        replace(object, "\"tp_size\":1",
                "\"tp_size\":1.0e0, \"new\" : {\"deep\":[" + std::string(3000, '[') +
                    std::string(3000, ']') +
                    "],\"big\":123456789012345678901234567890,\"\\u00e9\":" + "\"\\/\"}");
        const Judged judged = p.judge(reply_with(p.id, object));
        CHECK(judged.next == SLUICE_NEXT_CONTINUE);
        CHECK(judged.hold == SLUICE_HOLD_RELEASE);
        CHECK(judged.lease_us == 30'000'000);
        CHECK(judged.cached == 16);
        const Built built = p.pair.build(p.request, SLUICE_LEG_DECODE, judged.handoff);
        CHECK(built.body ==
              R"({"prompt":"x","max_tokens":7,"stream":true,"kv_transfer_params":)" + object + "}");
        CHECK(built.headers.at("X-Request-Id") == p.id);
    }

    TEST_CASE("an engine that counts what was read too late says so of what it hands over") {
        Prefilled p;
        const std::string expired = "vllm:nixl_num_kv_expired_reqs_total{engine=\"0\"} 3.0\n";
        const std::string late =
            "vllm:nixl_num_notifications_after_expiry_total{engine=\"0\"} 2.0\n";
        for (const bool has_both : {false, true}) {
            CAPTURE(has_both);
            p.pair.flow.host.answer(
                "/metrics", {SLUICE_OK, 200, metrics() + expired + (has_both ? late : ""), {}});
            p.pair.flow.host.advance(2'000'000);
            CHECK(p.pair.flow.host.loads.back().holds_expired == 3);
            CHECK(p.pair.flow.host.loads.back().holds_read_late == (has_both ? 2 : 0));
            const Judged judged = p.judge(reply_with(p.id, object_for(p.id)));
            CHECK(judged.hold ==
                  (SLUICE_HOLD_RELEASE | (has_both ? std::uint32_t{SLUICE_HOLD_COUNTED} : 0U)));
        }
    }

    TEST_CASE("block lists of any length pass") {
        Prefilled p;
        std::string ids = "0";
        for (int i = 1; i < 100'000; ++i) {
            ids += "," + std::to_string(i);
        }
        std::string object = object_for(p.id);
        replace(object, "[[1,2,3]]", "[[" + ids + "]]");
        const Judged judged = p.judge(reply_with(p.id, object));
        CHECK(judged.handoff == p.id + "\n" + object);
    }

    TEST_CASE("another decode endpoint gets prefill's id, not its own") {
        Prefilled p;
        const Judged judged = p.judge(reply_with(p.id, object_for(p.id)));
        sluice_endpoint third{};
        third.size = sizeof third;
        third.address = sluice::borrow("10.0.0.9");
        third.name = sluice::borrow("10.0.0.9:8000");
        sluice_leg leg = p.pair.leg(p.request, SLUICE_LEG_DECODE, judged.handoff);
        leg.endpoint = &third;
        CHECK(p.pair.build(p.request, leg).headers.at("X-Request-Id") == p.id);
    }

    TEST_CASE("without an object decode computes and nothing is held") {
        Prefilled p;
        for (const bool is_null : {true, false}) {
            std::string body = reply_with(p.id, "null");
            if (!is_null) {
                replace(body, R"(,"kv_transfer_params":null)", "");
            }
            const Judged judged = p.judge(body);
            CHECK(judged.next == SLUICE_NEXT_CONTINUE);
            CHECK(judged.handoff.empty());
            CHECK(judged.hold == 0);
            CHECK(judged.lease_us == 0);
            CHECK(judged.cached == 32);
        }
    }

    TEST_CASE("an object that is foreign, cut, malformed or incomplete is not handed over") {
        struct Row {
            const char* what;
            std::string from, to;
        };
        Prefilled p;
        for (const Row& row : {
                 Row{"another request's", p.id, std::string("___prefill_addr_x")},
                 Row{"no request", "\"remote_request_id\"", "\"remote_request\""},
                 Row{"no engine", "\"e-1\"", "null"},
                 Row{"empty engine", "\"e-1\"", "\"\""},
                 Row{"no host", "\"127.0.0.1\"", "5"},
                 Row{"no port", "15531", "\"15531\""},
                 Row{"null blocks", "[[1,2,3]]", "null"},
                 Row{"no blocks", "[[1,2,3]]", "[[]]"},
                 Row{"an empty list", "[[1,2,3]]", "[]"},
                 Row{"blocks of texts", "[[1,2,3]]", "[[\"1\"]]"},
                 Row{"half flat", "[[1,2,3]]", "[1,[2]]"},
                 Row{"fewer blocks than the prompt fills", "[[1,2,3]]", "[[1,2]]"},
                 Row{"covers less than the prompt", "\"remote_num_tokens\":40",
                     "\"remote_num_tokens\":39"},
                 Row{"not for decode", "\"do_remote_prefill\":true", "\"do_remote_prefill\":false"},
                 Row{"asks again", "\"do_remote_decode\":false", "\"do_remote_decode\":true"},
                 Row{"another mode", "\"pull\"", "\"push\""},
             }) {
            CAPTURE(row.what);
            std::string object = object_for(p.id);
            replace(object, row.from, row.to);
            const Judged judged = p.judge(reply_with(p.id, object));
            CHECK(judged.next == SLUICE_NEXT_CONTINUE);
            CHECK(judged.handoff.empty());
            CHECK(judged.hold == 0);
            // The engine holds its blocks all the same.
            CHECK(judged.lease_us == 30'000'000);
        }
        CHECK(p.judge(reply_with(p.id, "\"x\"")).handoff.empty());
        CHECK(p.judge(reply_with(p.id, "[]")).handoff.empty());
        const std::string good = reply_with(p.id, object_for(p.id));
        CHECK(p.judge(good.substr(0, good.size() - 60), SLUICE_REPLY_CUT).handoff.empty());
        CHECK(p.judge(good, SLUICE_REPLY_CUT).handoff.empty());
        CHECK_FALSE(p.judge(good).handoff.empty());
    }

    TEST_CASE("a hand-off that was cut on the way is refused, not sent") {
        Prefilled p;
        const std::string whole = p.judge(reply_with(p.id, object_for(p.id))).handoff;
        for (const std::size_t n : {whole.size() - 1, whole.size() / 2, std::size_t{5}}) {
            CHECK(p.pair.build(p.request, SLUICE_LEG_DECODE, whole.substr(0, n)).status ==
                  SLUICE_E_INVALID);
        }
    }

    TEST_CASE("a 2xx of prefill that is no JSON object names the prefill endpoint") {
        Prefilled p;
        for (const char* body : {"data: {\"id\":\"x\"}\n\ndata: [DONE]\n\n", "", "<html>"}) {
            const Judged judged = p.judge(body);
            CHECK(judged.status == SLUICE_OK);
            CHECK(judged.next == SLUICE_NEXT_FAIL);
            CHECK(judged.error.find("prefill") != std::string::npos);
            CHECK(judged.error.find("10.0.0.7") == std::string::npos);  // clients read it
        }
    }

    TEST_CASE("the lease is the version's, or what the rule declares") {
        struct Row {
            const char* version;
            const char* config;
            std::uint64_t seconds;
        };
        for (const Row& row : {
                 Row{R"({"version":"0.9.2"})", "{}", 86400},
                 Row{R"({"version":"0.10.0"})", "{}", 120},
                 Row{R"({"version":"0.11.0"})", "{}", 120},
                 Row{R"({"version":"0.11.1"})", "{}", 480},
                 Row{R"({"version":"0.21.3"})", "{}", 480},
                 Row{R"({"version":"0.22.0"})", "{}", 30},
                 Row{R"({"version":"0.32.0"})", R"({"kv_lease_duration":10})", 10},
                 Row{R"({"version":"0.20.0"})", R"({"kv_lease_duration":10})", 480},
                 Row{"no answer", "{}", 30},
             }) {
            CAPTURE(row.version);
            CAPTURE(row.config);
            Prefilled p(row.version, row.config);
            const Judged judged = p.judge(reply_with(p.id, object_for(p.id)));
            CHECK(judged.lease_us == row.seconds * 1'000'000);
        }
    }

    TEST_CASE("before 0.13 the object has no request id, and before 0.18 its blocks are flat") {
        Prefilled old(R"({"version":"0.12.0"})");
        std::string object = object_for(old.id);
        replace(object, "\"remote_request_id\"", "\"other\"");
        replace(object, "[[1,2,3]]", "[1,2,3]");
        CHECK(old.judge(reply_with(old.id, object)).handoff == old.id + "\n" + object);
        CHECK(old.judge(reply_with("somebody-else", object)).handoff.empty());
        Prefilled unknown("no answer");
        object = object_for(unknown.id);
        replace(object, "\"remote_request_id\"", "\"other\"");
        CHECK(unknown.judge(reply_with(unknown.id, object)).handoff.empty());
    }

    TEST_CASE("the release leg asks for one token of the blocks and nothing more") {
        Prefilled p;
        const Judged judged = p.judge(reply_with(p.id, object_for(p.id)));
        sluice_leg leg = p.pair.leg(p.request, SLUICE_LEG_DECODE, judged.handoff);
        leg.flags = SLUICE_LEG_RELEASE;
        const Built built = p.pair.build(p.request, leg);
        CHECK(built.status == SLUICE_OK);
        CHECK(built.body == R"({"prompt":"x","max_tokens":1,"stream":false,"kv_transfer_params":)" +
                                object_for(p.id) + "}");
        leg.handoff = {};
        CHECK(p.pair.build(p.request, leg).status == SLUICE_E_UNSUPPORTED);
    }

    TEST_CASE("refusals: whose fault it is, and whether the blocks can be read again") {
        constexpr const char* kAny = R"({"error":{"message":"Internal server error","code":500}})";
        constexpr const char* kDead =
            R"({"error":{"message":"EngineCore encountered an issue. See stack trace","code":500}})";
        constexpr const char* kDraining =
            R"({"error":{"message":"cannot schedule new futures after shutdown","code":500}})";
        struct Row {
            std::uint32_t code;
            const char* body;
            std::uint32_t single, prefill, decode, decode_reading;
        };
        Prefilled p;
        const std::string handoff = p.judge(reply_with(p.id, object_for(p.id))).handoff;
        for (const Row& row : {
                 Row{400, "{}", SLUICE_NEXT_RELAY, SLUICE_NEXT_RELAY, SLUICE_NEXT_RELAY,
                     SLUICE_NEXT_RELAY},
                 Row{404, "{}", SLUICE_NEXT_RELAY, SLUICE_NEXT_RELAY, SLUICE_NEXT_RELAY,
                     SLUICE_NEXT_RELAY},
                 Row{307, "", SLUICE_NEXT_RELAY, SLUICE_NEXT_RELAY, SLUICE_NEXT_RELAY,
                     SLUICE_NEXT_RELAY},
                 Row{429, "{}", SLUICE_NEXT_BUSY, SLUICE_NEXT_BUSY, SLUICE_NEXT_BUSY,
                     SLUICE_NEXT_BUSY},
                 Row{500, kDraining, SLUICE_NEXT_ELSEWHERE, SLUICE_NEXT_ELSEWHERE,
                     SLUICE_NEXT_ELSEWHERE, SLUICE_NEXT_ELSEWHERE},
                 Row{500, kDead, SLUICE_NEXT_ELSEWHERE, SLUICE_NEXT_ELSEWHERE,
                     SLUICE_NEXT_ELSEWHERE, SLUICE_NEXT_RESTART},
                 Row{500, kAny, SLUICE_NEXT_RELAY, SLUICE_NEXT_ELSEWHERE, SLUICE_NEXT_RELAY,
                     SLUICE_NEXT_RESTART},
                 Row{502, "", SLUICE_NEXT_RELAY, SLUICE_NEXT_ELSEWHERE, SLUICE_NEXT_RELAY,
                     SLUICE_NEXT_RESTART},
                 Row{503, R"({"error":{"message":"server busy"}})", SLUICE_NEXT_BUSY,
                     SLUICE_NEXT_BUSY, SLUICE_NEXT_BUSY, SLUICE_NEXT_BUSY},
             }) {
            CAPTURE(row.code);
            CAPTURE(row.body);
            const auto next = [&](std::uint32_t kind, std::string_view h) {
                return p.pair.judge(p.pair.leg(p.request, kind, h), row.code, row.body).next;
            };
            CHECK(next(SLUICE_LEG_SINGLE, {}) == row.single);
            CHECK(next(SLUICE_LEG_PREFILL, {}) == row.prefill);
            CHECK(next(SLUICE_LEG_DECODE, {}) == row.decode);
            CHECK(next(SLUICE_LEG_DECODE, handoff) == row.decode_reading);
        }
    }
}
