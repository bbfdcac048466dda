#include "core/app/settings.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "core/app/ini.hpp"
#include "core/app/knob_table.hpp"
#include "tests/unit/state/folder.hpp"

TEST_SUITE_BEGIN("app/settings");

using namespace sluice;
using namespace sluice::app;

namespace {

std::string why(const std::vector<std::string>& arguments) {
    const auto settings = read_settings(arguments);
    REQUIRE_FALSE(settings.ok());
    return settings.error().what;
}

std::string value_of(const Settings& settings, const std::string& section, const std::string& key) {
    for (const Shown& one : shown(settings)) {
        if (one.section == section && one.key == key) {
            return one.value;
        }
    }
    return "!";
}

// Two allowed values that differ, and one that is not allowed (empty: any text is).
struct Sample {
    const char* first;
    const char* second;
    const char* bad;
};

const std::map<std::string, Sample>& samples() {
    static const std::map<std::string, Sample> all{
        {"api-listen", {"127.0.0.1:1", "[::1]:2", "localhost:1"}},
        {"api-token-file", {"/a", "/b", ""}},
        {"api-metrics", {"token", "off", "closed"}},
        {"api-names", {"a.example", "b.example,c", "a:1"}},
        {"api-cors-origins", {"https://a", "https://b", "*"}},
        {"state", {"/a.db", "/b.db", ""}},
        {"tokenizers", {"/a", "/b", ""}},
        {"plugins", {"/a", "/b", "/a::/b"}},
        {"workers", {"3", "4", "257"}},
        {"io", {"epoll", "auto", "uring"}},
        {"drain-timeout", {"0", "5", "-1"}},
        {"max-prefill-reply", {"65536", "70000", "65535"}},
        {"log-level", {"debug", "error", "loud"}},
    };
    return all;
}

}  // namespace

TEST_CASE("every knob is set by its flag and by its key, and the flag wins") {
    const test::Folder folder;
    for (const Knob& knob : knobs()) {
        CAPTURE(knob.flag);
        const auto sample = samples().find(knob.flag);
        REQUIRE(sample != samples().end());
        const std::string file = folder.file("conf");
        test::write_file(file, "[" + std::string(knob.section) + "]\n" + knob.key + " = " +
                                   sample->second.first + "\n");
        const auto from_file = read_settings({"--config", file});
        REQUIRE(from_file.ok());
        CHECK(value_of(*from_file, knob.section, knob.key) == sample->second.first);
        const auto from_both =
            read_settings({"--config", file, "--" + std::string(knob.flag), sample->second.second});
        REQUIRE(from_both.ok());
        const std::string both = value_of(*from_both, knob.section, knob.key);
        // Plugin directories add up.
        CHECK(both == (std::string(knob.flag) == "plugins" ? "/a:/b" : sample->second.second));
        CHECK(value_of(*from_file, knob.section, knob.key) != both);
    }
    CHECK(samples().size() == knobs().size());
}

TEST_CASE("a bad value names where it stands and what is allowed") {
    const test::Folder folder;
    const std::string file = folder.file("conf");
    for (const Knob& knob : knobs()) {
        const Sample sample = samples().at(knob.flag);
        if (std::string(sample.bad).empty()) {
            continue;
        }
        CAPTURE(knob.flag);
        test::write_file(file, "# a comment\n[" + std::string(knob.section) + "]\n\n" + knob.key +
                                   " = " + sample.bad + "\n");
        const std::string from_file = why({"--config", file});
        CHECK(from_file.find(file + ":4: [" + knob.section + "] " + knob.key) == 0);
        CHECK(from_file.find(sample.bad) != std::string::npos);
        CHECK(from_file.find(knob.allowed) != std::string::npos);
        const std::string from_flag = why({"--" + std::string(knob.flag), sample.bad});
        CHECK(from_flag.find("--" + std::string(knob.flag)) == 0);
        CHECK(from_flag.find(knob.allowed) != std::string::npos);
    }
}

TEST_CASE("what a file cannot mean is refused with its line") {
    const test::Folder folder;
    const std::string file = folder.file("conf");
    struct Row {
        const char* name;
        std::string text, why;
    };
    for (const Row& row :
         {Row{"an unknown key", "[data]\nworker = 1\n", ":2: [data] worker: no such key"},
          Row{"an unknown section", "[data]\nworkers = 1\n[dta]\n", ":3: [dta]: no such section"},
          Row{"a key twice", "[data]\nworkers = 1\nworkers = 2\n",
              ":3: [data] workers was already"},
          Row{"a key twice in two parts", "[data]\nworkers = 1\n[log]\n[data]\nworkers = 2\n",
              ":5: [data] workers was already given in line 2"},
          Row{"no section", "workers = 1\n", ":1: a key stands before"},
          Row{"no value", "[data]\nworkers\n", ":2: a line is"},
          Row{"an empty value", "[data]\nworkers =\n", ":2: [data] workers"},
          Row{"no name", "[data]\n= 1\n", ":2: a line is"},
          Row{"a section without name", "[ ]\n", ":1: a section is written"},
          Row{"a section without end", "[data\nworkers = 1\n", ":1: a section is written"},
          Row{"not text", std::string("[data]\0\n", 8), "not a text file"},
          Row{"a default that is none", "[rules]\nkvLbMod = off\n", ":2: [rules] kvLbMod"},
          Row{"a default out of range", "[rules]\n\nkvMeanLoadFactor = 99\n",
              ":3: [rules] kvMeanLoadFactor"}}) {
        CAPTURE(row.name);
        test::write_file(file, row.text);
        const std::string said = why({"--config", file});
        CAPTURE(said);
        CHECK(said.find(file) == 0);
        CHECK(said.find(row.why) != std::string::npos);
    }
}

