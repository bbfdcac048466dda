#include <thread>

#include "tests/unit/plugin/support.hpp"

TEST_SUITE_BEGIN("plugin/engine");

using namespace sluice::plugin;
using testing::Fake;
using testing::Running;
using State = Attachment::State;

namespace {

EndpointInfo endpoint(std::uint64_t id) {
    EndpointInfo info;
    info.id = id;
    info.base_url = "http://127.0.0.1:" + std::to_string(8000 + id);
    info.address = "127.0.0.1";
    info.name = "127.0.0.1:" + std::to_string(8000 + id);
    return info;
}

// An engine plugin whose attach and detach are noted, in order.
struct Noted {
    Noted() {
        fake.has_engine = true;
        fake.on_attach = [this](const sluice_endpoint& ep, std::uint32_t watch, sluice_error*) {
            notes.push_back("attach " + std::to_string(ep.id) + " watch " + std::to_string(watch));
            CHECK(running.runtime.events().is_current());
            return sluice_status{SLUICE_OK};
        };
        fake.on_detach = [this](sluice_attachment* at) {
            notes.push_back("detach " +
                            std::to_string(reinterpret_cast<std::uintptr_t>(at) % 1000));
            CHECK(running.runtime.events().is_current());
        };
    }
    std::vector<std::string> take() {
        running.runtime.settle();
        return std::exchange(notes, {});
    }
    AttachmentPtr attach(const std::shared_ptr<EngineInstance>& engine, std::uint64_t id,
                         std::uint32_t watch = SLUICE_WATCH_LOAD) {
        auto made = engine->attach(endpoint(id), watch);
        REQUIRE(made.ok());
        return *made;
    }

    // The plugin and its notes outlive what runs it.
    std::vector<std::string> notes;
    Fake fake;
    Running running;
};

using Notes = std::vector<std::string>;

}  // namespace

TEST_CASE("rules that share an endpoint and an instance share one attachment") {
    Noted n;
    auto engine = n.running.active<EngineInstance>(n.fake);
    auto one = n.attach(engine, 1);
    auto two = n.attach(engine, 1);
    auto other = n.attach(engine, 2);
    REQUIRE(one->wait(testing::kSoon).ok());
    REQUIRE(other->wait(testing::kSoon).ok());
    CHECK(one == two);
    CHECK(one->state() == State::Attached);
    CHECK(one->endpoint().id == 1);
    CHECK(n.take() == Notes{"attach 1 watch 2", "attach 2 watch 2"});
    one.reset();
    CHECK(n.take().empty());
    two.reset();
    CHECK(n.take() == Notes{"detach 1"});
    other.reset();
    CHECK(n.take() == Notes{"detach 2"});
}

TEST_CASE("a leg keeps its attachment alive after the rule let go") {
    Noted n;
    auto engine = n.running.active<EngineInstance>(n.fake);
    auto attachment = n.attach(engine, 1);
    REQUIRE(attachment->wait(testing::kSoon).ok());
    auto leg = attachment->hold();
    REQUIRE(leg);
    CHECK(leg->at() == reinterpret_cast<sluice_attachment*>(2001));
    attachment.reset();
    engine.reset();
    CHECK(n.take() == Notes{"attach 1 watch 2"});
    std::thread request([last = std::move(leg)]() mutable { last.reset(); });
    request.join();
    CHECK(n.take() == Notes{"detach 1"});
    n.running.runtime.settle();
    CHECK(n.fake.destroyed == 1);
}

TEST_CASE("a replacement attaches after the old detach has returned") {
    Noted n;
    auto before = n.running.active<EngineInstance>(n.fake, "before");
    auto old = n.attach(before, 1);
    REQUIRE(old->wait(testing::kSoon).ok());
    CHECK_FALSE(before->is_held_elsewhere(endpoint(1).base_url));

    // Another instance of the same plugin.
    auto after = n.running.active<EngineInstance>(n.fake, "after");
    CHECK(after->is_held_elsewhere(endpoint(1).base_url));
    CHECK_FALSE(after->is_held_elsewhere(endpoint(2).base_url));
    auto next = n.attach(after, 1, SLUICE_WATCH_KV);
    CHECK(n.take() == Notes{"attach 1 watch 2"});
    CHECK(next->state() == State::Waiting);
    CHECK_FALSE(next->hold());
    CHECK_FALSE(next->wait(std::chrono::milliseconds(1)).ok());

    old.reset();
    REQUIRE(next->wait(testing::kSoon).ok());
    CHECK(n.take() == Notes{"detach 1", "attach 1 watch 1"});
    CHECK(next->hold());
}

