#include "core/rules/table.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "core/rules/key.hpp"

namespace sluice::rules {
namespace {

bool prefix_ends_at_segment(std::string_view prefix, std::string_view path) {
    return prefix.empty() || prefix == "/" || path.size() == prefix.size() ||
           path[prefix.size()] == '/';
}

}  // namespace

Table::Table(std::vector<RulePtr> rules) : rules_(std::move(rules)) {
    std::sort(rules_.begin(), rules_.end(),
              [](const RulePtr& a, const RulePtr& b) { return a->number < b->number; });
    for (std::size_t i = 0; i < rules_.size(); ++i) {
        const RuleKey& key = rules_[i]->key;
        Host& host = by_listener_[{key.ip, key.port}][key.host];
        Pool& pool =
            key.path_mode == "exact" ? host.exact[key.path_prefix] : host.prefix[key.path_prefix];
        if (key.path_mode != "exact") {
            host.lengths.push_back(key.path_prefix.size());
        }
        if (key.model.empty()) {
            pool.wildcard = pool.wildcard.value_or(i);
        } else {
            pool.by_model.emplace(key.model, i);
        }
    }
    for (auto& [listener, hosts] : by_listener_) {
        for (auto& [name, host] : hosts) {
            std::sort(host.lengths.begin(), host.lengths.end(), std::greater<>());
            host.lengths.erase(std::unique(host.lengths.begin(), host.lengths.end()),
                               host.lengths.end());
        }
    }
}

std::vector<ListenAddress> Table::listeners() const {
    std::vector<ListenAddress> out;
    out.reserve(by_listener_.size());
    for (const auto& [listener, hosts] : by_listener_) {
        out.push_back(listener);
    }
    return out;
}

std::optional<std::size_t> Table::in_pool(const Pool& pool, std::string_view model) {
    if (!model.empty()) {
        if (const auto it = pool.by_model.find(model); it != pool.by_model.end()) {
            return it->second;
        }
    }
    return pool.wildcard;
}

std::optional<std::size_t> Table::in_host(const Host& host, std::string_view path,
                                          std::string_view model) {
    if (const auto exact = host.exact.find(path); exact != host.exact.end()) {
        if (const auto rule = in_pool(exact->second, model)) {
            return rule;
        }
    }
    for (const std::size_t length : host.lengths) {
        if (length > path.size()) {
            continue;
        }
        const std::string_view prefix = path.substr(0, length);
        if (!prefix_ends_at_segment(prefix, path)) {
            continue;
        }
        const auto pool = host.prefix.find(prefix);
        if (pool == host.prefix.end()) {
            continue;
        }
        if (const auto rule = in_pool(pool->second, model)) {
            return rule;
        }
    }
    return std::nullopt;
}

Lookup Table::find(const ListenAddress& listener, std::string_view host, std::string_view path,
                   std::string_view model) const {
    const auto hosts = by_listener_.find(listener);
    if (hosts == by_listener_.end()) {
        return {std::nullopt, Miss::NoRules};
    }
    std::array<char, 255> lowered{};
    const std::string_view name = host_name(host);
    if (!name.empty() && name.size() <= lowered.size()) {
        std::transform(name.begin(), name.end(), lowered.begin(),
                       [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        const auto own = hosts->second.find(std::string_view(lowered.data(), name.size()));
        if (own != hosts->second.end()) {
            if (const auto rule = in_host(own->second, path, model)) {
                return {rule, Miss::None};
            }
        }
    }
    if (const auto any = hosts->second.find(std::string_view()); any != hosts->second.end()) {
        if (const auto rule = in_host(any->second, path, model)) {
            return {rule, Miss::None};
        }
    }
    return {std::nullopt, model.empty() ? Miss::NoRoute : Miss::ModelUnavailable};
}

std::optional<std::size_t> Table::by_key(const RuleKey& key) const {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
        if (rules_[i]->key == key) {
            return i;
        }
    }
    return std::nullopt;
}

std::optional<std::size_t> Table::by_id(std::string_view id) const {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
        if (rules_[i]->id == id) {
            return i;
        }
    }
    return std::nullopt;
}

std::optional<std::size_t> Table::by_number(std::uint32_t number) const {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
        if (rules_[i]->number == number) {
            return i;
        }
    }
    return std::nullopt;
}

}  // namespace sluice::rules
