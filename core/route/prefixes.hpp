// Which prefill endpoint saw the beginning of a prompt last: what is guessed about caches where no
// engine tells.
//
// A prompt is a chain of keys, one a piece of it, each over all that stands before: of its token
// ids where they are known, else of its JSON text. Pieces are finest where prompts differ most.
//
// Threads: any; a Chain is one request's.
// Limits:  kMost keys a rule, the ones used longest ago go first; of a prompt kMaxPieces at most.
// Units:   bytes (of text, or four a token).
// Source:  routing contract, section 6 (tier 1): every tier teaches, not only the last one, and the
//          whole prompt counts.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/route/recent.hpp"

namespace sluice::route {

class Chain {
public:
    static constexpr std::size_t kMaxPieces = 2048;
    struct Piece {
        std::uint64_t key = 0;
        std::size_t end = 0;  // of the prompt
    };

    // `root` sets apart what must not meet: another model, adapter, salt or set of tools.
    void assign(std::uint64_t root, std::string_view prompt);
    void assign(std::uint64_t root, std::span<const std::uint32_t> tokens);
    void clear() noexcept { pieces_.clear(); }

    std::span<const Piece> pieces() const noexcept { return pieces_; }
    // How much of the prompt the chain covers.
    std::size_t size() const noexcept { return pieces_.empty() ? 0 : pieces_.back().end; }

private:
    std::vector<Piece> pieces_;
};

// The root of chains of one kind ('t' tokens, 'j' JSON text).
std::uint64_t chain_root(char kind, std::string_view model, std::string_view salt,
                         std::string_view tools) noexcept;

class Prefixes {
public:
    static constexpr std::size_t kMost = 65536;

    struct Match {
        std::uint64_t endpoint = 0;
        std::size_t length = 0;
    };
    // The deepest piece whose endpoint `may_serve`.
    std::optional<Match> find(const Chain& chain,
                              const std::function<bool(std::uint64_t)>& may_serve) const;
    void learn(const Chain& chain, std::uint64_t endpoint);
    // Drops what names an endpoint that `stays` denies.
    void retain(const std::function<bool(std::uint64_t)>& stays);
    std::size_t size() const;

private:
    mutable std::mutex mu_;
    mutable Recent<std::uint64_t> holders_{kMost};  // guarded by mu_; key -> endpoint
};

}  // namespace sluice::route
