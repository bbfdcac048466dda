// The checks, by level and id, and what each is given.
//
// Threads: each check runs alone in its process, on its only thread.
#pragma once
#include <sluice/sdk/plugin.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sdk/check/outcome.hpp"

namespace sluice::check {

struct Subject {
    std::string path;
    std::uint64_t seed = 0;
};

struct Check {
    int level;
    const char* id;
    const char* what;  // the claim, as a sentence
    Outcome (*run)(const Subject& subject);
};

inline constexpr int kMaxLevel = 5;

// In the order in which they make sense.
const std::vector<Check>& all_checks();

// Parts of it.
void add_file_checks(std::vector<Check>& out);        // level 1
void add_load_checks(std::vector<Check>& out);        // level 2
void add_descriptor_checks(std::vector<Check>& out);  // level 3
void add_lifecycle_checks(std::vector<Check>& out);   // level 4
void add_thread_checks(std::vector<Check>& out);      // level 5

}  // namespace sluice::check
