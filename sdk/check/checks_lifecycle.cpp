#include <cstring>

#include "sdk/check/cases.hpp"
#include "sdk/check/checks.hpp"
#include "sdk/check/each.hpp"
#include "sdk/check/text.hpp"
#include "sdk/check/usage.hpp"

namespace sluice::check {
namespace {

constexpr int kWarmUp = 50;
constexpr int kCycles = 500;

Outcome pure(const Subject& subject) {
    return each_plugin(subject, [&](const Loaded& plugin, const sluice_plugin_desc& desc) {
        if (plugin.entry->check == nullptr) {
            return passed("has no check");
        }
        std::string error;
        const auto schema = schema::Schema::parse(desc.config_schema, error);
        if (!schema) {
            return failed("config_schema: " + error);
        }
        const auto all = valid_cases(*schema, subject.seed);
        std::vector<std::string> answers;
        for (const std::string& config : all) {
            const Opinion opinion = ask(plugin, desc, config);
            if (!opinion.problem.empty()) {
                return failed(opinion.problem + ", asked about " + config);
            }
            answers.push_back(opinion.text);
        }
        // The same questions backwards: an answer that depends on what was asked before differs.
        for (std::size_t i = all.size(); i-- > 0;) {
            if (ask(plugin, desc, all[i]).text != answers[i]) {
                return failed("check answers differently when asked again about " + all[i]);
            }
        }
        // A rule that replaces itself, and one that replaces the smallest.
        for (const std::string& config : all) {
            for (const std::string& previous : {config, all.front()}) {
                const std::string rule = R"({"serviceArguments":)" + previous + "}";
                const Opinion opinion = ask(plugin, desc, config, rule);
                if (!opinion.problem.empty()) {
                    return failed(opinion.problem + ", asked about a change to " + config);
                }
            }
        }
        return passed(std::to_string(all.size()) + " configurations");
    });
}

Outcome unknown_ids(const Subject& subject) {
    return each_plugin(subject, [](const Loaded& plugin, const sluice_plugin_desc& desc) {
        std::string why;
        const auto config = smallest(plugin, desc, why);
        if (!config) {
            return failed(why);
        }
        for (const std::string& id : {std::string(desc.id) + "x", std::string(desc.id) + " ",
                                      std::string(), std::string("org.example.nobody")}) {
            ScriptedHost host;
            sluice_instance* out = nullptr;
            auto err = empty_error();
            const auto status =
                plugin.entry->create(host.table(), id.c_str(), borrow(config->second), &out, &err);
            if (status != SLUICE_E_NOT_FOUND || out != nullptr) {
                return failed("create of the unknown id \"" + id + "\" gives " +
                              status_name(status));
            }
        }
        return passed();
    });
}

Outcome unknown_extensions(const Subject& subject) {
    return each_instance(subject, [](const Loaded&, const sluice_plugin_desc& desc,
                                     const std::string&, TestInstance& instance) {
        std::vector<std::string> ids{"", "sluice.nothing/1", "sluice.engine/2",
                                     "sluice.selector/0"};
        for (std::size_t i = 0; desc.provides != nullptr && desc.provides[i] != nullptr; ++i) {
            const std::string id = desc.provides[i];
            ids.push_back(id + "1");
            ids.push_back(id.substr(0, id.size() - 1));
        }
        for (const std::string& id : ids) {
            if (instance.self()->query(instance.self(), id.c_str()) != nullptr) {
                return failed("answers the unknown extension \"" + id + "\"");
            }
        }
        return passed();
    });
}

Outcome two_instances(const Subject& subject) {
    return each_instance(subject, [](const Loaded& plugin, const sluice_plugin_desc& desc,
                                     const std::string& config, TestInstance& first) {
        TestInstance second(plugin, desc);
        std::string why = second.create(config);
        why = why.empty() ? first.activate() : why;
        why = why.empty() ? second.activate() : why;
        if (!why.empty()) {
            return failed("of two instances: " + why);
        }
        first.host().pump();
        second.host().pump();
        first.end();
        // The other one must not have lost anything.
        second.host().pump();
        second.end();
        const std::string problems = first.host().problems() + second.host().problems();
        return problems.empty() ? passed() : failed(problems);
    });
}

Outcome cycles(const Subject& subject) {
    return each_plugin(subject, [](const Loaded& plugin, const sluice_plugin_desc& desc) {
        std::string why;
        const auto config = smallest(plugin, desc, why);
        if (!config) {
            return failed(why);
        }
        Usage before;
        for (int i = 0; i < kWarmUp + kCycles; ++i) {
            if (i == kWarmUp) {
                before = usage();
            }
            TestInstance instance(plugin, desc);
            why = instance.create(config->second);
            // Every other instance is destroyed without having been active.
            why = why.empty() && i % 2 == 0 ? instance.activate() : why;
            if (!why.empty()) {
                return failed("at cycle " + std::to_string(i) + ": " + why);
            }
            instance.host().pump(1);
        }
        const Usage after = usage();
        // Less than the smallest block a cycle is the C library's own bookkeeping.
        const std::size_t allowed = before.heap_bytes + std::size_t{8} * kCycles;
        if (after.heap_bytes > allowed) {
            return failed("500 instances leave " +
                          std::to_string(after.heap_bytes - before.heap_bytes) +
                          " bytes of memory behind");
        }
        if (after.descriptors > before.descriptors || after.threads > before.threads) {
            return failed("500 instances leave " +
                          std::to_string(after.descriptors - before.descriptors) +
                          " descriptors and " + std::to_string(after.threads - before.threads) +
                          " threads behind");
        }
        return passed();
    });
}

Outcome withheld(const Subject& subject) {
    return each_plugin(subject, [](const Loaded& plugin, const sluice_plugin_desc& desc) {
        std::string why;
        const auto config = smallest(plugin, desc, why);
        if (!config) {
            return failed(why);
        }
        for (const std::string& service : ScriptedHost::service_ids()) {
            bool is_needed = false;
            for (std::size_t i = 0; desc.needs != nullptr && desc.needs[i] != nullptr; ++i) {
                is_needed = is_needed || service == desc.needs[i];
            }
            TestInstance instance(plugin, desc);
            instance.host().withhold(service);
            why = instance.create(config->second);
            why = why.empty() ? instance.activate() : why;
            if (why.empty()) {
                instance.host().pump();
            } else if (!is_needed) {
                return failed("without " + service + ", which it does not need: " + why);
            }
            instance.end();
            if (const std::string problems = instance.host().problems(); !problems.empty()) {
                return failed("without " + service + ": " + problems);
            }
        }
        return passed();
    });
}

Outcome boundaries(const Subject& subject) {
    return each_plugin(subject, [&](const Loaded& plugin, const sluice_plugin_desc& desc) {
        std::string error;
        const auto schema = schema::Schema::parse(desc.config_schema, error);
        if (!schema) {
            return failed("config_schema: " + error);
        }
        std::size_t made = 0;
        std::size_t refused = 0;
        for (const std::string& given : valid_cases(*schema, subject.seed)) {
            const auto config = complete(plugin, desc, *schema, given);
            if (!config) {
                ++refused;
                continue;
            }
            TestInstance instance(plugin, desc);
            std::string why = instance.create(*config);
            why = why.empty() ? instance.activate() : why;
            if (!why.empty() && instance.status() != SLUICE_E_CONFIG) {
                return failed("with " + *config + ": " + why);
            }
            instance.host().pump();
            instance.end();
            if (const std::string problems = instance.host().problems(); !problems.empty()) {
                return failed("with " + *config + ": " + problems);
            }
            (why.empty() ? made : refused) += 1;
        }
        return passed(std::to_string(made) + " configurations run, " + std::to_string(refused) +
                      " are refused");
    });
}

}  // namespace

void add_lifecycle_checks(std::vector<Check>& out) {
    out.push_back({4, "lifecycle.pure", "check answers every rule, always the same", &pure});
    out.push_back({4, "lifecycle.ids", "an unknown plugin id is not found", &unknown_ids});
    out.push_back({4, "lifecycle.extensions", "an unknown extension is NULL", &unknown_extensions});
    out.push_back({4, "lifecycle.two", "two instances live side by side", &two_instances});
    out.push_back({4, "lifecycle.cycles", "500 instances leave nothing behind", &cycles});
    out.push_back({4, "lifecycle.withheld", "each service can be missing", &withheld});
    out.push_back({4, "lifecycle.boundaries", "every boundary of the schema runs or is refused",
                   &boundaries});
}

}  // namespace sluice::check
