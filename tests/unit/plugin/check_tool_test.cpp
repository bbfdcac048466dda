#include <doctest/doctest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

TEST_SUITE_BEGIN("plugin/check tool");

namespace {

struct Run {
    int code = -1;
    std::string output;
};

Run run(const std::string& arguments) {
    const std::string command = std::string(SLUICE_PLUGIN_CHECK) + " " + arguments + " 2>&1";
    FILE* pipe = ::popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    Run out;
    std::array<char, 4096> chunk{};
    while (const std::size_t n = std::fread(chunk.data(), 1, chunk.size(), pipe)) {
        out.output.append(chunk.data(), n);
    }
    const int status = ::pclose(pipe);
    out.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return out;
}

std::string probe(const std::string& name) {
    return std::string(SLUICE_PROBE_DIR) + "/org.example.probe." + name + ".so";
}

}  // namespace

TEST_CASE("a correct plugin passes every level") {
    const Run all = run("--level 5 --seed 1 " + probe("good"));
    CAPTURE(all.output);
    CHECK(all.code == 0);
    CHECK(all.output.find("FAILED") == std::string::npos);
}

TEST_CASE("each check can fail, and says what it found") {
    struct Row {
        const char* probe;
        const char* check;
        const char* says;
    };
    for (const Row& row : {
             Row{"two-exports", "file.exports", "exports 2 symbols"},
             Row{"no-entry", "file.exports", "exports 0 symbols"},
             Row{"wants-gateway", "file.undefined", "sluice_gateway_secret"},
             Row{"rpath", "file.hygiene", "run path"},
             Row{"no-nodelete", "file.nodelete", "nodelete"},
             Row{"no-entry", "load.now", "does not export"},
             Row{"major", "load.now", "built for ABI 2.0"},
             Row{"minor", "load.now", "built for ABI 1.9"},
             Row{"crashes", "load.fast", "crashed"},
             Row{"new-entry", "load.entry", "another table"},
             Row{"counts-inits", "load.init", "crashed"},
             Row{"init-fails", "load.init", "SLUICE_E_UNSUPPORTED"},
             Row{"id", "descriptor.id", "reverse domain name"},
             Row{"twin", "descriptor.file", "instead of org.example.probe.good.so"},
             Row{"version", "descriptor.texts", "no semantic version"},
             Row{"schema", "descriptor.schemas", "type"},
             Row{"needs", "descriptor.needs", "org.example.service/1"},
             Row{"answers-all", "descriptor.provides", "sluice.engine/1"},
             Row{"refuses", "descriptor.defaults", "SLUICE_E_UNAVAILABLE"},
             Row{"leaves-timer", "descriptor.defaults", "behind after deactivate"},
             Row{"wrong-thread", "descriptor.defaults", "off the event thread"},
             Row{"prints", "descriptor.defaults", "standard output or error: hello"},
             Row{"throws", "descriptor.provides", "exception"},
             Row{"impure", "lifecycle.pure", "answers differently"},
             Row{"any-id", "lifecycle.ids", "unknown id"},
             Row{"answers-prefix", "lifecycle.extensions", "unknown extension"},
             Row{"refuses", "lifecycle.two", "SLUICE_E_UNAVAILABLE"},
             Row{"leaks", "lifecycle.cycles", "bytes of memory behind"},
             Row{"leaks-fd", "lifecycle.cycles", "500 descriptors"},
             Row{"assumes-http", "lifecycle.withheld", "crashed"},
             Row{"crashes-at-ten", "lifecycle.boundaries", "crashed"},
             Row{"score-range", "threads.request", "outside 0..1"},
             Row{"talks-on", "threads.silence", "after deactivate"},
         }) {
        CAPTURE(row.probe);
        CAPTURE(row.check);
        const Run one = run("--seed 1 --only " + std::string(row.check) + " " + probe(row.probe));
        CAPTURE(one.output);
        CHECK(one.code == 1);
        // A sanitizer catches the signal of a crash and ends the process itself.
        const bool is_crash = std::string_view(row.says) == "crashed";
        const bool is_said =
            one.output.find(row.says) != std::string::npos ||
            (is_crash && one.output.find("ended from inside") != std::string::npos);
        CHECK(is_said);
    }
}

TEST_CASE("a failure is found by the level it belongs to and by no lower one") {
    CHECK(run("--level 3 " + probe("any-id")).code == 0);
    const Run four = run("--level 4 --seed 77 " + probe("any-id"));
    CHECK(four.code == 1);
    CHECK(four.output.find("--seed 77") != std::string::npos);
}

TEST_CASE("what cannot be run is told apart from what failed") {
    CHECK(run("").code == 2);
    CHECK(run("--level 9 " + probe("good")).code == 2);
    CHECK(run("--only no.such.check " + probe("good")).code == 2);
    CHECK(run("/nonexistent/file.so").code == 2);
    CHECK(run("--in-process " + probe("good")).code == 2);
    CHECK(run("--in-process --only lifecycle.two " + probe("good")).code == 0);
}

TEST_CASE("several files are all checked and the output can be JSON") {
    const Run both = run("--json --only lifecycle.ids " + probe("good") + " " + probe("any-id"));
    CHECK(both.code == 1);
    CHECK(both.output.find("\"outcome\":\"passed\"") != std::string::npos);
    CHECK(both.output.find("\"outcome\":\"failed\"") != std::string::npos);
    CHECK(both.output.find("\"failed\":1") != std::string::npos);
}

TEST_CASE("describe prints the descriptors, or why there are none") {
    const Run good = run("--describe " + probe("good"));
    CHECK(good.code == 0);
    CHECK(good.output.find("\"id\":\"org.example.probe.good\"") != std::string::npos);
    CHECK(good.output.find("\"abi_major\":1") != std::string::npos);
    const Run major = run("--describe " + probe("major"));
    CHECK(major.code == 1);
    CHECK(major.output.find("built for ABI 2.0") != std::string::npos);
}

TEST_SUITE_END();