TEST_CASE("an instance that refuses the engine makes way for one that waits, but not in circles") {
    Noted n;
    const auto say = [&](const sluice_host* host, std::uint32_t state) {
        n.running.on_event([host, state] {
            sluice_kv_report report{};
            report.size = sizeof report;
            report.dp_rank = SLUICE_ANY;
            report.endpoint = 1;
            report.state = state;
            report.why = SLUICE_WHY_BLOCK_SIZE;
            static_cast<const sluice_kv_api*>(host->query(host, SLUICE_SVC_KV))
                ->report(host, &report);
        });
    };
    auto wrong = n.running.active<EngineInstance>(n.fake, "wrong");
    const sluice_host* const wrong_host = n.fake.host;
    auto first = n.attach(wrong, 1);
    CHECK(n.take() == Notes{"attach 1 watch 2"});
    say(wrong_host, SLUICE_KV_REFUSED);
    CHECK(n.take().empty());  // nobody waits

    auto right = n.running.active<EngineInstance>(n.fake, "right");
    const sluice_host* const right_host = n.fake.host;
    auto second = n.attach(right, 1);
    CHECK(n.take() == Notes{"detach 1", "attach 1 watch 2"});
    CHECK(second->state() == State::Attached);
    CHECK(first->state() == State::Waiting);

    say(right_host, SLUICE_KV_REFUSED);
    CHECK(n.take().empty());  // the other had its turn a moment ago
    say(right_host, SLUICE_KV_LIVE);
    auto third = n.attach(n.running.active<EngineInstance>(n.fake, "third"), 1);
    CHECK(n.take().empty());  // it is admitted and stays
    second.reset();
    CHECK(n.take() == Notes{"detach 1", "attach 1 watch 2"});
    CHECK(first->state() == State::Attached);
}

TEST_CASE("an adapter that attaches for KV starts with an empty inventory") {
    Noted n;
    auto engine = n.running.active<EngineInstance>(n.fake);
    auto load_only = n.attach(engine, 1);
    REQUIRE(load_only->wait(testing::kSoon).ok());
    CHECK(n.running.sink.calls.empty());
    // What is told from here on is told once more.
    auto wider = n.attach(engine, 1, SLUICE_WATCH_KV);
    CHECK(wider == load_only);
    CHECK(n.take() == Notes{"attach 1 watch 2", "detach 1", "attach 1 watch 3"});
    CHECK(n.running.sink.calls == Notes{"reset 1 " + std::to_string(std::uint32_t{SLUICE_ANY})});
}

TEST_CASE("a waiting attachment that is dropped never attaches") {
    Noted n;
    auto before = n.running.active<EngineInstance>(n.fake, "before");
    auto after = n.running.active<EngineInstance>(n.fake, "after");
    auto old = n.attach(before, 1);
    auto waiting = n.attach(after, 1);
    auto third = n.attach(before, 1);
    CHECK(third == old);
    waiting.reset();
    n.running.runtime.settle();
    old.reset();
    third.reset();
    CHECK(n.take() == Notes{"attach 1 watch 2", "detach 1"});
}

TEST_CASE("an endpoint dropped and wanted again at once is detached in between") {
    Noted n;
    auto engine = n.running.active<EngineInstance>(n.fake);
    auto first = n.attach(engine, 1);
    REQUIRE(first->wait(testing::kSoon).ok());
    first.reset();
    auto second = n.attach(engine, 1);
    REQUIRE(second->wait(testing::kSoon).ok());
    CHECK(n.take() == Notes{"attach 1 watch 2", "detach 1", "attach 1 watch 2"});
}

TEST_CASE("a wider watch re-attaches once no leg holds the narrow one") {
    Noted n;
    auto engine = n.running.active<EngineInstance>(n.fake);
    auto load = n.attach(engine, 1, SLUICE_WATCH_LOAD);
    REQUIRE(load->wait(testing::kSoon).ok());
    auto leg = load->hold();
    auto both = n.attach(engine, 1, SLUICE_WATCH_KV);
    CHECK(both == load);
    n.running.runtime.settle();
    CHECK(both->state() == State::Waiting);
    CHECK_FALSE(both->hold());
    leg.reset();
    REQUIRE(both->wait(testing::kSoon).ok());
    CHECK(n.take() == Notes{"attach 1 watch 2", "detach 1", "attach 1 watch 3"});
    // A narrower wish changes nothing.
    auto again = n.attach(engine, 1, SLUICE_WATCH_LOAD);
    n.running.runtime.settle();
    CHECK(again->state() == State::Attached);
    CHECK(n.take().empty());
}

