// The adapter's judgements: attestation, broken input, addresses, load, health, teardown.
#include "tests/unit/plugin_vllm/flow.hpp"

using namespace sluice::vllm;
using namespace sluice::vllm::test;

TEST_SUITE("vllm/adapter") {
    TEST_CASE("a block size other than declared refuses the rank; an engine that has it is taken") {
        Flow f(R"({"kvBlockSize":32})");
        f.attach_live();
        f.live(0, batch_of({stored_event(prompt(1, 2, 16))}));
        CHECK(f.held().empty());
        const auto said = f.host.reports("block_size");
        REQUIRE(said.size() == 1);
        CHECK(said[0].state == SLUICE_KV_REFUSED);
        CHECK(said[0].why == SLUICE_WHY_BLOCK_SIZE);
        CHECK(said[0].detail == "the engine's blocks hold 16 tokens, the rule says 32");
        f.live(1, batch_of({stored_event(prompt(100, 2, 16))}));
        CHECK(f.held().empty());
        CHECK(f.state() == SLUICE_KV_REFUSED);
        f.live(0, batch_of({stored_event(prompt(1, 2, 32))}, 1'900'000'000));
        CHECK(f.held().size() == 2);
        CHECK(f.state() == SLUICE_KV_LIVE);
    }

    TEST_CASE(
        "declared algorithm and seed are attested, or the mismatch is named; routing goes on") {
        struct Row {
            const char* config;
            const char* reason;
            std::uint32_t why;
        };
        for (const Row& row :
             {Row{R"({"kvHashAlgo":"sha256","kvHashSeed":"0"})", "attested", SLUICE_WHY_NONE},
              Row{R"({"kvHashAlgo":"sha256_cbor","kvHashSeed":"0"})", "hash_algo",
                  SLUICE_WHY_ALGORITHM},
              Row{R"({"kvHashAlgo":"sha256","kvHashSeed":"42"})", "seed", SLUICE_WHY_SEED}}) {
            CAPTURE(row.config);
            Flow f(row.config);
            f.attach_live();
            f.live(0, batch_of({stored_event(prompt(1, 2))}));
            f.live(1, batch_of({stored_event(prompt(100, 2))}));
            const auto said = f.host.reports(row.reason);
            REQUIRE(said.size() == 1);
            CHECK(said[0].why == row.why);
            CHECK(said[0].state == SLUICE_KV_SAME);
            CHECK(f.held().size() == 4);
            CHECK(f.state() == SLUICE_KV_LIVE);
        }
    }

    TEST_CASE(
        "an engine that hides salts has its salted blocks marked, once its hashing is known") {
        Flow f;
        f.attach_live();
        f.live(0, batch_of({stored_event(prompt(1, 2), false)}));
        f.live(1,
               batch_of({stored_event(prompt(1, 2, 16, Algorithm::Sha256, "0", "hidden"), false)}));
        std::vector<std::vector<std::uint8_t>> opaque;
        for (const KvSeen& k : f.host.kv) {
            for (const auto& e : k.events) {
                opaque.push_back(e.opaque);
            }
        }
        REQUIRE(opaque.size() == 2);
        CHECK(opaque[0].empty());
        CHECK(opaque[1] == std::vector<std::uint8_t>{1, 1});
    }

    TEST_CASE("messages of another shape are counted, a broken payload is a hole") {
        Flow f;
        f.attach_live();
        f.live(0, batch_of({stored_event(prompt(1, 1))}));
        f.host.feed(f.sub(), {"kv", frame(1)});
        f.host.feed(f.sub(), {"kv", "short", "x"});
        f.host.feed(f.sub(), {"kv", frame(1) + frame(2) + frame(3), "x"});
        f.host.feed(f.sub(), {"kv", kEnd, ""});
        CHECK(f.counted(SLUICE_WHY_MALFORMED) == 4);
        CHECK(f.state() == SLUICE_KV_LIVE);
        f.live(1, "\xc1");
        CHECK(f.state() == SLUICE_KV_UNPROVEN);
        CHECK(f.host.reports("malformed").size() == 1);
        f.live(2, batch_of({stored_event(prompt(100, 1))}));
        CHECK(f.held().size() == 2);
    }

    TEST_CASE("an event of a kind not known is counted, its batch applies") {
        Flow f;
        f.attach_live();
        Pack unknown;
        unknown.map(1).text("type").text("BlockInactive");
        f.live(0, batch_of({unknown.take(), stored_event(prompt(1, 1))}));
        CHECK(f.counted(SLUICE_WHY_UNKNOWN) == 1);
        CHECK(f.held().size() == 1);
    }

    TEST_CASE("a publisher that nobody can connect to is named for what it is") {
        struct Row {
            const char* endpoint;
            const char* reason;
        };
        for (const Row& row : {Row{"tcp://127.0.0.1:15501", "publisher_connects_out"},
                               Row{"tcp://*:15501", "unreachable"}}) {
            CAPTURE(row.endpoint);
            Flow f;
            f.host.answer("/kv_event_sources", {SLUICE_OK, 200, sources("null", row.endpoint), {}});
            f.attach();
            f.host.advance(4'000'000);
            CHECK(f.host.reports(row.reason).empty());
            f.host.advance(20'000'000);
            REQUIRE(f.host.reports(row.reason).size() == 1);
            CHECK(f.host.reports(row.reason)[0].state == SLUICE_KV_DEAD);
            f.up();
            CHECK(f.state() == SLUICE_KV_LIVE);
        }
    }

    TEST_CASE("a publisher out of reach is said at once and not tried") {
        Flow f;
        f.host.answer("/kv_event_sources", {SLUICE_OK, 200, sources("null", "inproc://kv"), {}});
        f.attach();
        CHECK(f.host.sockets.empty());
        CHECK(f.host.reports("unreachable").size() == 1);
    }

    TEST_CASE("colliding ports are named and that rank's replay is not used") {
        Flow f;
        f.host.answer("/kv_event_sources",
                      {SLUICE_OK, 200, sources("\"tcp://127.0.0.1:15501\""), {}});
        f.attach();
        CHECK(f.host.reports("ports_collide").size() == 1);
        f.up();
        CHECK(f.host.sockets.size() == 1);
        // What is missed is missed for that reason, and the signal says so.
        f.live(41, batch_of({stored_event(prompt(1, 1))}));
        const auto said = f.host.reports("ports_collide");
        REQUIRE(said.size() == 2);
        CHECK(said[1].state == SLUICE_KV_LIVE);
        CHECK_FALSE(said[1].advice.empty());
    }

    TEST_CASE("prefix caching off is told from the metrics, though the publisher is there") {
        Flow f;
        f.host.answer(
            "/metrics",
            {SLUICE_OK,
             200,
             metrics("1.0e+09", "vllm:cache_config_info{enable_prefix_caching=\"False\"} 1.0\n"),
             {}});
        f.attach_live();
        f.host.advance(5'000'000);
        CHECK(f.host.reports("prefix_cache_off").size() == 1);
    }

    TEST_CASE("load is sampled every second, models are told with their parents") {
        Flow f;
        f.attach_live();
        f.host.advance(5'500'000);
        CHECK(f.host.loads.size() >= 5);
        CHECK(f.host.loads.size() <= 7);
        const sluice_load& load = f.host.loads.back();
        CHECK(load.endpoint == 7);
        CHECK(load.dp_rank == SLUICE_ANY);
        CHECK(load.running == 2);
        CHECK(load.waiting == 1);
        CHECK(load.kv_used_ratio == doctest::Approx(0.5));
        CHECK(load.total_blocks == 300);
        CHECK(load.hit_tokens == 64);
        REQUIRE_FALSE(f.host.models.empty());
        REQUIRE(f.host.models.back().size() == 2);
        CHECK(f.host.models.back()[0].kind == SLUICE_MODEL_BASE);
        CHECK(f.host.models.back()[1].kind == SLUICE_MODEL_LORA);
        CHECK(f.host.models.back()[1].parent == "tiny");
    }

    TEST_CASE("several ranks give a sample each and one for the whole") {
        Flow f;
        f.host.answer("/metrics", {SLUICE_OK,
                                   200,
                                   "vllm:num_requests_running{engine=\"0\"} 2.0\n"
                                   "vllm:num_requests_running{engine=\"1\"} 3.0\n"
                                   "vllm:cache_config_info{num_gpu_blocks=\"600\"} 1.0\n",
                                   {}});
        f.attach();
        REQUIRE(f.host.loads.size() == 3);
        CHECK(f.host.loads[0].dp_rank == 0);
        CHECK(f.host.loads[0].total_blocks == 300);
        CHECK(f.host.loads[1].running == 3);
        CHECK(f.host.loads[2].dp_rank == SLUICE_ANY);
        CHECK(f.host.loads[2].running == 5);
        CHECK(f.host.loads[2].kv_used_ratio < 0);
    }

    TEST_CASE("an endpoint watched for load alone opens no socket and asks no sources") {
        Flow f;
        f.attach(SLUICE_WATCH_LOAD);
        f.host.advance(12'000'000);
        CHECK(f.host.sockets.empty());
        CHECK(f.asked("/kv_event_sources") == 0);
        CHECK(f.asked("/v1/models") == 0);
        CHECK(f.host.kv.empty());
        CHECK(f.host.loads.size() > 10);
    }

    TEST_CASE("a sleeping engine is said to sleep, and to be awake again") {
        Flow f;
        f.attach();
        CHECK(f.host.health.empty());
        const auto sleep = [&](const char* awake) {
            f.host.answer("/metrics",
                          {SLUICE_OK,
                           200,
                           metrics("1.0e+09", (std::string("vllm:engine_sleep_state{engine=\"0\","
                                                           "sleep_state=\"awake\"} ") +
                                               awake + "\n")
                                                  .c_str()),
                           {}});
            f.host.advance(2'000'000);
        };
        sleep("1.0");
        CHECK(f.host.health.empty());
        sleep("0.0");
        REQUIRE(f.host.health.size() == 1);
        CHECK(f.host.health[0].state == SLUICE_HEALTH_ASLEEP);
        sleep("1.0");
        CHECK(f.host.health.back().state == SLUICE_HEALTH_READY);
    }

    TEST_CASE("a draining engine's refusal goes elsewhere and is told as its health") {
        Flow f;
        f.attach_live();
        sluice_leg leg{};
        leg.size = sizeof leg;
        leg.kind = SLUICE_LEG_SINGLE;
        leg.at = f.at;
        const std::string body =
            R"({"error":{"message":"cannot schedule new futures after shutdown"}})";
        sluice_reply reply{};
        reply.size = sizeof reply;
        reply.http_code = 500;
        reply.body = sluice::borrow_bytes(body);
        sluice_reply_out out{};
        out.size = sizeof out;
        REQUIRE(f.engine->on_reply(f.instance(), &leg, &reply, &out, nullptr) == SLUICE_OK);
        CHECK(out.next == SLUICE_NEXT_ELSEWHERE);
        CHECK(out.cached_tokens == SLUICE_ANY);
        CHECK(f.host.health.empty());
        f.host.advance(2'000'000);
        REQUIRE(f.host.health.size() == 1);
        CHECK(f.host.health[0].state == SLUICE_HEALTH_SUSPECT);
        reply.http_code = 404;
        REQUIRE(f.engine->on_reply(f.instance(), &leg, &reply, &out, nullptr) == SLUICE_OK);
        CHECK(out.next == SLUICE_NEXT_RELAY);
    }

    TEST_CASE("detach in the middle of everything leaves nothing running") {
        Flow f;
        f.attach_live();
        f.live(0, batch_of({stored_event(prompt(1, 1))}));
        f.live(5, batch_of({stored_event(prompt(100, 1))}));
        CHECK(f.replaying());
        f.host.hold("/metrics");
        f.host.hold("/v1/models");
        f.host.advance(1'000'000);
        CHECK_FALSE(f.host.leftovers().empty());
        f.detach();
        CHECK(f.host.leftovers().empty());
        const std::size_t calls = f.host.kv.size();
        f.host.advance(20'000'000);
        CHECK(f.host.kv.size() == calls);
        f.host.answer("/metrics", {SLUICE_OK, 200, metrics(), {}});
        f.attach();  // and it can be attached again
        CHECK(f.sub().is_open);
    }

    TEST_CASE("a batch the host refuses is a hole") {
        Flow f;
        f.attach_live();
        f.live(0, batch_of({stored_event(prompt(1, 1))}));
        f.host.apply_answer = SLUICE_E_LIMIT;
        f.live(1, batch_of({stored_event(prompt(100, 1))}));
        CHECK(f.state() == SLUICE_KV_UNPROVEN);
        f.host.apply_answer = SLUICE_OK;
        f.live(2, batch_of({stored_event(prompt(200, 1))}));
        CHECK(f.held().size() == 2);
    }

    TEST_CASE("a faulted instance, destroyed without detach, leaves nothing behind") {
        Flow f;
        f.attach_live();
        f.at = nullptr;  // the host makes no more calls than deactivate and destroy
    }

    TEST_CASE("a host without the services refuses attach, and nothing leaks") {
        FakeHost bare;
        bare.withhold(SLUICE_SVC_EVENT);
        sluice_instance* instance = nullptr;
        REQUIRE(Adapter::make(bare.raw(), sluice::borrow("{}"), &instance, nullptr) == SLUICE_OK);
        const auto* engine =
            static_cast<const sluice_engine*>(instance->query(instance, SLUICE_EXT_ENGINE));
        CHECK(instance->query(instance, "sluice.engine/1x") == nullptr);
        sluice_endpoint ep{};
        ep.size = sizeof ep;
        ep.id = 1;
        sluice_attachment* at = nullptr;
        CHECK(engine->attach(instance, &ep, kWatchAll, &at, nullptr) == SLUICE_E_UNSUPPORTED);
        CHECK(at == nullptr);
        instance->destroy(instance);
    }
}
