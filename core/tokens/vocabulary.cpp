#include "core/tokens/vocabulary.hpp"

#include <xxhash.h>

#include <algorithm>
#include <bit>

namespace sluice::tokens {
namespace {

std::size_t hash_of(std::string_view token) noexcept {
    return XXH3_64bits(token.data(), token.size());
}

}  // namespace

void Vocabulary::reserve(std::size_t entries, std::size_t bytes) {
    text_.reserve(bytes);
    slots_of_id_.reserve(entries);
    if (table_.size() < entries * 2) {
        table_.assign(std::bit_ceil(entries * 2), kNoToken);
        grow();
    }
}

// Fills the table anew from the entries.
void Vocabulary::grow() {
    std::fill(table_.begin(), table_.end(), kNoToken);
    const std::size_t mask = table_.size() - 1;
    for (TokenId id = 0; id < id_end(); ++id) {
        if (slots_of_id_[id].length == kUnused) {
            continue;
        }
        std::size_t i = hash_of(at(id)) & mask;
        while (table_[i] != kNoToken) {
            i = (i + 1) & mask;
        }
        table_[i] = id;
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
        table_.assign(std::max<std::size_t>(64, table_.size() * 2), kNoToken);
        grow();
    }
    const std::size_t mask = table_.size() - 1;
    std::size_t i = hash_of(token) & mask;
    while (table_[i] != kNoToken) {
        if (at(table_[i]) == token) {
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
    table_[i] = id;
    ++entries_;
    longest_ = std::max(longest_, token.size());
    return {};
}

TokenId Vocabulary::find(std::string_view token) const noexcept {
    if (token.size() > longest_ || table_.empty()) {
        return kNoToken;
    }
    const std::size_t mask = table_.size() - 1;
    for (std::size_t i = hash_of(token) & mask; table_[i] != kNoToken; i = (i + 1) & mask) {
        if (at(table_[i]) == token) {
            return table_[i];
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
