#include <thread>

#include "core/base/clock.hpp"
#include "core/base/metrics.hpp"
#include "tests/unit/plugin/support.hpp"

TEST_SUITE_BEGIN("plugin/services");

using namespace sluice::plugin;
using testing::Fake;
using testing::Running;
using testing::Signal;

namespace {

struct Setup {
    Setup() {
        fake.has_engine = true;
        engine = running.active<EngineInstance>(fake);
    }
    Fake fake;
    Running running;
    std::shared_ptr<EngineInstance> engine;
};

const sluice::metrics::Sample* find_sample(const std::vector<sluice::metrics::Family>& families,
                                           const std::string& name, const std::string& instance,
                                           const std::string& label = {}) {
    for (const auto& family : families) {
        if (family.name != name) {
            continue;
        }
        for (const auto& sample : family.samples) {
            if (sample.labels.size() > 1 && sample.labels[1].second == instance &&
                (label.empty() || sample.labels.back().second == label)) {
                return &sample;
            }
        }
    }
    return nullptr;
}

sluice_metric_spec spec_of(const char* name, std::uint32_t kind, const char* unit = "") {
    sluice_metric_spec spec{};
    spec.size = sizeof spec;
    spec.kind = kind;
    spec.name = borrow(name);
    spec.unit = borrow(unit);
    spec.help = borrow("help");
    return spec;
}

}  // namespace

