// A verb of sluicectl: one file each, listed in main.cpp.
//
// Threads: main only.
#pragma once
#include <span>
#include <string_view>

namespace sluice::cli {

// Exit codes: what the shell sees.
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;  // asked correctly, could not be done
inline constexpr int kUsage = 2;   // an unknown verb, flag or value

struct Verb {
    std::string_view name;
    std::string_view summary;  // one line of the overview
    std::string_view usage;    // what --help prints, ending in a newline
    int (*run)(std::span<const std::string_view> args);
};

extern const Verb kBlockhash;
extern const Verb kTokens;

// Prints "sluicectl VERB: what" and the first line of the verb's usage to stderr.
int usage_error(const Verb& verb, std::string_view what);

}  // namespace sluice::cli
