#include "core/tokens/vocabulary.hpp"

#include <xxhash.h>

#include <algorithm>
#include <bit>

namespace sluice::tokens {
namespace {

std::uint64_t hash_of(std::string_view token) noexcept {
    return XXH3_64bits(token.data(), token.size());
}
std::uint32_t tag_of(std::uint64_t hash) noexcept {
    return static_cast<std::uint32_t>(hash >> 32U);
}

}  // namespace

void Vocabulary::reserve(std::size_t entries, std::size_t bytes) {
    text_.reserve(bytes);
    slots_of_id_.reserve(entries);
    if (table_.size() < entries * 2) {
        rebuild(std::bit_ceil(entries * 2));
    }
}

// Fills a table of so many slots from the entries.
void Vocabulary::rebuild(std::size_t slots) {
    table_.assign(slots, Slot{});
    const std::size_t mask = table_.size() - 1;
    for (TokenId id = 0; id < id_end(); ++id) {
        if (slots_of_id_[id].length == kUnused) {
            continue;
        }
        const std::uint64_t hash = hash_of(at(id));
        std::size_t i = hash & mask;
        while (table_[i].id != kNoToken) {
            i = (i + 1) & mask;
        }
        table_[i] = {id, tag_of(hash)};
    }
}

Status Vocabulary::add(std::string_view token, TokenId id) {
    if (id >= kMaxTokenId) {
        return Error{Code::Limit, "token id " + std::to_string(id) + " is over the limit of " +
                                      std::to_string(kMaxTokenId - 1)};
    }
    if (text_.size() + token.size() > 0xFFFFFFFFU) {
        return Error{Code::Limit, "vocabulary text is over 4 GiB"};
    }
    if (id < id_end() && slots_of_id_[id].length != kUnused) {
        return Error{Code::Invalid, "two tokens have id " + std::to_string(id)};
    }
    if ((entries_ + 1) * 2 > table_.size()) {
        rebuild(std::max<std::size_t>(64, table_.size() * 2));
    }
    const std::size_t mask = table_.size() - 1;
    const std::uint64_t hash = hash_of(token);
    std::size_t i = hash & mask;
    while (table_[i].id != kNoToken) {
        if (table_[i].tag == tag_of(hash) && at(table_[i].id) == token) {
            return Error{Code::Invalid, "token '" + std::string(token) + "' occurs twice"};
        }
        i = (i + 1) & mask;
    }
    if (id >= id_end()) {
        slots_of_id_.resize(std::size_t{id} + 1);
    }
    slots_of_id_[id] = {static_cast<std::uint32_t>(text_.size()),
                        static_cast<std::uint32_t>(token.size())};
    text_.append(token);
    table_[i] = {id, tag_of(hash)};
    ++entries_;
    longest_ = std::max(longest_, token.size());
    return {};
}

TokenId Vocabulary::find(std::string_view token) const noexcept {
    if (token.size() > longest_ || table_.empty()) {
        return kNoToken;
    }
    const std::size_t mask = table_.size() - 1;
    const std::uint64_t hash = hash_of(token);
    for (std::size_t i = hash & mask; table_[i].id != kNoToken; i = (i + 1) & mask) {
        if (table_[i].tag == tag_of(hash) && at(table_[i].id) == token) {
            return table_[i].id;
        }
    }
    return kNoToken;
}

std::string_view Vocabulary::at(TokenId id) const noexcept {
    if (id >= id_end() || slots_of_id_[id].length == kUnused) {
        return {};
    }
    return std::string_view(text_).substr(slots_of_id_[id].begin, slots_of_id_[id].length);
}

}  // namespace sluice::tokens
