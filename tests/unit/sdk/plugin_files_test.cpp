// The loadable files of the tree, opened as the gateway opens them.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <map>

#include "sluice/sdk_testing.hpp"

using namespace sluice;
using sluice::testing::FakeHost;

namespace {

const sluice_plugin_entry& entry_of(const char* path) {
    void* file = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    REQUIRE_MESSAGE(file != nullptr, dlerror());
    auto fn = reinterpret_cast<sluice_plugin_entry_v1_fn>(dlsym(file, "sluice_plugin_entry_v1"));
    REQUIRE(static_cast<bool>(fn));
    REQUIRE(fn() == fn());
    return *fn();
}

// A selector of the file and a pool of rows longer than this SDK's.
class Chooser {
public:
    struct LongRow {
        sluice_candidate row;
        std::uint64_t tail[3];
    };

    explicit Chooser(const char* id) {
        const sluice_plugin_entry& entry = entry_of(SLUICE_TEST_SELECTORS);
        REQUIRE(entry.create(host_.raw(), id, borrow("{}"), &instance_, nullptr) == SLUICE_OK);
        table_ =
            static_cast<const sluice_selector*>(instance_->query(instance_, SLUICE_EXT_SELECTOR));
        REQUIRE(table_ != nullptr);
        REQUIRE(instance_->query(instance_, SLUICE_EXT_ENGINE) == nullptr);
        REQUIRE(instance_->activate(instance_, nullptr) == SLUICE_OK);
    }
    ~Chooser() {
        if (view_ != nullptr) {
            table_->release(instance_, view_);
        }
        instance_->deactivate(instance_);
        instance_->destroy(instance_);
    }
    Chooser& add(std::uint32_t weight = 1, std::uint32_t roles = SLUICE_ROLE_WHOLE,
                 std::uint32_t inflight = 0) {
        LongRow r{};
        r.row.size = sizeof r;
        r.row.endpoint = rows.size() + 1;
        r.row.weight = weight;
        r.row.roles = roles;
        r.row.inflight = inflight;
        rows.push_back(r);
        return *this;
    }
    void prepare() { REQUIRE(table_->prepare(instance_, array(), &view_, nullptr) == SLUICE_OK); }
    std::uint32_t pick(std::uint32_t leg = SLUICE_LEG_SINGLE, bool dry = false) {
        request_.flags = dry ? SLUICE_REQ_DRY_RUN : 0;
        const sluice_choice c = choice(leg);
        std::uint32_t index = UINT32_MAX;
        status = table_->pick(instance_, &c, &index);
        return index;
    }
    std::vector<float> score() {
        std::vector<float> out(rows.size());
        const sluice_choice c = choice(SLUICE_LEG_SINGLE);
        REQUIRE(table_->score(instance_, &c, out.data()) == SLUICE_OK);
        return out;
    }
    std::map<std::uint32_t, int> counts(int turns, std::uint32_t leg = SLUICE_LEG_SINGLE) {
        std::map<std::uint32_t, int> out;
        for (int i = 0; i < turns; ++i) {
            ++out[pick(leg)];
        }
        return out;
    }
    const sluice_selector& table() const { return *table_; }

    std::vector<LongRow> rows;
    sluice_status status = SLUICE_OK;

private:
    sluice_array array() const {
        return {rows.data(), static_cast<std::uint32_t>(rows.size()), sizeof(LongRow)};
    }
    sluice_choice choice(std::uint32_t leg) {
        request_.size = sizeof request_;
        sluice_choice c{};
        c.size = sizeof c;
        c.leg = leg;
        c.request = &request_;
        c.view = view_;
        c.candidates = array();
        return c;
    }
    FakeHost host_;
    sluice_instance* instance_ = nullptr;
    const sluice_selector* table_ = nullptr;
    sluice_view* view_ = nullptr;
    sluice_request request_{};
};

using Counts = std::map<std::uint32_t, int>;

}  // namespace

TEST_SUITE("plugins/files") {
    TEST_CASE("each file describes itself and makes each of its plugins from defaults") {
        for (const char* path : {SLUICE_TEST_SELECTORS, SLUICE_TEST_VLLM}) {
            CAPTURE(path);
            const sluice_plugin_entry& entry = entry_of(path);
            CHECK(entry.size == sizeof entry);
            CHECK(entry.abi_major == SLUICE_ABI_MAJOR);
            CHECK(entry.init(nullptr) == SLUICE_OK);
            REQUIRE(entry.count() >= 1);
            CHECK(entry.describe(entry.count()) == nullptr);
            CHECK(std::string(path).ends_with("/" + std::string(entry.describe(0)->id) + ".so"));
            for (std::uint32_t i = 0; i < entry.count(); ++i) {
                const sluice_plugin_desc* desc = entry.describe(i);
                REQUIRE(desc != nullptr);
                CAPTURE(desc->id);
                CHECK(std::string_view(desc->id).starts_with("org.sluice."));
                FakeHost host;
                sluice_instance* instance = nullptr;
                REQUIRE(entry.create(host.raw(), desc->id, borrow("{}"), &instance, nullptr) ==
                        SLUICE_OK);
                for (const char* const* p = desc->provides; *p != nullptr; ++p) {
                    CHECK(instance->query(instance, *p) != nullptr);
                    CHECK(instance->query(instance, *p) == instance->query(instance, *p));
                }
                CHECK(instance->query(instance, "sluice.unknown/1") == nullptr);
                CHECK(instance->activate(instance, nullptr) == SLUICE_OK);
                instance->deactivate(instance);
                instance->destroy(instance);
            }
            sluice_error err = make_error();
            sluice_instance* none = nullptr;
            FakeHost host;
            const std::string garbage = std::string(entry.describe(0)->id) + "x";
            CHECK(entry.create(host.raw(), garbage.c_str(), borrow("{}"), &none, &err) ==
                  SLUICE_E_NOT_FOUND);
            CHECK(none == nullptr);
            entry.deinit();
        }
    }
}

