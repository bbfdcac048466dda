// sluice-plugin-check: does this file keep the plugin contract?
//
//   sluice-plugin-check [--level N] [--only ID] [--json] [--seed S] [--in-process] FILE...
//   sluice-plugin-check --describe FILE
//
// Exit: 0 all passed, 1 a check failed, 2 could not run.
// Threads: main only; every check is a child process of its own, unless --in-process.
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "sdk/check/checks.hpp"
#include "sdk/check/child.hpp"
#include "sdk/check/describe.hpp"
#include "sdk/check/schema_value.hpp"

namespace sluice::check {
namespace {

constexpr auto kLimit = std::chrono::seconds(60);
constexpr const char* kUsage =
    "usage: sluice-plugin-check [--level 1..5] [--only ID] [--json] [--seed S] [--in-process] "
    "FILE...\n"
    "       sluice-plugin-check --describe FILE\n"
    "       sluice-plugin-check --list\n";

struct Options {
    int level = 4;
    std::string only;
    bool is_json = false, is_in_process = false, is_describe = false, is_list = false;
    std::uint64_t seed = 0;
    std::vector<std::string> files;
};

template <class T>
bool number(const char* text, T& out) {
    const char* end = text + std::strlen(text);
    const auto read = std::from_chars(text, end, out);
    return read.ec == std::errc() && read.ptr == end;
}

bool parse(int argc, char** argv, Options& out) {
    bool has_seed = false;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
        if (word == "--json") {
            out.is_json = true;
        } else if (word == "--in-process") {
            out.is_in_process = true;
        } else if (word == "--describe") {
            out.is_describe = true;
        } else if (word == "--list") {
            out.is_list = true;
        } else if (word == "--only" && value != nullptr) {
            out.only = argv[++i];
        } else if (word == "--level" && value != nullptr && number(value, out.level)) {
            ++i;
        } else if (word == "--seed" && value != nullptr && number(value, out.seed)) {
            has_seed = true;
            ++i;
        } else if (word.starts_with("-")) {
            return false;
        } else {
            out.files.push_back(word);
        }
    }
    if (!has_seed) {
        out.seed = std::random_device{}();
    }
    if (out.is_in_process && out.only.empty()) {
        return false;
    }
    return out.level >= 1 && out.level <= kMaxLevel &&
           (out.is_list || (out.is_describe ? out.files.size() == 1 : !out.files.empty()));
}

const char* word(const Outcome& outcome) {
    switch (outcome.kind) {
        case Outcome::Kind::Passed:
            return "passed";
        case Outcome::Kind::Failed:
            return "FAILED";
        case Outcome::Kind::Skipped:
            return "skipped";
    }
    return "?";
}

void print(const Check& check, const Outcome& outcome, const Options& options, std::string& json) {
    if (options.is_json) {
        json += json.empty() ? "" : ",";
        json +=
            "{\"level\":" + std::to_string(check.level) + ",\"id\":\"" + check.id + "\",\"what\":";
        schema::append_quoted(json, check.what);
        json += std::string(",\"outcome\":\"") + (outcome.is_failed() ? "failed" : word(outcome)) +
                "\",\"text\":";
        schema::append_quoted(json, outcome.text);
        json += '}';
        return;
    }
    std::printf("  %d %-22s %-7s %s%s%s\n", check.level, check.id, word(outcome), check.what,
                outcome.text.empty() ? "" : ": ", outcome.text.c_str());
    std::fflush(stdout);
}

// The number of failed checks, or -1 when nothing matched.
int check_file(const std::string& path, const Options& options, std::string& json) {
    const Subject subject{path, options.seed};
    int failures = 0;
    int ran = 0;
    std::string results;
    if (!options.is_json) {
        std::printf("%s\n", path.c_str());
        std::fflush(stdout);
    }
    for (const Check& check : all_checks()) {
        if (options.only.empty() ? check.level > options.level : options.only != check.id) {
            continue;
        }
        ++ran;
        const Outcome outcome = options.is_in_process
                                    ? check.run(subject)
                                    : run_in_child([&] { return check.run(subject); }, kLimit);
        failures += outcome.is_failed() ? 1 : 0;
        print(check, outcome, options, results);
    }
    if (!options.is_json && failures > 0) {
        std::printf("  %d of %d checks failed; --seed %llu repeats this run\n", failures, ran,
                    static_cast<unsigned long long>(options.seed));
    }
    json += json.empty() ? "" : ",";
    json += "{\"file\":";
    schema::append_quoted(json, path);
    json += ",\"seed\":" + std::to_string(options.seed) + ",\"ran\":" + std::to_string(ran) +
            ",\"failed\":" + std::to_string(failures) + ",\"results\":[" + results + "]}";
    return ran == 0 ? -1 : failures;
}

int run(int argc, char** argv) {
    Options options;
    if (!parse(argc, argv, options)) {
        std::fputs(kUsage, stderr);
        return 2;
    }
    if (options.is_list) {
        for (const Check& check : all_checks()) {
            std::printf("%d %-22s %s\n", check.level, check.id, check.what);
        }
        return 0;
    }
    for (const std::string& file : options.files) {
        if (::access(file.c_str(), R_OK) != 0) {
            std::fprintf(stderr, "%s: %s\n", file.c_str(), std::strerror(errno));
            return 2;
        }
    }
    if (options.is_describe) {
        std::string error;
        const auto text = describe(options.files.front(), error);
        if (!text) {
            std::fprintf(stderr, "%s\n", error.c_str());
            return 1;
        }
        std::printf("%s\n", text->c_str());
        return 0;
    }
    std::string json;
    int failures = 0;
    for (const std::string& file : options.files) {
        const int failed_here = check_file(file, options, json);
        if (failed_here < 0) {
            std::fprintf(stderr, "no check is called %s; --list shows them\n",
                         options.only.c_str());
            return 2;
        }
        failures += failed_here;
    }
    if (options.is_json) {
        std::printf("[%s]\n", json.c_str());
    }
    return failures == 0 ? 0 : 1;
}

}  // namespace

const std::vector<Check>& all_checks() {
    static const std::vector<Check> checks = [] {
        std::vector<Check> out;
        add_file_checks(out);
        add_load_checks(out);
        add_descriptor_checks(out);
        add_lifecycle_checks(out);
        add_thread_checks(out);
        return out;
    }();
    return checks;
}

}  // namespace sluice::check

int main(int argc, char** argv) {
    return sluice::check::run(argc, argv);
}
