#include <cstring>
#include <set>

#include "sdk/check/cases.hpp"
#include "sdk/check/checks.hpp"
#include "sdk/check/each.hpp"
#include "sdk/check/text.hpp"

namespace sluice::check {
namespace {

Outcome names(const Subject& subject) {
    std::set<std::string> seen;
    return each_plugin(subject, [&](const Loaded&, const sluice_plugin_desc& desc) {
        if (!is_reverse_dns(desc.id)) {
            return failed("the id is not a reverse domain name in lower case");
        }
        const std::string alias = desc.alias == nullptr ? "" : desc.alias;
        if (!seen.insert(desc.id).second || (!alias.empty() && !seen.insert(alias).second)) {
            return failed("the id or alias stands twice in the file");
        }
        return passed();
    });
}

Outcome file_name(const Subject& subject) {
    std::string error;
    const auto plugin = load(subject.path, error);
    if (!plugin || plugin->descriptors().empty()) {
        return failed(plugin ? "describes nothing" : error);
    }
    const std::string name = subject.path.substr(subject.path.rfind('/') + 1);
    const std::string want = std::string(plugin->descriptors().front()->id) + ".so";
    return name == want ? passed() : failed("named " + name + " instead of " + want);
}

Outcome texts(const Subject& subject) {
    return each_plugin(subject, [](const Loaded&, const sluice_plugin_desc& desc) {
        struct Row {
            const char* name;
            const char* value;
            bool may_be_empty;
        };
        for (const Row& row :
             {Row{"alias", desc.alias, true}, Row{"name", desc.name, false},
              Row{"summary", desc.summary, false}, Row{"version", desc.version, false},
              Row{"license", desc.license, false}, Row{"vendor", desc.vendor, true},
              Row{"url", desc.url, true}}) {
            const std::string_view text = row.value == nullptr ? "" : row.value;
            if ((text.empty() && !row.may_be_empty) || !is_utf8(text) || !is_one_line(text) ||
                text.size() > 512) {
                return failed(std::string("the ") + row.name +
                              " is missing, too long or not one line of UTF-8");
            }
        }
        if (!is_semver(desc.version)) {
            return failed("the version " + std::string(desc.version) + " is no semantic version");
        }
        return is_spdx(desc.license)
                   ? passed()
                   : failed("the license " + std::string(desc.license) + " is no SPDX expression");
    });
}

Outcome schemas(const Subject& subject) {
    return each_plugin(subject, [](const Loaded&, const sluice_plugin_desc& desc) {
        std::string error;
        if (desc.config_schema == nullptr || !schema::Schema::parse(desc.config_schema, error)) {
            return failed("config_schema: " + (error.empty() ? "missing" : error));
        }
        if (desc.endpoint_schema != nullptr &&
            !schema::Schema::parse(desc.endpoint_schema, error)) {
            return failed("endpoint_schema: " + error);
        }
        return passed();
    });
}

Outcome provides(const Subject& subject) {
    return each_instance(subject, [](const Loaded& plugin, const sluice_plugin_desc& desc,
                                     const std::string&, TestInstance& instance) {
        if (desc.provides == nullptr || desc.provides[0] == nullptr) {
            return failed("provides nothing");
        }
        for (std::size_t i = 0; desc.provides[i] != nullptr; ++i) {
            const char* id = desc.provides[i];
            const void* table = instance.self()->query(instance.self(), id);
            if (table == nullptr) {
                return failed(std::string("provides ") + id + " and answers NULL to it");
            }
            if (instance.self()->query(instance.self(), id) != table) {
                return failed(std::string("answers another table for ") + id +
                              " at the second call");
            }
        }
        for (const char* id : {"sluice.engine/1", "sluice.selector/1", "sluice.tokenizer/1"}) {
            if (!plugin.provides(desc, id) &&
                instance.self()->query(instance.self(), id) != nullptr) {
                return failed(std::string("answers ") + id + ", which it does not provide");
            }
        }
        return passed();
    });
}

Outcome needs(const Subject& subject) {
    return each_plugin(subject, [](const Loaded&, const sluice_plugin_desc& desc) {
        for (std::size_t i = 0; desc.needs != nullptr && desc.needs[i] != nullptr; ++i) {
            bool is_known_service = false;
            for (const std::string& id : ScriptedHost::service_ids()) {
                is_known_service = is_known_service || id == desc.needs[i];
            }
            if (!is_known_service) {
                return failed(std::string("needs the unknown service ") + desc.needs[i]);
            }
        }
        return passed();
    });
}

Outcome defaults(const Subject& subject) {
    return each_instance(subject, [](const Loaded&, const sluice_plugin_desc&, const std::string&,
                                     TestInstance& instance) {
        if (const std::string why = instance.activate(); !why.empty()) {
            return failed("with defaults alone: " + why);
        }
        instance.host().pump();
        instance.end();
        const std::string problems = instance.host().problems();
        return problems.empty() ? passed() : failed(problems);
    });
}

}  // namespace

void add_descriptor_checks(std::vector<Check>& out) {
    out.push_back(
        {3, "descriptor.id", "ids are reverse domain names, ids and aliases unique", &names});
    out.push_back({3, "descriptor.file", "the file is named after its first plugin", &file_name});
    out.push_back({3, "descriptor.texts", "texts are lines of UTF-8; semver; SPDX", &texts});
    out.push_back({3, "descriptor.schemas", "schemas parse and stay within the subset", &schemas});
    out.push_back({3, "descriptor.needs", "needs only services that exist", &needs});
    out.push_back(
        {3, "descriptor.provides", "what it provides is answered, nothing else is", &provides});
    out.push_back(
        {3, "descriptor.defaults", "defaults alone make an instance that runs", &defaults});
}

}  // namespace sluice::check
