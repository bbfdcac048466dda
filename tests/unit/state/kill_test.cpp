// A writer is killed in the middle of its work; what it acknowledged must be there, whole.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "state/state.hpp"
#include "tests/unit/state/folder.hpp"

TEST_SUITE_BEGIN("state/kill");

namespace {

using namespace sluice;
using namespace sluice::state;

constexpr std::uint32_t kPairs = 100'000;  // far more than a round lives to write

// Writes pairs of rules, one transaction a pair, and says so after each. Never returns.
[[noreturn]] void write_pairs(const std::string& path, std::uint32_t from, int out) {
    auto opened = open_sqlite({path});
    if (!opened) {
        _exit(2);
    }
    for (std::uint32_t i = from; i < kPairs; ++i) {
        const std::uint32_t a = 2 * i + 1;
        Change change;
        for (const std::uint32_t number : {a, a + 1}) {
            change.upserts.push_back({number,
                                      "r" + std::to_string(number),
                                      1,
                                      "pair " + std::to_string(i) + std::string(2000, '.'),
                                      1,
                                      {{number, 0, "10.0.0.1", 80, 0}}});
        }
        change.counters = {a + 2, a + 2};
        change.audit = {{i + 1, "w", "x", "rule.create", "pair", "", ""}};
        if (!opened->store->commit(change)) {
            _exit(3);
        }
        const char done = '.';
        if (::write(out, &done, 1) != 1) {
            _exit(4);
        }
    }
    _exit(0);
}

}  // namespace

TEST_CASE("kill -9 loses nothing acknowledged and leaves nothing half done") {
    const test::Folder folder;
    const std::string path = folder.file("s.db");
    std::mt19937 random(20250131);
    std::uint32_t pairs = 0;
    for (int round = 0; round < 12; ++round) {
        CAPTURE(round);
        int pipe_fds[2];
        REQUIRE(::pipe(pipe_fds) == 0);
        const pid_t writer = ::fork();
        REQUIRE(writer >= 0);
        if (writer == 0) {
            ::close(pipe_fds[0]);
            write_pairs(path, pairs, pipe_fds[1]);
        }
        ::close(pipe_fds[1]);
        // After some acknowledgements and a moment of computing, so that the signal falls anywhere:
        // into the opening, the writing, the syncing.
        const auto wanted = std::uniform_int_distribution<int>(0, 6)(random);
        std::uint32_t heard = 0;
        char byte = 0;
        while (static_cast<int>(heard) < wanted && ::read(pipe_fds[0], &byte, 1) == 1) {
            ++heard;
        }
        volatile std::uint32_t spin =
            std::uniform_int_distribution<std::uint32_t>(0, 3'000'000)(random);
        while (spin > 0) {
            spin = spin - 1;
        }
        REQUIRE(::kill(writer, SIGKILL) == 0);
        int status = 0;
        REQUIRE(::waitpid(writer, &status, 0) == writer);
        REQUIRE(WIFSIGNALED(status));
        while (::read(pipe_fds[0], &byte, 1) == 1) {
            ++heard;  // acknowledged before the signal came
        }
        ::close(pipe_fds[0]);

        auto opened = open_sqlite({path});
        REQUIRE_MESSAGE(opened.ok(), opened.error().what);
        REQUIRE_FALSE(opened->set_aside.has_value());
        auto contents = opened->store->load();
        REQUIRE(contents.ok());
        const auto found = static_cast<std::uint32_t>(contents->rules.size());
        CHECK(found % 2 == 0);
        CHECK(found / 2 >= pairs + heard);
        CHECK(found / 2 <= pairs + heard + 1);  // at most the one it had no time to acknowledge
        CHECK(contents->counters.next_rule_number == found + 1);
        CHECK(opened->store->audit({kAuditRows})->size() == found / 2);
        for (std::uint32_t i = 0; i < found; ++i) {
            const RuleRow& row = contents->rules[i];
            REQUIRE(row.number == i + 1);
            REQUIRE(row.body == "pair " + std::to_string(i / 2) + std::string(2000, '.'));
            REQUIRE(row.endpoints.size() == 1);
        }
        pairs = found / 2;
    }
    CHECK(pairs > 0);
}

TEST_SUITE_END();
