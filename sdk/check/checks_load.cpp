#include <ctime>

#include "sdk/check/checks.hpp"
#include "sdk/check/loaded.hpp"

namespace sluice::check {
namespace {

constexpr double kLoadLimitMs = 50;

// Of this process's own processor time: a busy machine is not the plugin's fault.
double cpu_ms() {
    timespec t{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

Outcome load_now(const Subject& subject) {
    std::string error;
    return load(subject.path, error) ? passed() : failed(error);
}

Outcome load_fast(const Subject& subject) {
    const double begin = cpu_ms();
    std::string error;
    const auto plugin = load(subject.path, error);
    if (!plugin) {
        return failed(error);
    }
    const auto count = plugin->descriptors().size();
    const double took = cpu_ms() - begin;
    const std::string text = std::to_string(count) + " plugins described in " +
                             std::to_string(took) + " ms of processor time";
    return took <= kLoadLimitMs ? passed(text) : failed(text);
}

Outcome load_entry(const Subject& subject) {
    std::string error;
    const auto plugin = load(subject.path, error);
    if (!plugin) {
        return failed(error);
    }
    if (plugin->entry_fn() != plugin->entry) {
        return failed("the entry function gives another table at the second call");
    }
    const std::uint32_t count = plugin->entry->count();
    if (count == 0 || count > 64 || plugin->descriptors().size() != count) {
        return failed("describes " + std::to_string(plugin->descriptors().size()) + " of the " +
                      std::to_string(count) + " plugins it counts");
    }
    if (plugin->entry->describe(count) != nullptr ||
        plugin->entry->describe(UINT32_MAX) != nullptr) {
        return failed("describes a plugin past its count");
    }
    return plugin->entry->describe(0) == plugin->entry->describe(0)
               ? passed()
               : failed("gives another descriptor at the second call");
}

Outcome load_init(const Subject& subject) {
    std::string error;
    const auto plugin = load(subject.path, error);
    if (!plugin) {
        return failed(error);
    }
    auto err = empty_error();
    for (int i = 0; i < 2; ++i) {
        if (const auto status = plugin->entry->init(&err); status != SLUICE_OK) {
            return failed("init: " + status_name(status) + " " + text_of(err));
        }
    }
    // One deinit more than inits, then from the start again.
    for (int i = 0; i < 3; ++i) {
        plugin->entry->deinit();
    }
    if (const auto status = plugin->entry->init(nullptr); status != SLUICE_OK) {
        return failed("init after deinit: " + status_name(status));
    }
    plugin->entry->deinit();
    return plugin->descriptors().size() == plugin->entry->count()
               ? passed()
               : failed("descriptors are gone after deinit");
}

}  // namespace

void add_load_checks(std::vector<Check>& out) {
    out.push_back({2, "load.now", "loads with every symbol bound and a usable entry", &load_now});
    out.push_back({2, "load.fast", "loads and describes itself within 50 ms", &load_fast});
    out.push_back({2, "load.entry", "entry and descriptors are the same each time", &load_entry});
    out.push_back({2, "load.init", "unbalanced init and deinit do no harm", &load_init});
}

}  // namespace sluice::check
