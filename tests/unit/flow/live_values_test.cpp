#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/flow/flow_ring.hpp"
#include "core/flow/instance_names.hpp"
#include "core/route/kv_plane.hpp"
#include "core/route/totals.hpp"

using namespace sluice;
using flow::FlowRing;

namespace {

void push(FlowRing& ring, const std::string& id, const std::string& model = "m") {
    route::Receipt r;
    r.id = id;
    r.model = model;
    ring.push(r);
}

// Everything a reader gets until it is at the end or has lost something.
std::vector<std::string> ids(const FlowRing& ring, flow::FlowCursor& cursor,
                             const flow::FlowQuery& query, FlowRing::Read want) {
    std::vector<route::Receipt> found;
    FlowRing::Read read = FlowRing::Read::More;
    while (read == FlowRing::Read::More) {
        read = ring.read(cursor, query, found);
    }
    CHECK(read == want);
    std::vector<std::string> out;
    for (const route::Receipt& r : found) {
        out.push_back(r.id);
    }
    return out;
}

}  // namespace

TEST_SUITE("flow/ring") {
    TEST_CASE("a reader gets each receipt once, from when it came") {
        FlowRing ring;
        push(ring, "before");
        flow::FlowCursor cursor = ring.cursor(1);
        CHECK(ids(ring, cursor, {}, FlowRing::Read::Done).empty());
        for (int i = 0; i < 100; ++i) {
            push(ring, std::to_string(i));
        }
        const auto first = ids(ring, cursor, {}, FlowRing::Read::Done);
        REQUIRE(first.size() == 100);
        CHECK(first.front() == "0");
        CHECK(first.back() == "99");
        push(ring, "later");
        CHECK(ids(ring, cursor, {}, FlowRing::Read::Done) == std::vector<std::string>{"later"});
    }

    TEST_CASE("one of every few that match") {
        FlowRing ring;
        flow::FlowCursor cursor = ring.cursor(2);
        for (int i = 0; i < 10; ++i) {
            push(ring, std::to_string(i), i % 2 == 0 ? "even" : "odd");
        }
        CHECK(ids(ring, cursor, {{}, "even", {}, 0}, FlowRing::Read::Done) ==
              std::vector<std::string>{"0", "4", "8"});
    }

    TEST_CASE("a reader that was overtaken is told so") {
        FlowRing ring;
        flow::FlowCursor cursor = ring.cursor(1);
        for (std::size_t i = 0; i < FlowRing::kSlots; ++i) {
            push(ring, std::to_string(i));
        }
        flow::FlowCursor another = cursor;
        CHECK(ids(ring, cursor, {}, FlowRing::Read::Done).size() == FlowRing::kSlots);
        push(ring, "one too many");
        CHECK(ids(ring, another, {}, FlowRing::Read::Lost).empty());
        CHECK(ids(ring, cursor, {}, FlowRing::Read::Done).size() == 1);
    }
}

TEST_SUITE("flow/instance_names") {
    TEST_CASE("the number of an ended instance is used again, that of a live one is not") {
        flow::InstanceNames names;
        auto first = std::make_shared<const int>(1);
        CHECK(names.next("vllm") == "vllm-1");
        names.taken("vllm-1", first);
        auto second = std::make_shared<const int>(2);
        CHECK(names.next("vllm") == "vllm-2");
        names.taken("vllm-2", second);
        CHECK(names.next("rr") == "rr-1");
        const auto still_used = first;  // a request may hold it longer than the rule
        first.reset();
        CHECK(names.next("vllm") == "vllm-3");
        second.reset();
        CHECK(names.next("vllm") == "vllm-2");
    }

    TEST_CASE("a thousand edits need one name") {
        flow::InstanceNames names;
        for (int i = 0; i < 1000; ++i) {
            const std::string name = names.next("rr");
            REQUIRE(name == "rr-1");
            names.taken(name, std::make_shared<const int>(i));
        }
    }
}

TEST_SUITE("route/totals") {
    TEST_CASE("a request is in flight until it ends, on every way out") {
        const auto totals = std::make_shared<route::RuleTotals>();
        {
            route::InFlight one(totals);
            route::InFlight moved = std::move(one);
            CHECK(totals->active == 1);
            route::InFlight other(totals);
            CHECK(totals->active == 2);
            other = std::move(moved);
            CHECK(totals->active == 1);
            other.carried(10, 20);
            other.end();
            other.end();
            CHECK(totals->active == 0);
            other.carried(1, 1);  // ended: nothing is counted
            const route::InFlight abandoned(totals);
            CHECK(totals->active == 1);
        }
        CHECK(totals->active == 0);
        CHECK(totals->requests == 3);
        CHECK(totals->bytes_in == 10);
        CHECK(totals->bytes_out == 20);
        route::InFlight of_nobody(nullptr);
        of_nobody.carried(1, 1);
    }
}

TEST_SUITE("route/kv_plane") {
    TEST_CASE("that tokens agree is shown anew after a reset") {
        route::KvPlane plane(kv::IndexOptions{});
        REQUIRE(plane.attach(1, 1));
        const route::KvMemberPtr member = plane.member(1);
        CHECK_FALSE(member->tokens_agree());
        member->note_tokens_agree();
        CHECK(member->tokens_agree());
        plane.reset(2, SLUICE_ANY);
        CHECK(member->tokens_agree());
        plane.reset(1, SLUICE_ANY);
        CHECK_FALSE(member->tokens_agree());
    }
}