TEST_CASE("a byte order mark, CR LF and blanks change nothing") {
    const test::Folder folder;
    const std::string file = folder.file("conf");
    test::write_file(file,
                     "\xEF\xBB\xBF; comment\r\n[ data ]\r\n  workers\t=  3 \r\n\r\n[log]\r\nlevel="
                     "debug");
    const auto settings = read_settings({"--config", file});
    REQUIRE_MESSAGE(settings.ok(), settings.error().what);
    CHECK(settings->workers == 3);
    CHECK(settings->log_level == log::Level::Debug);
}

TEST_CASE("a file that cannot be read is named") {
    const test::Folder folder;
    CHECK(why({"--config", folder.file("missing")}).find("missing: cannot be opened") !=
          std::string::npos);
    REQUIRE(::mkdir(folder.file("dir").c_str(), 0700) == 0);
    CHECK(why({"--config", folder.file("dir")}).find("not a regular file") != std::string::npos);
    REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
    CHECK(why({"--config", folder.file("pipe")}).find("not a regular file") != std::string::npos);
    test::write_file(folder.file("big"), std::string((1U << 20U) + 1, '#'));
    CHECK(why({"--config", folder.file("big")}).find("1 MiB") != std::string::npos);
    test::write_file(folder.file("empty"), "");
    CHECK(read_settings({"--config", folder.file("empty")}).ok());
}

TEST_CASE("flags that do not exist or stand alone are refused") {
    CHECK(why({"--nothing"}).find("nothing") != std::string::npos);
    CHECK(why({"stray"}).find("stray") != std::string::npos);
    CHECK_FALSE(why({"--workers"}).empty());
    CHECK_FALSE(why({"--check=yes"}).empty());
}

TEST_CASE("defaults of rules come from the file, the flag wins, and both are judged") {
    const test::Folder folder;
    const std::string file = folder.file("conf");
    test::write_file(file, "[rules]\nkvMinMatchTokens = 8\nkvLbMode = off\n");
    const auto settings = read_settings({"--config", file, "--rule-default", "kvMinMatchTokens=9"});
    REQUIRE_MESSAGE(settings.ok(), settings.error().what);
    CHECK(settings->rule_defaults.at("kvMinMatchTokens") == "9");
    CHECK(settings->rule_defaults.at("kvLbMode") == "off");
    CHECK(rule_defaults(*settings)->value("kvMinMatchTokens") == "9");
    CHECK(why({"--rule-default", "kvMinMatchTokens=many"}).find("--rule-default") == 0);
    CHECK(why({"--rule-default=kvMinMatchTokens"}).find("NAME=VALUE") != std::string::npos);
}

TEST_CASE("the help names every flag") {
    const std::string help = usage_text();
    for (const Knob& knob : knobs()) {
        CHECK(help.find("--" + std::string(knob.flag)) != std::string::npos);
    }
}

TEST_CASE("a check finds everything that would keep a start from going well") {
    const test::Folder folder;
    Settings good;
    good.state_file = folder.file("s.db");
    CHECK(problems(good).empty());
    CHECK_FALSE(std::ifstream(good.state_file).good());  // nothing was made

    const auto only = [](const Settings& settings) {
        const std::vector<std::string> found = problems(settings);
        REQUIRE(found.size() == 1);
        return found.front();
    };
    Settings one = good;
    one.api_host = "192.0.2.1";
    one.api_token_file = folder.file("tokens");
    test::write_file(one.api_token_file, "ann admin a-token\n");
    REQUIRE(chmod(one.api_token_file.c_str(), 0600) == 0);
    CHECK(only(one).find("[api] listen") == 0);
    one = good;
    one.api_host = "0.0.0.0";
    CHECK(only(one).find("[api] token_file") == 0);
    one.api_token_file = folder.file("tokens");
    CHECK(problems(one).empty());
    REQUIRE(chmod(one.api_token_file.c_str(), 0640) == 0);
    CHECK(only(one).find("0600") != std::string::npos);
    test::write_file(one.api_token_file, "ann admin\n");
    REQUIRE(chmod(one.api_token_file.c_str(), 0600) == 0);
    CHECK(only(one).find("line 1") != std::string::npos);
    one = good;
    one.state_file = folder.file("no/such/s.db");
    CHECK(only(one).find("no such folder") != std::string::npos);
    one.state_file = folder.file(".");
    CHECK(only(one).find("not a regular file") != std::string::npos);
    one = good;
    one.tokenizers_dir = folder.file("none");
    CHECK(only(one).find("[tokenizers] path") == 0);
    one = good;
    one.plugin_dirs = {folder.file("none")};
    CHECK(only(one).find("[plugins] path") == 0);
    one.tokenizers_dir = folder.file("none");
    CHECK(problems(one).size() == 2);
}

TEST_CASE("no setting is a secret, and what needs a restart says so") {
    std::set<std::string> restart;
    for (const Shown& one : shown(Settings())) {
        if (one.needs_restart) {
            restart.insert("[" + one.section + "] " + one.key);
        }
    }
    CHECK(restart == std::set<std::string>{"[api] listen", "[state] path", "[tokenizers] path",
                                           "[plugins] path", "[data] workers", "[data] io",
                                           "[data] max_prefill_reply"});
}

TEST_SUITE_END();