TEST_CASE("a refused attach says why, and does not stand in the way of the next") {
    Noted n;
    auto engine = n.running.active<EngineInstance>(n.fake);
    n.fake.on_attach = [](const sluice_endpoint&, std::uint32_t, sluice_error* err) {
        return report(err, SLUICE_E_CONFIG, "port 1 is not open");
    };
    auto failed = n.attach(engine, 1);
    const auto waited = failed->wait(testing::kSoon);
    REQUIRE_FALSE(waited.ok());
    CHECK(waited.error().what == "127.0.0.1:8001: port 1 is not open");
    CHECK(failed->state() == State::Failed);
    n.fake.on_attach = nullptr;
    auto again = n.attach(engine, 1);
    CHECK(again != failed);
    CHECK(again->wait(testing::kSoon).ok());
    failed.reset();
    n.running.runtime.settle();
    CHECK(again->state() == State::Attached);
    CHECK(n.take().empty());
}

TEST_CASE("a faulted instance is neither attached nor detached") {
    Noted n;
    auto engine = n.running.active<EngineInstance>(n.fake);
    auto attachment = n.attach(engine, 1);
    REQUIRE(attachment->wait(testing::kSoon).ok());
    (void)n.take();
    n.fake.host->fail(n.fake.host, SLUICE_E_INTERNAL, borrow("broken"));
    CHECK_FALSE(engine->attach(endpoint(2), 0).ok());
    attachment.reset();
    engine.reset();
    CHECK(n.take().empty());
    CHECK(n.fake.deactivated == 1);
    CHECK(n.fake.destroyed == 1);
}

TEST_CASE("what the engine says of itself is copied") {
    Fake fake;
    Running running;
    fake.has_engine = true;
    const char* fields[] = {"kv_transfer_params", "a.b", nullptr};
    const char* paths[] = {"/kv_cache_events", nullptr};
    fake.info = {
        sizeof(sluice_engine_info), SLUICE_CAP_PD | SLUICE_CAP_KV_EVENTS, 32, 1, fields, paths};
    auto engine = running.active<EngineInstance>(fake);
    CHECK(engine->info().block_tokens == 32);
    CHECK(engine->can(SLUICE_CAP_PD));
    CHECK_FALSE(engine->can(SLUICE_CAP_PD | SLUICE_CAP_PIN_RANK));
    CHECK(engine->info().reserved_fields == std::vector<std::string>{"kv_transfer_params", "a.b"});
    CHECK(engine->info().reserved_paths == std::vector<std::string>{"/kv_cache_events"});
}

TEST_CASE("functions a plugin does not have are not supported") {
    Fake fake;
    Running running;
    fake.has_engine = true;
    fake.info.caps = 0;
    fake.engine_table.plan = nullptr;
    fake.engine_table.build_leg = nullptr;
    auto engine = running.active<EngineInstance>(fake);
    sluice_request request{};
    sluice_plan plan{};
    sluice_leg leg{};
    sluice_leg_out out{};
    auto err = empty_error();
    CHECK(engine->plan(request, plan, &err) == SLUICE_E_UNSUPPORTED);
    CHECK_FALSE(text_of(err).empty());
    CHECK(engine->build_leg(leg, out, nullptr) == SLUICE_E_UNSUPPORTED);
    std::vector<std::uint64_t> room(4);
    const auto hashes = engine->hash_blocks(sluice_hash_input{}, room);
    REQUIRE_FALSE(hashes.ok());
    CHECK(hashes.error().code == sluice::Code::Unsupported);
    sluice_reply reply{};
    sluice_reply_out answer{};
    CHECK(engine->on_reply(leg, reply, answer, nullptr) == SLUICE_OK);
    CHECK(answer.next == SLUICE_NEXT_CONTINUE);
}

TEST_CASE("requests and the event thread use one instance at the same time") {
    Noted n;
    n.fake.on_attach = nullptr;
    n.fake.on_detach = nullptr;
    auto engine = n.running.active<EngineInstance>(n.fake);
    auto attachment = n.attach(engine, 1);
    std::atomic<bool> stop{false};
    std::vector<std::thread> requests;
    for (int t = 0; t < 3; ++t) {
        requests.emplace_back([&] {
            while (!stop) {
                const auto leg = attachment->hold();
                sluice_request request{};
                sluice_plan plan{};
                (void)engine->plan(request, plan, nullptr);
                std::this_thread::yield();
            }
        });
    }
    for (std::uint32_t watch = 1; watch < 8; ++watch) {
        auto wider = n.attach(engine, 1, watch);
        CHECK(wider->wait(testing::kSoon).ok());
    }
    stop = true;
    for (auto& thread : requests) {
        thread.join();
    }
}

TEST_SUITE_END();
