#include <limits>
#include <thread>

#include "tests/unit/plugin/support.hpp"

TEST_SUITE_BEGIN("plugin/selector");

using namespace sluice::plugin;
using testing::Fake;
using testing::row;
using testing::Running;
using By = SelectorChoice::By;

namespace {

using Rows = std::vector<sluice_candidate>;

struct Chain {
    explicit Chain(std::size_t count = 1) {
        for (std::size_t i = 0; i < count; ++i) {
            fakes.push_back(std::make_unique<Fake>("org.example.sel" + std::to_string(i)));
            fakes.back()->has_selector = true;
        }
    }
    // Makes the view; the hooks of the fakes are set before.
    std::shared_ptr<const SelectorView> view(const Rows& rows, std::vector<float> weights = {}) {
        std::vector<SelectorPart> parts;
        for (std::size_t i = 0; i < fakes.size(); ++i) {
            parts.push_back({running.active<SelectorInstance>(*fakes[i], "s" + std::to_string(i)),
                             weights.empty() ? 1.0F : weights[i]});
        }
        auto made = SelectorView::prepare(std::move(parts), rows);
        REQUIRE(made.ok());
        return *made;
    }
    std::vector<std::unique_ptr<Fake>> fakes;
    Running running;  // ends first: its control queue still calls the fakes
    sluice_request request{};
};

auto scores(std::vector<float> values) {
    return [values](const sluice_choice& c, float* out) -> sluice_status {
        for (std::uint32_t i = 0; i < c.candidates.count; ++i) {
            out[i] = values[i];
        }
        return SLUICE_OK;
    };
}

}  // namespace

TEST_CASE("the weighted sum of the scores decides, ties go to inflight and then to the endpoint") {
    struct Case {
        const char* name;
        std::vector<float> first, second, weights;
        Rows rows;
        std::uint32_t want;
    };
    for (const Case& c :
         {Case{"best sum", {1, 0, 0.5F}, {0, 0.9F, 0.8F}, {1, 1}, {row(1), row(2), row(3)}, 2},
          Case{"weights", {1, 0, 0.5F}, {0, 0.9F, 0.8F}, {3, 1}, {row(1), row(2), row(3)}, 0},
          Case{"tie by inflight",
               {1, 1, 1},
               {0, 0, 0},
               {1, 1},
               {row(1, 5), row(2, 3), row(3, 4)},
               1},
          Case{"tie by endpoint", {1, 1, 1}, {0, 0, 0}, {1, 1}, {row(9), row(2), row(3)}, 1},
          Case{"excluded",
               {1, 0, 0},
               {0, 0, 0},
               {1, 1},
               {row(1, 0, SLUICE_EX_DOWN), row(2, 1), row(3)},
               2}}) {
        CAPTURE(c.name);
        Chain chain(2);
        chain.fakes[0]->on_score = scores(c.first);
        chain.fakes[1]->on_score = scores(c.second);
        Rows rows = c.rows;
        const auto view = chain.view(rows, c.weights);
        const auto choice = view->choose(chain.request, SLUICE_LEG_SINGLE, 0, rows);
        CHECK(choice.by == By::Score);
        CHECK(choice.index == c.want);
    }
}

TEST_CASE("the first pick that does not pass wins over every score") {
    Chain chain(2);
    chain.fakes[0]->on_score = scores({1, 0, 0});
    chain.fakes[1]->on_pick = [](const sluice_choice& c, std::uint32_t* index) -> sluice_status {
        CHECK(c.scores != nullptr);
        CHECK(c.scores[0] == 1.0F);
        *index = 2;
        return SLUICE_OK;
    };
    Rows rows{row(1), row(2), row(3)};
    const auto choice = chain.view(rows)->choose(chain.request, SLUICE_LEG_SINGLE, 0, rows);
    CHECK(choice.by == By::Pick);
    CHECK(choice.index == 2);
    CHECK(choice.score == 0.0F);
}

TEST_CASE("a pick of an excluded or missing row is a defect, and the best score is used") {
    for (const std::uint32_t picked : {0U, 7U}) {
        CAPTURE(picked);
        Chain chain(1);
        chain.fakes[0]->on_pick = [&](const sluice_choice&, std::uint32_t* index) -> sluice_status {
            *index = picked;
            return SLUICE_OK;
        };
        Rows rows{row(1, 0, SLUICE_EX_BREAKER), row(2, 4), row(3, 1)};
        const auto view = chain.view(rows);
        const auto choice = view->choose(chain.request, SLUICE_LEG_SINGLE, 0, rows);
        CHECK(choice.by == By::Score);
        CHECK(choice.index == 2);
        CHECK(view->parts()[0].selector->defects() == 1);
    }
}

TEST_CASE("filters intersect, later selectors see what earlier ones dropped") {
    Chain chain(2);
    chain.fakes[0]->on_filter = [](const sluice_choice&, std::uint8_t* keep) -> sluice_status {
        keep[0] = 0;
        return SLUICE_OK;
    };
    chain.fakes[1]->on_filter = [](const sluice_choice& c, std::uint8_t* keep) -> sluice_status {
        CHECK(SLUICE_AT(sluice_candidate, c.candidates, 0)->excluded == SLUICE_EX_FILTERED);
        CHECK(keep[0] == 1);
        keep[1] = 0;
        return SLUICE_OK;
    };
    Rows rows{row(1), row(2), row(3, 9)};
    const auto choice = chain.view(rows)->choose(chain.request, SLUICE_LEG_SINGLE, 0, rows);
    CHECK(choice.index == 2);
    CHECK_FALSE(choice.is_all_filtered);
    CHECK(rows[1].excluded == SLUICE_EX_FILTERED);
}

