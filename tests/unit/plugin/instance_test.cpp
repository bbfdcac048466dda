#include <thread>

#include "tests/unit/plugin/support.hpp"

TEST_SUITE_BEGIN("plugin/instance");

using namespace sluice::plugin;
using testing::Fake;
using testing::Running;

namespace {

// An engine is the simplest instance to hold; these tests are about any.
std::shared_ptr<EngineInstance> make(Running& running, Fake& fake) {
    fake.has_engine = true;
    return running.active<EngineInstance>(fake);
}

}  // namespace

TEST_CASE("an instance gets its configuration and ends in order on the control queue") {
    Fake fake;
    Running running;
    fake.has_engine = true;
    std::thread::id deactivated_on;
    fake.on_deactivate = [&] {
        deactivated_on = std::this_thread::get_id();
    };
    auto made = EngineInstance::create(running.runtime, fake.plugin(), {"e-1", R"({"a":1})", {}});
    REQUIRE(made.ok());
    CHECK(fake.config == R"({"a":1})");
    CHECK_FALSE((*made)->is_active());
    REQUIRE((*made)->activate().ok());
    CHECK((*made)->is_active());
    std::thread elsewhere([last = std::move(made).value()]() mutable { last.reset(); });
    const auto elsewhere_id = elsewhere.get_id();
    elsewhere.join();
    running.runtime.settle();
    CHECK(fake.deactivated == 1);
    CHECK(fake.destroyed == 1);
    CHECK(deactivated_on != elsewhere_id);
    CHECK(deactivated_on != std::this_thread::get_id());
}

TEST_CASE("an instance that was never active is destroyed without deactivate") {
    Fake fake;
    Running running;
    fake.has_engine = true;
    {
        auto made = EngineInstance::create(running.runtime, fake.plugin(), {"e", "{}", {}});
    }
    running.runtime.settle();
    CHECK(fake.deactivated == 0);
    CHECK(fake.destroyed == 1);
}

TEST_CASE("refusals of create and activate carry the plugin's words") {
    Fake fake;
    Running running;
    fake.has_engine = true;
    fake.on_create = [](sluice_error* err) {
        return report(err, SLUICE_E_CONFIG, "key_file: not readable");
    };
    auto made = EngineInstance::create(running.runtime, fake.plugin(), {"e", "{}", {}});
    REQUIRE_FALSE(made.ok());
    CHECK(made.error().code == sluice::Code::Invalid);
    CHECK(made.error().what == "org.example.fake: key_file: not readable");
    fake.on_create = nullptr;
    fake.on_activate = [](sluice_error* err) {
        return report(err, SLUICE_E_UNAVAILABLE, "no room");
    };
    made = EngineInstance::create(running.runtime, fake.plugin(), {"e", "{}", {}});
    REQUIRE(made.ok());
    const auto active = (*made)->activate();
    REQUIRE_FALSE(active.ok());
    CHECK(active.error().what == "org.example.fake: no room");
    CHECK_FALSE((*made)->is_active());
    // What did not come up is not taken down.
    made = sluice::Error{};
    running.runtime.settle();
    CHECK(fake.deactivated == 0);
    CHECK(fake.destroyed == 1);
}

TEST_CASE("an extension that is promised but missing or short refuses the instance") {
    Fake fake;
    Running running;
    fake.has_engine = true;
    const auto plugin = fake.plugin();
    fake.has_engine = false;
    CHECK_FALSE(EngineInstance::create(running.runtime, plugin, {"e", "{}", {}}).ok());
    fake.has_engine = true;
    fake.engine_table.size = 16;
    CHECK_FALSE(EngineInstance::create(running.runtime, plugin, {"e", "{}", {}}).ok());
    fake.engine_table.size = sizeof(sluice_engine);
    fake.engine_table.plan = nullptr;  // claims SLUICE_CAP_PD
    CHECK_FALSE(EngineInstance::create(running.runtime, plugin, {"e", "{}", {}}).ok());
    CHECK_FALSE(SelectorInstance::create(running.runtime, plugin, {"e", "{}", {}}).ok());
}

