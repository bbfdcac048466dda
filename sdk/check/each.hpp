// Runs something for every plugin of a file; the first failure, named after its plugin, ends it.
//
// Threads: one.
#pragma once
#include <string>
#include <utility>

#include "sdk/check/cases.hpp"
#include "sdk/check/checks.hpp"
#include "sdk/check/loaded.hpp"
#include "sdk/check/test_instance.hpp"

namespace sluice::check {

template <class F>
Outcome each_plugin(const Subject& subject, F&& f) {
    std::string error;
    const auto plugin = load(subject.path, error);
    if (!plugin) {
        return failed(error);
    }
    auto err = empty_error();
    if (const auto status = plugin->entry->init(&err); status != SLUICE_OK) {
        return failed("init: " + status_name(status) + " " + text_of(err));
    }
    const auto descriptors = plugin->descriptors();
    if (descriptors.empty()) {
        return failed("describes nothing");
    }
    Outcome last;
    for (const sluice_plugin_desc* desc : descriptors) {
        Outcome outcome = f(*plugin, *desc);
        if (outcome.is_failed()) {
            outcome.text.insert(0, std::string(desc->id) + ": ");
            return outcome;
        }
        last = std::move(outcome);
    }
    return last;
}

// The schema and the smallest configuration of a plugin, made complete; `why` when there is none.
std::optional<std::pair<schema::Schema, std::string>> smallest(const Loaded& plugin,
                                                               const sluice_plugin_desc& desc,
                                                               std::string& why);

// The same with an instance of each, created from its smallest configuration.
template <class F>
Outcome each_instance(const Subject& subject, F&& f) {
    return each_plugin(subject, [&](const Loaded& plugin, const sluice_plugin_desc& desc) {
        std::string why;
        const auto config = smallest(plugin, desc, why);
        if (!config) {
            return failed(why);
        }
        TestInstance instance(plugin, desc);
        if (why = instance.create(config->second); !why.empty()) {
            return failed(why);
        }
        return f(plugin, desc, config->second, instance);
    });
}

}  // namespace sluice::check
