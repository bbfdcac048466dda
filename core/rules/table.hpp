// Every rule in force, as one immutable value, and the look-up of the pool of a request.
//
// Threads: any (immutable); replaced as a whole through Snapshot<Table>.
// Source:  routing contract, model pool look-up: keys are tried longest path first, with the model
//          before the wildcard, then without path, then for any host. A path prefix ends at a
//          segment. Rules that differ in nothing a request shows: the oldest wins.
// Limits:  find() costs one look-up a distinct prefix length of the host's rules and allocates
//          nothing; hosts above 255 bytes match rules for any host only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
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
    std::optional<std::size_t> by_number(std::uint32_t number) const;

private:
    struct TextHash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const noexcept {
            return std::hash<std::string_view>{}(text);
        }
    };
    template <class V>
    using ByText = std::unordered_map<std::string, V, TextHash, std::equal_to<>>;

    // Rules that differ in the model only.
    struct Pool {
        ByText<std::size_t> by_model;
        std::optional<std::size_t> wildcard;
    };
    struct Host {
        ByText<Pool> exact;                // path_match_mode exact
        ByText<Pool> prefix;               // prefix; "" holds the rules without a path
        std::vector<std::size_t> lengths;  // of prefixes, longest first
    };

    static std::optional<std::size_t> in_pool(const Pool& pool, std::string_view model);
    static std::optional<std::size_t> in_host(const Host& host, std::string_view path,
                                              std::string_view model);

    std::vector<RulePtr> rules_;
    std::map<ListenAddress, ByText<Host>> by_listener_;
};

}  // namespace sluice::rules
