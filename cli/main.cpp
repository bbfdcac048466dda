// sluicectl: operator's tool. Finds the verb and hands it the rest of the command line.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/verb.hpp"

namespace sluice::cli {
namespace {

const Verb* const kVerbs[] = {&kBlockhash, &kTokens};

void print(std::FILE* to, std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), to);
}

std::string overview() {
    std::string out = "Usage: sluicectl VERB [FLAGS]\n\nVerbs:\n";
    for (const Verb* verb : kVerbs) {
        std::string line = "  " + std::string(verb->name);
        line.resize(std::max<std::size_t>(line.size() + 2, 14), ' ');
        out += line + std::string(verb->summary) + "\n";
    }
    return out + "\n\"sluicectl VERB --help\" tells more.\n";
}

int run(const std::vector<std::string_view>& args) {
    if (args.empty()) {
        print(stderr, overview());
        return kUsage;
    }
    if (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
        print(stdout, overview());
        return kOk;
    }
    const auto verb = std::ranges::find(kVerbs, args[0], [](const Verb* v) { return v->name; });
    if (verb == std::end(kVerbs)) {
        print(stderr, "sluicectl: unknown verb " + std::string(args[0]) +
                          "\nUsage: sluicectl VERB [FLAGS]\n");
        return kUsage;
    }
    const std::span<const std::string_view> rest(args.begin() + 1, args.end());
    if (std::ranges::any_of(rest, [](auto a) { return a == "--help" || a == "-h"; })) {
        print(stdout, (*verb)->usage);
        return kOk;
    }
    return (*verb)->run(rest);
}

}  // namespace

int usage_error(const Verb& verb, std::string_view what) {
    print(stderr, "sluicectl " + std::string(verb.name) + ": " + std::string(what) + "\n" +
                      std::string(verb.usage.substr(0, verb.usage.find('\n') + 1)));
    return kUsage;
}

}  // namespace sluice::cli

int main(int argc, char** argv) {
    try {
        return sluice::cli::run(std::vector<std::string_view>(argv + 1, argv + argc));
    } catch (const std::exception& e) {
        std::fprintf(stderr, "sluicectl: %s\n", e.what());
        return sluice::cli::kFailed;
    }
}
