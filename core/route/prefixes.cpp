#include "core/route/prefixes.hpp"

#include <xxhash.h>

#include <algorithm>

namespace sluice::route {
namespace {

// Beginning at `at`; a block of sixteen tokens has sixty-four bytes here.
std::size_t piece_bytes(std::size_t at) noexcept {
    constexpr std::size_t kKiB = 1024;
    return at < 4 * kKiB           ? 64
           : at < 64 * kKiB        ? 512
           : at < kKiB * kKiB      ? 4 * kKiB
           : at < 64 * kKiB * kKiB ? 64 * kKiB
                                   : kKiB * kKiB;
}

}  // namespace

std::uint64_t chain_root(char kind, std::string_view model, std::string_view salt,
                         std::string_view tools) noexcept {
    std::uint64_t out = static_cast<unsigned char>(kind);
    for (const std::string_view part : {model, salt, tools}) {
        out = XXH3_64bits_withSeed(part.data(), part.size(), out);
    }
    return out;
}

void Chain::assign(std::uint64_t root, std::string_view prompt) {
    pieces_.clear();
    std::uint64_t key = root;
    for (std::size_t at = 0; at < prompt.size() && pieces_.size() < kMaxPieces;) {
        const std::string_view piece = prompt.substr(at, piece_bytes(at));
        key = XXH3_64bits_withSeed(piece.data(), piece.size(), key);
        at += piece.size();
        pieces_.push_back({key, at});
    }
}

void Chain::assign(std::uint64_t root, std::span<const std::uint32_t> tokens) {
    assign(root,
           std::string_view(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()));
}

std::optional<Prefixes::Match> Prefixes::find(
    const Chain& chain, const std::function<bool(std::uint64_t)>& may_serve) const {
    const std::lock_guard lock(mu_);
    std::optional<Match> out;
    for (const Chain::Piece& piece : chain.pieces()) {
        const std::uint64_t* holder = holders_.peek(piece.key);
        if (holder == nullptr) {
            break;
        }
        if (may_serve(*holder)) {
            out = Match{*holder, piece.end};
        }
    }
    return out;
}

void Prefixes::learn(const Chain& chain, std::uint64_t endpoint) {
    const std::lock_guard lock(mu_);
    // The beginning is used last: a chain loses its end before what the end stands on.
    const auto pieces = chain.pieces();
    for (auto it = pieces.rbegin(); it != pieces.rend(); ++it) {
        holders_.put(it->key, endpoint);
    }
}

void Prefixes::retain(const std::function<bool(std::uint64_t)>& stays) {
    const std::lock_guard lock(mu_);
    holders_.erase_if([&](std::uint64_t endpoint) { return !stays(endpoint); });
}

std::size_t Prefixes::size() const {
    const std::lock_guard lock(mu_);
    return holders_.size();
}

}  // namespace sluice::route
