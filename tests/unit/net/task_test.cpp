#include "core/net/task.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "core/base/log.hpp"
#include "core/net/loop.hpp"

using namespace sluice;
using namespace sluice::net;

namespace {

Task<int> one() {
    co_return 1;
}
Task<int> throws() {
    throw std::runtime_error("broken");
    co_return 0;
}
Task<std::unique_ptr<int>> boxed(int n) {
    co_return std::make_unique<int>(n);
}

}  // namespace

TEST_SUITE("net/task") {
    TEST_CASE("a task does nothing before it is awaited") {
        bool ran = false;
        auto body = [](bool& flag) -> Task<void> {
            flag = true;
            co_return;
        };
        {
            const Task<void> task = body(ran);
        }
        CHECK_FALSE(ran);
    }

    TEST_CASE("a million tasks that finish at once need no stack") {
        auto loop = Loop::create().value();
        auto body = []() -> Task<int> {
            int sum = 0;
            for (int i = 0; i < 1'000'000; ++i) {
                sum += co_await one();
            }
            co_return sum;
        };
        CHECK(run_task(*loop, body()) == 1'000'000);
    }

    TEST_CASE("results may be move-only, and exceptions reach the awaiter") {
        auto loop = Loop::create().value();
        auto body = []() -> Task<std::string> {
            auto box = co_await boxed(7);
            try {
                (void)co_await throws();
            } catch (const std::runtime_error& e) {
                co_return std::to_string(*box) + e.what();
            }
            co_return "not thrown";
        };
        CHECK(run_task(*loop, body()) == "7broken");
    }

    TEST_CASE("an exception of a spawned task is logged and ends only that task") {
        std::string line;
        log::set_sink([&](log::Level, const std::string& text) { line = text; });
        TaskGroup group;
        auto body = []() -> Task<void> {
            (void)co_await throws();
        };
        group.spawn(body());
        log::set_sink({});
        CHECK(group.size() == 0);
        CHECK(line.find("broken") != std::string::npos);
    }

    TEST_CASE("frames come back to their thread's pool") {
        void* first = allocate_frame(100);
        free_frame(first, 100);
        void* second = allocate_frame(128);  // the same size class
        void* large = allocate_frame(kMaxFrameBytes + 1);
        free_frame(large, kMaxFrameBytes + 1);
        free_frame(second, 128);
        CHECK(second != nullptr);
    }
}