TEST_CASE("host->fail faults the instance: its owner is told once and it gets no more calls") {
    Fake fake;
    Running running;
    fake.has_engine = true;
    std::atomic<int> told{0};
    std::string why;
    auto engine = running.active<EngineInstance>(fake, "e", [&](const std::string& text) {
        why = text;
        ++told;
    });
    fake.host->fail(fake.host, SLUICE_E_INTERNAL, borrow("lost my key"));
    fake.host->fail(fake.host, SLUICE_E_INTERNAL, borrow("again"));
    running.runtime.settle();
    CHECK(told == 1);
    CHECK(why == "lost my key");
    CHECK(engine->is_faulted());
    CHECK(engine->fault_text() == "lost my key");

    bool was_called = false;
    fake.on_plan = [&](const sluice_request&, sluice_plan&, sluice_error*) -> sluice_status {
        was_called = true;
        return SLUICE_OK;
    };
    sluice_request request{};
    sluice_plan plan{};
    CHECK(engine->plan(request, plan, nullptr) == SLUICE_E_STATE);
    CHECK_FALSE(was_called);
    CHECK(fake.events().post(fake.host, [](void*) {}, nullptr) == SLUICE_E_STATE);
    engine.reset();
    running.runtime.settle();
    CHECK(fake.deactivated == 1);
    CHECK(fake.destroyed == 1);
}

TEST_CASE("a status nobody knows counts as an internal error") {
    Fake fake;
    Running running;
    auto engine = make(running, fake);
    fake.on_plan = [](const sluice_request&, sluice_plan&, sluice_error*) -> sluice_status {
        return 4711;
    };
    sluice_request request{};
    sluice_plan plan{};
    for (int i = 0; i < 3; ++i) {
        CHECK(engine->plan(request, plan, nullptr) == SLUICE_E_INTERNAL);
    }
    CHECK(engine->is_faulted());
}

TEST_CASE("what is posted during activation runs after it, in order, on the event thread") {
    Fake fake;
    Running running;
    fake.has_engine = true;
    std::vector<int> order;
    struct Post {
        std::vector<int>* order;
        int number;
        Running* running;
    };
    std::vector<Post> posts{{&order, 1, &running}, {&order, 2, &running}};
    bool is_active = false;
    fake.on_activate = [&](sluice_error*) -> sluice_status {
        for (Post& post : posts) {
            CHECK(fake.events().post(
                      fake.host,
                      [](void* user) {
                          auto& p = *static_cast<Post*>(user);
                          CHECK(p.running->runtime.events().is_current());
                          p.order->push_back(p.number);
                      },
                      &post) == SLUICE_OK);
        }
        running.on_event([] {});
        CHECK(order.empty());
        is_active = true;
        return SLUICE_OK;
    };
    auto engine = running.active<EngineInstance>(fake);
    running.on_event([] {});
    CHECK(is_active);
    CHECK(order == std::vector<int>{1, 2});
}

TEST_CASE("create may not start anything") {
    Fake fake;
    Running running;
    fake.has_engine = true;
    sluice_status posted = SLUICE_OK;
    fake.on_create = [&](sluice_error*) -> sluice_status {
        posted = fake.events().post(fake.host, [](void*) {}, nullptr);
        return SLUICE_OK;
    };
    auto made = EngineInstance::create(running.runtime, fake.plugin(), {"e", "{}", {}});
    CHECK(made.ok());
    CHECK(posted == SLUICE_E_STATE);
}

TEST_CASE("leftovers are cancelled after deactivate and counted as a defect") {
    Fake fake;
    Running running;
    auto engine = make(running, fake);
    int ticks = 0;
    running.on_event([&] {
        sluice_timer* timer = nullptr;
        CHECK(fake.events().timer_start(
                  fake.host, 3'600'000'000, 0, [](void* user) { ++*static_cast<int*>(user); },
                  &ticks, &timer, nullptr) == SLUICE_OK);
    });
    const auto host = engine->host().shared_from_this();
    engine.reset();
    running.runtime.settle();
    CHECK(fake.destroyed == 1);
    CHECK(host->defects() == 1);
    CHECK(running.log.says("left"));
}

