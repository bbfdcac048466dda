// Any host, path and model against a table: the rule found must be one that takes them.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/rules/key.hpp"
#include "core/rules/table.hpp"

using namespace sluice::rules;

namespace {

Table make_table() {
    std::vector<RulePtr> rules;
    std::uint32_t number = 1;
    for (const char* host : {"", "a", "a.b", "[::1]"}) {
        for (const auto& [path, mode] :
             {std::pair{"", ""}, std::pair{"/", "prefix"}, std::pair{"/v", "prefix"},
              std::pair{"/v/w", "prefix"}, std::pair{"/v", "exact"}, std::pair{"/v/", "exact"}}) {
            for (const char* model : {"", "m", "M/n"}) {
                Rule rule;
                rule.number = number++;
                rule.key = {"127.0.0.1", 1, "tcp", 0, host, path, mode, model};
                if (rule.number % 3 != 0) {  // leave holes to fall through
                    rules.push_back(std::make_shared<const Rule>(rule));
                }
            }
        }
    }
    return Table(std::move(rules));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Table table = make_table();
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const std::size_t one = text.find('\n');
    const std::string_view rest = one == std::string_view::npos ? "" : text.substr(one + 1);
    const std::size_t two = rest.find('\n');
    const std::string_view host = text.substr(0, one);
    const std::string_view path = rest.substr(0, two);
    const std::string_view model = two == std::string_view::npos ? "" : rest.substr(two + 1);
    const Lookup found = table.find({"127.0.0.1", 1}, host, path, model);
    if (!found.rule) {
        if (found.miss != (model.empty() ? Miss::NoRoute : Miss::ModelUnavailable)) {
            std::abort();
        }
        return 0;
    }
    const RuleKey& key = table.rules()[*found.rule]->key;
    std::string lowered(host_name(host));
    for (char& c : lowered) {
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    }
    const bool path_fits =
        key.path_mode == "exact"
            ? path == key.path_prefix
            : path.substr(0, key.path_prefix.size()) == key.path_prefix &&
                  (key.path_prefix.empty() || key.path_prefix == "/" ||
                   path.size() == key.path_prefix.size() || path[key.path_prefix.size()] == '/');
    if ((!key.host.empty() && key.host != lowered) || !path_fits ||
        (!key.model.empty() && key.model != model)) {
        std::abort();
    }
    return 0;
}
