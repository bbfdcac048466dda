#include "core/rules/host_states.hpp"

#include <doctest/doctest.h>

using namespace sluice;
using rules::HostState;
using rules::HostStates;

TEST_SUITE("rules/host_states") {
    TEST_CASE("a port's own state goes before that of the whole host") {
        HostStates states;
        CHECK(states.of("10.0.0.7", 8000) == HostState::Green);
        REQUIRE(states.set("10.0.0.7", 0, HostState::Red));
        REQUIRE(states.set("10.0.0.7", 8000, HostState::Green));
        CHECK(states.of("10.0.0.7", 8000) == HostState::Green);
        CHECK(states.of("10.0.0.7", 8001) == HostState::Red);
        CHECK(states.of("10.0.0.8", 8001) == HostState::Green);
    }

    TEST_CASE("the state of a whole host replaces those of its ports") {
        HostStates states;
        REQUIRE(states.set("10.0.0.7", 8000, HostState::Red));
        REQUIRE(states.set("10.0.0.7", 0, HostState::Yellow));
        CHECK(states.of("10.0.0.7", 8000) == HostState::Yellow);
        CHECK(states.has("10.0.0.7", 0));
        CHECK_FALSE(states.has("10.0.0.7", 8000));
        REQUIRE(states.set("10.0.0.7", 0, HostState::Green));
        CHECK(states.entries().empty());
        CHECK_FALSE(states.has("10.0.0.7", 0));
    }

    TEST_CASE("what is as it would be anyway is not kept") {
        HostStates states;
        REQUIRE(states.set("10.0.0.7", 8000, HostState::Green));
        CHECK(states.entries().empty());
        REQUIRE(states.set("10.0.0.7", 8000, HostState::Yellow));
        REQUIRE(states.set("10.0.0.7", 8000, HostState::Green));
        CHECK(states.entries().empty());
    }

    TEST_CASE("states come back from their text") {
        HostStates states;
        REQUIRE(states.set("10.0.0.7", 0, HostState::Red));
        REQUIRE(states.set("fd00::7", 8000, HostState::Yellow));
        const auto again = HostStates::parse(states.dump());
        REQUIRE(again);
        CHECK(again->entries() == states.entries());
        CHECK(HostStates::parse("")->entries().empty());
        for (const char* wrong : {"{", "{}", "[1]", R"([{"hostName":"a","epPort":1}])",
                                  R"([{"hostName":"a","epPort":70000,"state":"red"}])",
                                  R"([{"hostName":"a","epPort":1,"state":"blue"}])"}) {
            CAPTURE(wrong);
            CHECK_FALSE(HostStates::parse(wrong));
        }
    }

    TEST_CASE("there is a bound, and what does not fit changes nothing") {
        HostStates states;
        for (std::size_t i = 0; i < HostStates::kMaxHosts; ++i) {
            REQUIRE(states.set("10.0.0.7", static_cast<std::uint16_t>(i + 1), HostState::Red));
        }
        CHECK_FALSE(states.set("10.0.0.8", 1, HostState::Red));
        CHECK(states.of("10.0.0.8", 1) == HostState::Green);
        CHECK(states.entries().size() == HostStates::kMaxHosts);
        CHECK(states.set("10.0.0.7", 1, HostState::Yellow));
    }
}