TEST_CASE("filters that leave nothing are told apart from a pool that had nothing") {
    Chain chain(1);
    chain.fakes[0]->on_filter = [](const sluice_choice& c, std::uint8_t* keep) -> sluice_status {
        std::memset(keep, 0, c.candidates.count);
        return SLUICE_OK;
    };
    Rows rows{row(1), row(2)};
    const auto view = chain.view(rows);
    auto choice = view->choose(chain.request, SLUICE_LEG_SINGLE, 0, rows);
    CHECK(choice.by == By::Nothing);
    CHECK(choice.is_all_filtered);
    Rows down{row(1, 0, SLUICE_EX_DOWN), row(2, 0, SLUICE_EX_DRAIN)};
    choice = view->choose(chain.request, SLUICE_LEG_SINGLE, 0, down);
    CHECK(choice.by == By::Nothing);
    CHECK_FALSE(choice.is_all_filtered);
}

TEST_CASE("a score that is not a number takes the whole call out, one out of range is clamped") {
    Chain chain(2);
    chain.fakes[0]->on_score = scores({0, std::numeric_limits<float>::quiet_NaN(), 0});
    chain.fakes[1]->on_score = scores({-4, 0.5F, 70});
    Rows rows{row(1), row(2), row(3)};
    const auto view = chain.view(rows);
    const auto choice = view->choose(chain.request, SLUICE_LEG_SINGLE, 0, rows);
    CHECK(choice.index == 2);
    CHECK(choice.score == 1.0F);
    CHECK(view->parts()[0].selector->defects() == 1);
    CHECK(view->parts()[1].selector->defects() == 1);
}

TEST_CASE("three internal errors fault a selector and the choice goes on without it") {
    Chain chain(1);
    std::promise<std::string> told;
    chain.fakes[0]->on_pick = [](const sluice_choice&, std::uint32_t*) -> sluice_status {
        return SLUICE_E_INTERNAL;
    };
    Rows rows{row(1, 2), row(2, 1)};
    auto selector = chain.running.active<SelectorInstance>(
        *chain.fakes[0], "s", [&](const std::string& why) { told.set_value(why); });
    auto view = *SelectorView::prepare({{selector, 1.0F}}, rows);
    for (int i = 0; i < 3; ++i) {
        CHECK_FALSE(selector->is_faulted());
        const auto choice = view->choose(chain.request, SLUICE_LEG_SINGLE, 0, rows);
        CHECK(choice.index == 1);
        CHECK_FALSE(choice.is_degraded);
    }
    CHECK(selector->is_faulted());
    auto why = told.get_future();
    REQUIRE(why.wait_for(testing::kSoon) == std::future_status::ready);
    CHECK(why.get().find("internal") != std::string::npos);
    const auto choice = view->choose(chain.request, SLUICE_LEG_SINGLE, 0, rows);
    CHECK(choice.is_degraded);
    CHECK(choice.index == 1);
}

TEST_CASE("a view is released once its last user, on any thread, is gone") {
    Chain chain(1);
    Fake& fake = *chain.fakes[0];
    Rows rows{row(1)};
    auto view = chain.view(rows);
    CHECK(fake.prepared == 1);
    std::thread request([user = view] { (void)user->size(); });
    request.join();
    chain.running.runtime.settle();
    CHECK(fake.released == 0);
    std::thread last([user = std::move(view)]() mutable { user.reset(); });
    last.join();
    chain.running.runtime.settle();
    CHECK(fake.released == 1);
    CHECK(fake.deactivated == 1);
    CHECK(fake.destroyed == 1);
}

TEST_CASE("the peer of a decode leg and the leg itself reach the selector") {
    Chain chain(1);
    chain.fakes[0]->on_pick = [](const sluice_choice& c, std::uint32_t* index) -> sluice_status {
        CHECK(c.leg == SLUICE_LEG_DECODE);
        CHECK(c.peer == 77);
        CHECK(c.candidates.stride == sizeof(sluice_candidate));
        *index = 1;
        return SLUICE_OK;
    };
    Rows rows{row(1), row(2)};
    CHECK(chain.view(rows)->choose(chain.request, SLUICE_LEG_DECODE, 77, rows).index == 1);
}

TEST_CASE("a plugin without filter, score and pick is no selector") {
    Fake fake;
    Running running;
    fake.has_selector = true;
    fake.selector_table.filter = nullptr;
    fake.selector_table.score = nullptr;
    fake.selector_table.pick = nullptr;
    CHECK_FALSE(SelectorInstance::create(running.runtime, fake.plugin(), {"s", "{}", {}}).ok());
    running.runtime.settle();
    CHECK(fake.destroyed == 1);
}

TEST_CASE("requests on several threads choose at once") {
    Chain chain(1);
    chain.fakes[0]->on_score = scores({0, 1, 0});
    Rows rows{row(1), row(2), row(3)};
    const auto view = chain.view(rows);
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            sluice_request request{};
            for (int i = 0; i < 500; ++i) {
                Rows own{row(1), row(2), row(3)};
                wrong += view->choose(request, SLUICE_LEG_SINGLE, 0, own).index == 1 ? 0 : 1;
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    CHECK(wrong == 0);
}

TEST_SUITE_END();
