// Every rule in force, as one immutable value, and the look-up of the pool of a request.
//
// Threads: any (immutable); replaced as a whole through Snapshot<Table>.
// Source:  routing contract, model pool look-up: keys are tried longest path first, with the model
//          before the wildcard, then without path, then for any host.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/rules/rule.hpp"

namespace sluice::rules {

// A VIP:port of at least one rule.
struct ListenAddress {
    std::string ip;
    std::uint16_t port = 0;
    auto operator<=>(const ListenAddress&) const = default;
};

enum class Miss { None, NoRules, NoRoute, ModelUnavailable };

struct Lookup {
    std::optional<std::size_t> rule;  // index into Table::rules()
    Miss miss = Miss::None;
};

class Table {
public:
    Table() = default;
    explicit Table(std::vector<RulePtr> rules);

    const std::vector<RulePtr>& rules() const noexcept { return rules_; }
    std::vector<ListenAddress> listeners() const;

    // `host` as in the request's Host header (any case, with or without port); `path` without
    // query; an empty model means the request names none.
    Lookup find(const ListenAddress& listener, std::string_view host, std::string_view path,
                std::string_view model) const;

    std::optional<std::size_t> by_key(const RuleKey& key) const;
    std::optional<std::size_t> by_id(std::string_view id) const;

private:
    std::vector<RulePtr> rules_;
    std::map<ListenAddress, std::vector<std::size_t>> by_listener_;
};

}  // namespace sluice::rules
