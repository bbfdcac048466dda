// What goes on while the store takes its time.
#include <doctest/doctest.h>

#include <condition_variable>
#include <thread>

#include "core/base/log.hpp"
#include "core/rules/rule_book.hpp"
#include "tests/unit/rules/bodies.hpp"
#include "tests/unit/rules/fakes.hpp"

TEST_SUITE_BEGIN("rules/store_wait");

using namespace sluice;
using namespace sluice::rules;
using test::body;

namespace {

const Actor kAnn{"ann", "127.0.0.9"};

// A disk on which a change does not end until it is let go.
class SlowStore final : public state::Store {
public:
    Result<state::Contents> load() override { return below.load(); }
    Status commit(const state::Change& change) override {
        std::unique_lock lock(mu_);
        is_waiting_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return is_let_go_; });
        return below.commit(change);
    }
    Result<std::vector<state::AuditRow>> audit(const state::AuditQuery& q) override {
        return below.audit(q);
    }
    state::Marks marks() const override { return {}; }
    Status persist() override { return {}; }
    Result<std::string> backup() override { return std::string(); }

    void await_change() {
        std::unique_lock lock(mu_);
        changed_.wait(lock, [this] { return is_waiting_; });
    }
    void let_go() {
        {
            const std::lock_guard lock(mu_);
            is_let_go_ = true;
        }
        changed_.notify_all();
    }

    test::MemoryStore below;

private:
    std::mutex mu_;
    std::condition_variable changed_;
    bool is_waiting_ = false;
    bool is_let_go_ = false;
};

}  // namespace

TEST_CASE("while a change is being stored reading goes on, and another change is told to wait") {
    log::set_sink([](log::Level, const std::string&) {});
    SlowStore store;
    test::RecordingHooks hooks;
    RuleBook book(store, hooks);
    book.set_patience(std::chrono::milliseconds(1));
    Outcome first;
    std::jthread writer([&] { first = book.put(body(), kAnn); });
    store.await_change();
    // All of this would wait for ever if it needed what the change holds.
    CHECK(book.table()->rules().empty());
    CHECK_FALSE(book.setting("prometheus").has_value());
    CHECK(book.warnings(1).empty());
    CHECK(book.dormant().empty());
    CHECK(book.last_persist().error.empty());
    for (const auto& refusal :
         {book.put(body({{"port", "81"}}), kAnn).refusal, book.remove_all(kAnn).refusal,
          book.set("prometheus", "off", kAnn), book.import({body()}, false, kAnn).refusal,
          book.restore({}, true, kAnn).refusal}) {
        REQUIRE(refusal.has_value());
        CHECK(refusal->status == 503);
        CHECK(refusal->code == "storage_busy");
    }
    CHECK_FALSE(book.is_restoring());
    store.let_go();
    writer.join();
    CHECK_FALSE(first.refusal.has_value());
    CHECK(book.table()->rules().size() == 1);
    CHECK_FALSE(book.put(body({{"port", "81"}}), kAnn).refusal.has_value());
    log::set_sink({});
}

TEST_SUITE_END();