TEST_CASE("a one-shot timer fires once on the event thread and not early") {
    Setup s;
    struct Fired {
        Signal signal;
        Runtime* runtime = nullptr;
        std::uint64_t at_us = 0;
        bool is_event_thread = false;
    } fired;
    fired.runtime = &s.running.runtime;
    std::uint64_t start = 0;
    s.running.on_event([&] {
        sluice_timer* timer = nullptr;
        start = s.fake.events().now_us(s.fake.host);
        CHECK(s.fake.events().timer_start(
                  s.fake.host, 20'000, 0,
                  [](void* user) {
                      auto& f = *static_cast<Fired*>(user);
                      f.at_us = sluice::now_us();
                      f.is_event_thread = f.runtime->events().is_current();
                      f.signal.set();
                  },
                  &fired, &timer, nullptr) == SLUICE_OK);
    });
    REQUIRE(fired.signal.wait());
    CHECK(fired.is_event_thread);
    CHECK(fired.at_us - start >= 20'000);
}

TEST_CASE("a periodic timer goes on until it cancels itself, and a stale handle is harmless") {
    Setup s;
    struct Ticks {
        Fake* fake = nullptr;
        sluice_timer* timer = nullptr;
        int count = 0;
        Signal signal;
    } ticks;
    ticks.fake = &s.fake;
    s.running.on_event([&] {
        CHECK(s.fake.events().timer_start(
                  s.fake.host, 0, 1000,
                  [](void* user) {
                      auto& t = *static_cast<Ticks*>(user);
                      if (++t.count == 3) {
                          t.fake->events().timer_cancel(t.fake->host, t.timer);
                          t.fake->events().timer_cancel(t.fake->host, t.timer);
                          t.signal.set();
                      }
                  },
                  &ticks, &ticks.timer, nullptr) == SLUICE_OK);
    });
    REQUIRE(ticks.signal.wait());
    s.running.on_event([&] { CHECK(ticks.count == 3); });
    CHECK(s.engine->defects() == 0);
}

TEST_CASE("timers have a bound and start on the event thread only") {
    RuntimeOptions options;
    options.max_timers = 3;
    Fake fake;
    Running running(options);
    fake.has_engine = true;
    auto engine = running.active<EngineInstance>(fake);
    const auto start = [&] {
        sluice_timer* timer = nullptr;
        return fake.events().timer_start(
            fake.host, 3'600'000'000U, 0, [](void*) {}, nullptr, &timer, nullptr);
    };
    CHECK(start() == SLUICE_E_STATE);
    CHECK(engine->defects() == 1);
    running.on_event([&] {
        CHECK(start() == SLUICE_OK);
        CHECK(start() == SLUICE_OK);
        CHECK(start() == SLUICE_OK);
        CHECK(start() == SLUICE_E_LIMIT);
    });
}

TEST_CASE("posts run in order per thread and have a bound") {
    RuntimeOptions options;
    options.max_posts = 4;
    Fake fake;
    Running running(options);
    fake.has_engine = true;
    auto engine = running.active<EngineInstance>(fake);
    // The event thread is held, so that posts pile up.
    std::promise<void> go;
    auto gate = go.get_future().share();
    Signal held;
    running.runtime.events().post([gate, &held] {
        held.set();
        gate.wait();
    });
    REQUIRE(held.wait());
    std::vector<int> order;
    struct Post {
        std::vector<int>* order;
        int n;
    };
    std::vector<Post> posts;
    for (int i = 0; i < 5; ++i) {
        posts.push_back({&order, i});
    }
    const auto push = [](void* user) {
        auto& p = *static_cast<Post*>(user);
        p.order->push_back(p.n);
    };
    for (int i = 0; i < 4; ++i) {
        CHECK(fake.events().post(fake.host, push, &posts[static_cast<std::size_t>(i)]) ==
              SLUICE_OK);
    }
    CHECK(fake.events().post(fake.host, push, &posts[4]) == SLUICE_E_LIMIT);
    go.set_value();
    running.on_event([] {});
    CHECK(order == std::vector<int>{0, 1, 2, 3});
    CHECK(fake.events().post(fake.host, push, &posts[4]) == SLUICE_OK);
    running.on_event([] {});
    CHECK(order.size() == 5);
    CHECK(fake.events().post(fake.host, nullptr, nullptr) == SLUICE_E_INVALID);
}

TEST_CASE("what was posted does not run once the instance is deactivated") {
    Setup s;
    bool ran = false;
    s.fake.on_deactivate = [&] {
        // Posted from control while the event thread is busy with what closes the instance later.
        CHECK(s.fake.events().post(
                  s.fake.host, [](void* user) { *static_cast<bool*>(user) = true; }, &ran) ==
              SLUICE_OK);
        s.fake.host->fail(s.fake.host, SLUICE_E_INTERNAL, borrow("stop"));
    };
    std::promise<void> go;
    auto gate = go.get_future().share();
    s.running.runtime.events().post([gate] { gate.wait(); });
    s.engine.reset();
    std::thread later([&go] { go.set_value(); });
    s.running.runtime.settle();
    later.join();
    CHECK_FALSE(ran);
}

TEST_CASE("metrics are named, labelled and counted by kind") {
    Fake fake;
    Running running;
    fake.has_engine = true;
    sluice_metric* requests = nullptr;
    sluice_metric* ratio = nullptr;
    sluice_metric* latency = nullptr;
    fake.on_activate = [&](sluice_error* err) -> sluice_status {
        const auto& api = fake.service<sluice_metrics_api>(SLUICE_SVC_METRICS);
        auto spec = spec_of("test_replays", SLUICE_METRIC_COUNTER);
        const sluice_str label = borrow("reason");
        spec.label_names = &label;
        spec.num_labels = 1;
        CHECK(api.declare(fake.host, &spec, &requests, err) == SLUICE_OK);
        spec = spec_of("test_used", SLUICE_METRIC_GAUGE, "ratio");
        CHECK(api.declare(fake.host, &spec, &ratio, err) == SLUICE_OK);
        spec = spec_of("test_took_seconds", SLUICE_METRIC_HISTOGRAM, "seconds");
        const std::vector<double> bounds{0.1, 1};
        spec.buckets = bounds.data();
        spec.num_buckets = 2;
        CHECK(api.declare(fake.host, &spec, &latency, err) == SLUICE_OK);
        return SLUICE_OK;
    };
    auto engine = running.active<EngineInstance>(fake, "metrics-1");
    const auto& api = fake.service<sluice_metrics_api>(SLUICE_SVC_METRICS);
    const sluice_str gap = borrow("gap");
    api.record(fake.host, requests, 2, &gap, 1);
    api.record(fake.host, requests, 1, &gap, 1);
    api.record(fake.host, requests, -5, &gap, 1);    // a counter never falls
    api.record(fake.host, requests, 1, nullptr, 0);  // labels missing
    api.record(fake.host, ratio, 0.5, nullptr, 0);
    api.record(fake.host, latency, 0.05, nullptr, 0);
    api.record(fake.host, latency, 7, nullptr, 0);
    api.record(fake.host, nullptr, 7, nullptr, 0);
    api.record(fake.host, reinterpret_cast<sluice_metric*>(0xDEAD), 7, nullptr, 0);

    const auto families = sluice::metrics::registry().collect();
    const auto* sample =
        find_sample(families, "sluice_plugin_test_replays_total", "metrics-1", "gap");
    REQUIRE(sample != nullptr);
    CHECK(sample->value == 3);
    CHECK(sample->labels[0].second == "org.example.fake");
    sample = find_sample(families, "sluice_plugin_test_used_ratio", "metrics-1");
    REQUIRE(sample != nullptr);
    CHECK(sample->value == 0.5);
    sample = find_sample(families, "sluice_plugin_test_took_seconds", "metrics-1");
    REQUIRE(sample != nullptr);
    CHECK(sample->buckets == std::vector<std::uint64_t>{1, 0, 1});

    // After activate nothing is declared any more.
    auto spec = spec_of("test_late", SLUICE_METRIC_GAUGE);
    sluice_metric* late = nullptr;
    CHECK(api.declare(fake.host, &spec, &late, nullptr) == SLUICE_E_STATE);
}

TEST_CASE("label values beyond the bound share one child") {
    Fake fake;
    Running running;
    fake.has_engine = true;
    sluice_metric* metric = nullptr;
    const sluice_str label = borrow("who");
    fake.on_activate = [&](sluice_error* err) -> sluice_status {
        auto spec = spec_of("test_flood", SLUICE_METRIC_COUNTER);
        spec.label_names = &label;
        spec.num_labels = 1;
        return fake.service<sluice_metrics_api>(SLUICE_SVC_METRICS)
            .declare(fake.host, &spec, &metric, err);
    };
    auto engine = running.active<EngineInstance>(fake, "flood-1");
    for (int i = 0; i < 1000; ++i) {
        const std::string value = "v" + std::to_string(i);
        const sluice_str borrowed = borrow(value);
        fake.service<sluice_metrics_api>(SLUICE_SVC_METRICS)
            .record(fake.host, metric, 1, &borrowed, 1);
    }
    const auto families = sluice::metrics::registry().collect();
    const auto* other = find_sample(families, "sluice_plugin_test_flood_total", "flood-1", "other");
    REQUIRE(other != nullptr);
    CHECK(other->value == 1000 - 64);
}

TEST_CASE("unusable metrics are refused with the reason") {
    Fake fake;
    Running running;
    fake.has_engine = true;
    fake.on_activate = [&](sluice_error*) -> sluice_status {
        const auto& api = fake.service<sluice_metrics_api>(SLUICE_SVC_METRICS);
        sluice_metric* out = nullptr;
        auto spec = spec_of("Bad Name", SLUICE_METRIC_GAUGE);
        CHECK(api.declare(fake.host, &spec, &out, nullptr) == SLUICE_E_INVALID);
        spec = spec_of("test_kind", 9);
        CHECK(api.declare(fake.host, &spec, &out, nullptr) == SLUICE_E_INVALID);
        spec = spec_of("test_buckets", SLUICE_METRIC_HISTOGRAM);
        CHECK(api.declare(fake.host, &spec, &out, nullptr) == SLUICE_E_INVALID);
        const std::vector<double> falling{2, 1};
        spec.buckets = falling.data();
        spec.num_buckets = 2;
        CHECK(api.declare(fake.host, &spec, &out, nullptr) == SLUICE_E_INVALID);
        spec = spec_of("test_labels", SLUICE_METRIC_GAUGE);
        const sluice_str reserved = borrow("plugin");
        spec.label_names = &reserved;
        spec.num_labels = 1;
        CHECK(api.declare(fake.host, &spec, &out, nullptr) == SLUICE_E_INVALID);
        spec.num_labels = 100;
        CHECK(api.declare(fake.host, &spec, &out, nullptr) == SLUICE_E_LIMIT);
        spec = spec_of("test_shape", SLUICE_METRIC_GAUGE);
        CHECK(api.declare(fake.host, &spec, &out, nullptr) == SLUICE_OK);
        spec.kind = SLUICE_METRIC_COUNTER;  // another name, as counters end in _total
        CHECK(api.declare(fake.host, &spec, &out, nullptr) == SLUICE_OK);
        spec = spec_of("test_shape_total", SLUICE_METRIC_GAUGE);
        CHECK(api.declare(fake.host, &spec, &out, nullptr) == SLUICE_E_INVALID);
        return SLUICE_OK;
    };
    auto engine = running.active<EngineInstance>(fake);
}

TEST_CASE("a plugin's log line carries its plugin, its instance and its fields") {
    Setup s;
    const auto& log = s.fake.service<sluice_log_api>(SLUICE_SVC_LOG);
    const sluice_pair fields[] = {{borrow("rank"), borrow("3")}, {borrow("why"), borrow("a b")}};
    log.write(s.fake.host, SLUICE_LOG_WARN, borrow("replay began"), fields, 2);
    CHECK(s.running.log.says("\"replay began\" plugin=org.example.fake instance=fake-1 data="));
    CHECK(s.running.log.says("rank=3"));
    CHECK(log.enabled(s.fake.host, SLUICE_LOG_ERROR) == 1);
}

TEST_CASE("what an adapter learns reaches the sink, for attached endpoints only") {
    Setup s;
    const auto& fleet = s.fake.service<sluice_fleet_api>(SLUICE_SVC_FLEET);
    const auto& kv = s.fake.service<sluice_kv_api>(SLUICE_SVC_KV);
    auto attachment = s.engine->attach(
        {7, 0, "http://127.0.0.1:9", "127.0.0.1", "e", "{}", "", 1, 1}, SLUICE_WATCH_KV);
    REQUIRE(attachment.ok());
    REQUIRE((*attachment)->wait(testing::kSoon).ok());
    s.running.on_event([&] { s.running.sink.calls.clear(); });  // the reset of an attach
    const sluice_host* host = s.fake.host;
    const std::uint64_t hash = 1;
    sluice_kv_event event{};
    event.size = sizeof event;
    event.type = SLUICE_KV_STORED;
    event.tier = SLUICE_TIER_GPU;
    event.num_hashes = 1;
    event.hashes = &hash;
    sluice_kv_batch batch{};
    batch.size = sizeof batch;
    batch.endpoint = 7;
    batch.events = {&event, 1, sizeof event};
    s.running.on_event([&] {
        sluice_load load{};
        load.size = sizeof load;
        load.endpoint = 7;
        load.running = 4;
        fleet.load(host, &load);
        fleet.health(host, 7, SLUICE_HEALTH_READY, borrow("fine"));
        sluice_engine_facts facts{};
        facts.size = sizeof facts;
        facts.endpoint = 7;
        facts.version = borrow("vLLM 0.31.0");
        fleet.facts(host, &facts);
        fleet.models(host, 7, {nullptr, 0, 0});
        std::uint32_t unplaced = 99;
        CHECK(kv.apply(host, &batch, &unplaced, nullptr) == SLUICE_OK);
        CHECK(unplaced == 0);
        kv.reset(host, 7, SLUICE_ANY);
        sluice_kv_report report{};
        report.size = sizeof report;
        report.endpoint = 7;
        report.state = SLUICE_KV_LIVE;
        report.why = 4711;  // a reason of a later SDK
        kv.report(host, &report);
    });
    CHECK(s.running.sink.calls == std::vector<std::string>{"load 7 running 4", "health 7 1 fine",
                                                           "facts 7 vLLM 0.31.0", "models 7 x0",
                                                           "apply 7 x1", "reset 7 4294967295",
                                                           "report 7 why 12"});
    CHECK(s.engine->defects() == 0);

    s.running.sink.calls.clear();
    s.running.on_event([&] {
        batch.endpoint = 8;
        CHECK(kv.apply(host, &batch, nullptr, nullptr) == SLUICE_E_NOT_FOUND);
        fleet.health(host, 8, SLUICE_HEALTH_READY, {});
        fleet.health(host, 7, 99, {});
        fleet.load(host, nullptr);
    });
    CHECK(s.running.sink.calls.empty());
    CHECK(s.engine->defects() == 4);
    // Off the event thread nothing is taken.
    fleet.health(host, 7, SLUICE_HEALTH_READY, {});
    CHECK(s.running.sink.calls.empty());
    CHECK(s.engine->defects() == 5);
}

TEST_CASE("a batch that cannot be right is refused before the sink sees any of it") {
    Setup s;
    const auto& kv = s.fake.service<sluice_kv_api>(SLUICE_SVC_KV);
    auto attachment = s.engine->attach(
        {7, 0, "http://127.0.0.1:9", "127.0.0.1", "e", "{}", "", 1, 1}, SLUICE_WATCH_KV);
    REQUIRE((*attachment)->wait(testing::kSoon).ok());
    s.running.on_event([&] { s.running.sink.calls.clear(); });  // the reset of an attach
    const std::uint64_t hash = 1;
    const auto good = [&] {
        sluice_kv_event event{};
        event.size = sizeof event;
        event.type = SLUICE_KV_STORED;
        event.tier = SLUICE_TIER_GPU;
        event.num_hashes = 1;
        event.hashes = &hash;
        return event;
    };
    std::vector<sluice_kv_event> bad(7, good());
    bad[0].type = 9;
    bad[1].tier = 0;
    bad[2].tier = SLUICE_ANY;  // only CLEARED may say so
    bad[3].hashes = nullptr;
    bad[4].num_tokens = 16;  // without tokens
    bad[5].size = 8;
    bad[6].num_hashes = UINT32_MAX;
    s.running.on_event([&] {
        for (const sluice_kv_event& event : bad) {
            const std::vector<sluice_kv_event> events{good(), event};
            sluice_kv_batch batch{};
            batch.size = sizeof batch;
            batch.endpoint = 7;
            batch.events = {events.data(), 2, sizeof(sluice_kv_event)};
            auto err = empty_error();
            CHECK(kv.apply(s.fake.host, &batch, nullptr, &err) == SLUICE_E_INVALID);
            CHECK_FALSE(text_of(err).empty());
        }
    });
    CHECK(s.running.sink.calls.empty());
    CHECK(s.engine->defects() == bad.size());
}

TEST_SUITE_END();