TEST_SUITE("plugins/selectors") {
    TEST_CASE("round robin takes each row in turn and skips what may not be chosen") {
        Chooser c("org.sluice.selector.rr");
        c.add().add().add().add();
        CHECK(c.counts(8) == Counts{{0, 2}, {1, 2}, {2, 2}, {3, 2}});
        c.rows[1].row.excluded = SLUICE_EX_DOWN;
        CHECK(c.counts(9) == Counts{{0, 3}, {2, 3}, {3, 3}});
        for (auto& r : c.rows) {
            r.row.excluded = SLUICE_EX_BREAKER;
        }
        c.pick();
        CHECK(c.status == SLUICE_PASS);
    }

    TEST_CASE("a dry run shows the next turn and takes none") {
        for (const char* id : {"org.sluice.selector.rr", "org.sluice.selector.wrr"}) {
            CAPTURE(id);
            Chooser c(id);
            c.add().add();
            if (c.table().prepare != nullptr) {
                c.prepare();
            }
            const std::uint32_t next = c.pick(SLUICE_LEG_SINGLE, true);
            CHECK(c.pick(SLUICE_LEG_SINGLE, true) == next);
            CHECK(c.pick() == next);
            CHECK(c.pick() != next);
        }
    }

    TEST_CASE("two legs a request do not step on each other's turns") {
        Chooser c("org.sluice.selector.rr");
        c.add().add();
        Counts prefill, decode;
        for (int i = 0; i < 10; ++i) {
            ++prefill[c.pick(SLUICE_LEG_PREFILL)];
            ++decode[c.pick(SLUICE_LEG_DECODE)];
        }
        CHECK(prefill == Counts{{0, 5}, {1, 5}});
        CHECK(decode == prefill);
    }

    TEST_CASE("weights are exact over a period and evenly spread in it") {
        Chooser c("org.sluice.selector.wrr");
        c.add(50).add(10).add(10);
        c.prepare();
        std::string order;
        for (int i = 0; i < 14; ++i) {
            order += static_cast<char>('a' + c.pick());
        }
        CHECK(order == "aabacaaaabacaa");
    }

    TEST_CASE("a dead row's turns go to the others by weight, not to its neighbour") {
        Chooser c("org.sluice.selector.wrr");
        c.add(1).add(1).add(1).add(3);
        c.prepare();
        c.rows[0].row.excluded = SLUICE_EX_DOWN;
        const Counts got = c.counts(6000);
        CHECK_FALSE(got.contains(0));
        CHECK(got.at(1) == doctest::Approx(1200).epsilon(0.02));
        CHECK(got.at(2) == doctest::Approx(1200).epsilon(0.02));
        CHECK(got.at(3) == doctest::Approx(3600).epsilon(0.02));
    }

    TEST_CASE("weight 0 gets nothing unless all have it; huge weights keep a bounded period") {
        Chooser c("org.sluice.selector.wrr");
        c.add(0).add(2).add(1);
        c.prepare();
        CHECK(c.counts(6) == Counts{{1, 4}, {2, 2}});
        Chooser zero("org.sluice.selector.wrr");
        zero.add(0).add(0);
        zero.prepare();
        CHECK(zero.counts(4) == Counts{{0, 2}, {1, 2}});
        Chooser huge("org.sluice.selector.wrr");
        huge.add(4'000'000'000U).add(1);
        huge.prepare();
        const Counts got = huge.counts(8194);
        CHECK(got.at(1) >= 1);
        CHECK(got.at(0) > 8000);
    }

    TEST_CASE("each leg has its own turns over the rows of its role") {
        Chooser c("org.sluice.selector.wrr");
        c.add(1, SLUICE_ROLE_PREFILL)
            .add(3, SLUICE_ROLE_PREFILL)
            .add(1, SLUICE_ROLE_DECODE)
            .add(1, SLUICE_ROLE_DECODE);
        c.prepare();
        CHECK(c.counts(8, SLUICE_LEG_PREFILL) == Counts{{0, 2}, {1, 6}});
        CHECK(c.counts(4, SLUICE_LEG_DECODE) == Counts{{2, 2}, {3, 2}});
    }

    TEST_CASE("least connections orders by inflight over weight") {
        Chooser c("org.sluice.selector.lc");
        c.add(1, SLUICE_ROLE_WHOLE, 4)
            .add(2, SLUICE_ROLE_WHOLE, 4)
            .add(1, SLUICE_ROLE_WHOLE, 0)
            .add(0);
        const auto s = c.score();
        CHECK(s[2] == 1.0F);
        CHECK(s[2] > s[1]);
        CHECK(s[1] > s[0]);
        CHECK(s[0] > s[3]);
        CHECK(s[3] == 0.0F);
        CHECK(c.score() == s);
    }
}