TEST_CASE("a timer that deactivate cancels from the control thread is no leftover") {
    Fake fake;
    Running running;
    auto engine = make(running, fake);
    sluice_timer* timer = nullptr;
    running.on_event([&] {
        CHECK(fake.events().timer_start(
                  fake.host, 3'600'000'000, 0, [](void*) {}, nullptr, &timer, nullptr) ==
              SLUICE_OK);
    });
    fake.on_deactivate = [&] {
        fake.events().timer_cancel(fake.host, timer);
    };
    const auto host = engine->host().shared_from_this();
    engine.reset();
    running.runtime.settle();
    CHECK(host->defects() == 0);
}

TEST_CASE("deactivate may wait for the event thread") {
    Fake fake;
    Running running;
    auto engine = make(running, fake);
    testing::Signal seen;
    bool was_seen = false;
    fake.on_deactivate = [&] {
        CHECK(fake.events().post(
                  fake.host, [](void* user) { static_cast<testing::Signal*>(user)->set(); },
                  &seen) == SLUICE_OK);
        was_seen = seen.wait();
    };
    engine.reset();
    running.runtime.settle();
    CHECK(was_seen);
}

TEST_CASE("after deactivate every service answers that the state is wrong") {
    Fake fake;
    Running running;
    auto engine = make(running, fake);
    const sluice_host* host = fake.host;
    const auto keep = engine->host().shared_from_this();
    const auto& events = fake.events();
    const auto& http = fake.service<sluice_http_api>(SLUICE_SVC_HTTP);
    const auto& zmq = fake.service<sluice_zmq_api>(SLUICE_SVC_ZMQ);
    const auto& kv = fake.service<sluice_kv_api>(SLUICE_SVC_KV);
    const auto& metrics = fake.service<sluice_metrics_api>(SLUICE_SVC_METRICS);
    engine.reset();
    running.runtime.settle();

    CHECK(events.post(host, [](void*) {}, nullptr) == SLUICE_E_STATE);
    running.on_event([&] {
        sluice_timer* timer = nullptr;
        CHECK(events.timer_start(
                  host, 1, 0, [](void*) {}, nullptr, &timer, nullptr) == SLUICE_E_STATE);
        sluice_http_request request{};
        request.size = sizeof request;
        sluice_http_call* call = nullptr;
        CHECK(http.start(
                  host, &request, [](void*, const sluice_http_result*) {}, nullptr, &call,
                  nullptr) == SLUICE_E_STATE);
        sluice_zmq_options options{};
        options.size = sizeof options;
        sluice_zmq_handler handler{};
        handler.size = sizeof handler;
        sluice_zmq_socket* socket = nullptr;
        CHECK(zmq.open(host, &options, &handler, &socket, nullptr) == SLUICE_E_STATE);
        sluice_kv_batch batch{};
        batch.size = sizeof batch;
        CHECK(kv.apply(host, &batch, nullptr, nullptr) == SLUICE_E_STATE);
    });
    sluice_metric_spec spec{};
    spec.size = sizeof spec;
    sluice_metric* metric = nullptr;
    CHECK(metrics.declare(host, &spec, &metric, nullptr) == SLUICE_E_STATE);
    CHECK(keep->defects() == 0);
}

TEST_CASE("an instance that outlives the runtime is closed by it") {
    Fake fake;
    fake.has_engine = true;
    std::shared_ptr<EngineInstance> left;
    {
        testing::RecordingSink sink;
        testing::QuietLog log;
        Runtime runtime(sink);
        REQUIRE(runtime.start().ok());
        auto made = EngineInstance::create(runtime, fake.plugin(), {"e", "{}", {}});
        REQUIRE(made.ok());
        REQUIRE((*made)->activate().ok());
        left = *made;
        made = sluice::Error{};
        runtime.stop();
        CHECK_FALSE(left->is_active());
        CHECK(log.says("outlives"));
        left.reset();
        CHECK(fake.destroyed == 1);
    }
}

TEST_SUITE_END();
