// Who may ask: tokens from a file, roles, and a limit on guessing.
//
// Threads: any.
// Errors:  load() names file and line; a token is never in a message.
// Limits:  kMaxTokens tokens. Per address (an IPv6 /64 counts as one) kGuesses wrong tokens, then
//          one more every kGuessEvery; kMaxAddresses are remembered, the longest silent is
//          forgotten first.
// Source:  the management contract: lines `name role token`, role admin or viewer, # comments.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/admin/http_value.hpp"
#include "core/base/result.hpp"
#include "core/base/snapshot.hpp"

namespace sluice::admin {

class Tokens {
public:
    static constexpr std::size_t kMaxTokens = 1024;
    static constexpr std::size_t kMaxName = 128;  // bytes; every audit row has one

    struct Match {
        std::string name;
        Role role = Role::Viewer;
    };

    Tokens() = default;  // nobody is asked for a token
    // Refuses a file that others may read, and an empty one.
    static Result<Tokens> load(const std::string& path);
    static Result<Tokens> parse(std::string_view text);

    bool empty() const noexcept { return entries_.empty(); }
    // In a time that does not depend on which token, if any, it is.
    std::optional<Match> find(std::string_view token) const;

private:
    using Digest = std::array<unsigned char, 32>;
    struct Entry {
        std::string name;
        Role role = Role::Viewer;
        Digest digest{};
    };
    std::vector<Entry> entries_;
};

class Auth {
public:
    static constexpr std::uint32_t kGuesses = 10;
    static constexpr std::chrono::seconds kGuessEvery{6};
    static constexpr std::size_t kMaxAddresses = 1024;

    explicit Auth(Tokens tokens) { replace(std::move(tokens)); }

    // No token is asked for.
    bool is_open() const { return tokens_.get()->empty(); }
    // From the next request on; who guessed stays known.
    void replace(Tokens tokens) { tokens_.set(std::make_shared<const Tokens>(std::move(tokens))); }

    // Sets request.actor and is_identified, or says why not. `is_reading`: a viewer may.
    std::optional<Response> admit(Request& request, bool is_reading, std::uint64_t now_us);
    std::size_t remembered() const;

private:
    struct Guesser {
        std::uint32_t left = kGuesses;
        std::uint64_t since_us = 0;  // of the last refill
        std::uint64_t seen_us = 0;
    };
    bool may_guess(const std::string& address, std::uint64_t now_us);
    void wrong_guess(const std::string& address, std::uint64_t now_us);

    Snapshot<Tokens> tokens_;
    mutable std::mutex mu_;
    std::map<std::string, Guesser> guessers_;  // guarded by mu_
};

}  // namespace sluice::admin
