#include "core/tokens/bpe.hpp"

#include <simdjson.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

#include "core/tokens/unicode.hpp"

namespace sluice::tokens {
namespace {

unsigned char byte_of(char c) noexcept {
    return static_cast<unsigned char>(c);
}

MergeTable table_of(const Bpe::Model& model) {
    MergeTable table(model.merges.size());
    for (std::uint32_t rank = 0; rank < model.merges.size(); ++rank) {
        const auto [left, right] = model.merges[rank];
        // The reference keeps the last of two equal pairs; a loader that refuses them decides that.
        (void)table.add(left, right, {rank, model.joined[rank]});
    }
    return table;
}

}  // namespace

Bpe::Bpe(Model model)
    : model_(std::move(model)),
      merges_(table_of(model_)),
      starts_(model_.is_byte_level
                  ? CharStarts::for_bytes(model_.bytes, model_.id_of_byte, merges_, model_.merges)
                  : CharStarts::for_characters(model_.bytes)) {
    for (unsigned c = 0; c < ascii_.size(); ++c) {
        const char text = static_cast<char>(c);
        std::array<TokenId, CharStarts::kMaxTokens> one{};
        const std::size_t known = starts_.of(c, &text, &text, &text + 1, &text + 1, one.data());
        ascii_[c] = model_.is_byte_level ? model_.id_of_byte[c] : known != 0 ? one[0] : kNoToken;
    }
    has_whole_alphabet_ = model_.is_byte_level &&
                          std::find(model_.id_of_byte.begin(), model_.id_of_byte.end(), kNoToken) ==
                              model_.id_of_byte.end();
    model_.joined.clear();
    model_.joined.shrink_to_fit();
    gives_itself_.resize(model_.bytes.id_end());
    std::vector<TokenId> ids;
    for (TokenId id = 0; id < model_.bytes.id_end(); ++id) {
        const std::string_view text = model_.bytes.at(id);
        // Entries that are cut within a character are no text.
        if (text.empty() || !simdjson::validate_utf8(text.data(), text.size())) {
            continue;
        }
        ids.clear();
        IdSink sink(ids);
        if (!model_.ignores_merges) {
            merge(text, sink);
        }
        gives_itself_[id] = model_.ignores_merges || (sink.size() == 1 && ids[0] == id);
    }
}

bool Bpe::may_cut_before(std::string_view mark) const {
    if (model_.ignores_merges || model_.bytes.find(mark) == kNoToken) {
        return false;
    }
    return std::none_of(model_.merges.begin(), model_.merges.end(), [&](const auto& pair) {
        return model_.bytes.at(pair[1]).starts_with(mark) &&
               !model_.bytes.at(pair[0]).ends_with(mark);
    });
}

void Bpe::encode(std::string_view word, IdSink& out) const {
    if (model_.ignores_merges) {
        if (const TokenId whole = model_.bytes.find(word); whole != kNoToken) {
            out.push(whole);
            return;
        }
    }
    merge(word, out);
}

void Bpe::merge(std::string_view word, IdSink& out) const {
    // At most one symbol a byte; characters are written with places to spare.
    if (word.size() <= kShortSymbols) {
        std::array<TokenId, kShortSymbols + CharStarts::kMaxTokens> symbols;
        const std::size_t count = merge_short(symbols.data(), start(word, symbols.data()));
        out.append(symbols.data(), count);
        return;
    }
    TokenId* const symbols = out.room(word.size() + CharStarts::kMaxTokens);
    const std::size_t count = start(word, symbols);
    out.commit(count <= kShortSymbols ? merge_short(symbols, count) : merge_long(symbols, count));
}

// start() where no character is unknown.
std::size_t Bpe::start_bytes(std::string_view word, TokenId* out) const noexcept {
    const TokenId* const id_of_byte = model_.id_of_byte.data();
    TokenId* const begin = out;
    const char* p = word.data();
    const char* const end = p + word.size();
    while (p != end) {
        if (byte_of(*p) < 0x80) {
            *out++ = id_of_byte[byte_of(*p++)];
            continue;
        }
        const unicode::Decoded c = unicode::decode(p);
        const std::size_t count = starts_.of(c.value, word.data(), p, p + c.length, end, out);
        if (count != 0) {
            out += count;
            p += c.length;
        } else {
            for (const char* const stop = p + c.length; p != stop; ++p) {
                *out++ = id_of_byte[byte_of(*p)];
            }
        }
    }
    return static_cast<std::size_t>(out - begin);
}

// Writes the start symbols of `word`; `out` has room for one a byte.
std::size_t Bpe::start_any(std::string_view word, TokenId* out) const noexcept {
    std::size_t count = 0;
    // Unknown characters wait for the next known one, as fused runs need; bytes do not flush them.
    std::size_t waiting = 0;
    const auto flush = [&] {
        for (; waiting != 0; --waiting) {
            out[count++] = model_.unknown;
        }
    };
    const char* p = word.data();
    const char* const end = p + word.size();
    while (p != end) {
        std::array<TokenId, CharStarts::kMaxTokens> ids{};
        std::size_t known = 0;
        unsigned length = 1;
        if (byte_of(*p) < 0x80) {
            ids[0] = ascii_[byte_of(*p)];
            known = ids[0] != kNoToken ? 1 : 0;
        } else {
            const unicode::Decoded c = unicode::decode(p);
            length = c.length;
            known = starts_.of(c.value, word.data(), p, p + length, end, ids.data());
        }
        if (known != 0) {
            flush();
            std::copy_n(ids.data(), known, out + count);
            count += known;
        } else {
            const auto has_byte = [&](char c) {
                return model_.id_of_byte[byte_of(c)] != kNoToken;
            };
            if (model_.is_byte_level) {
                for (unsigned i = 0; i < length; ++i) {
                    if (has_byte(p[i])) {
                        flush();
                        out[count++] = model_.id_of_byte[byte_of(p[i])];
                    } else if (model_.unknown != kNoToken) {
                        waiting = model_.fuses_unknown ? 1 : waiting + 1;
                    }
                }
            } else if (std::all_of(p, p + length, has_byte)) {
                for (unsigned i = 0; i < length; ++i) {
                    out[count++] = model_.id_of_byte[byte_of(p[i])];
                }
            } else if (model_.unknown != kNoToken) {
                waiting = model_.fuses_unknown ? 1 : waiting + 1;
            }
        }
        p += length;
    }
    flush();
    return count;
}

// Merges in place by looking for the lowest rank; returns what is left.
std::size_t Bpe::merge_short(TokenId* symbols, std::size_t count) const noexcept {
    if (count < 2) {
        return count;
    }
    // Of each symbol with the one after it; the last has none.
    std::array<std::uint32_t, kShortSymbols> ranks;
    std::array<TokenId, kShortSymbols> joined;
    const auto ask = [&](std::size_t i) {
        const Merge merge = merges_.find(symbols[i], symbols[i + 1]);
        ranks[i] = merge.rank;
        joined[i] = merge.joined;
    };
    bool merges_any = false;
    for (std::size_t i = 0; i + 1 < count; ++i) {
        const Merge merge = merges_.find_low(symbols[i], symbols[i + 1]);
        ranks[i] = merge.rank;
        joined[i] = merge.joined;
        merges_any |= merge.rank != kNoRank;
    }
    while (merges_any) {
        std::size_t best = 0;
        for (std::size_t i = 1; i + 1 < count; ++i) {
            best = ranks[i] < ranks[best] ? i : best;
        }
        if (ranks[best] == kNoRank) {
            return count;
        }
        symbols[best] = joined[best];
        for (std::size_t i = best + 1; i + 1 < count; ++i) {
            symbols[i] = symbols[i + 1];
            ranks[i] = ranks[i + 1];
            joined[i] = joined[i + 1];
        }
        --count;
        if (count == 1) {
            return count;
        }
        if (best + 1 < count) {
            ask(best);
        }
        if (best != 0) {
            ask(best - 1);
        }
    }
    return count;
}

// The same with a heap of (rank, place).
std::size_t Bpe::merge_long(TokenId* symbols, std::size_t count) const {
    constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();
    struct Link {
        std::uint32_t before;
        std::uint32_t after;
        Merge merge;  // with the symbol after it; an entry of the heap is stale if its rank differs
    };
    std::vector<Link> links(count);
    std::vector<std::uint64_t> entries;
    entries.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        Link& link = links[i];
        link.before = i == 0 ? kEnd : i - 1;
        link.after = i + 1 == count ? kEnd : i + 1;
        if (link.after != kEnd) {
            link.merge = merges_.find_low(symbols[i], symbols[i + 1]);
            if (link.merge.rank != kNoRank) {
                entries.push_back(std::uint64_t{link.merge.rank} << 32U | i);
            }
        }
    }
    std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> heap(
        std::greater<>(), std::move(entries));
    const auto ask = [&](std::uint32_t i) {
        Link& link = links[i];
        link.merge = link.after == kEnd ? Merge{} : merges_.find(symbols[i], symbols[link.after]);
        if (link.merge.rank != kNoRank) {
            heap.push(std::uint64_t{link.merge.rank} << 32U | i);
        }
    };
    while (!heap.empty()) {
        const std::uint64_t entry = heap.top();
        heap.pop();
        const auto i = static_cast<std::uint32_t>(entry);
        if (links[i].merge.rank != entry >> 32U) {
            continue;
        }
        const std::uint32_t gone = links[i].after;
        symbols[i] = links[i].merge.joined;
        links[i].after = links[gone].after;
        links[gone].merge = {};
        if (links[gone].after != kEnd) {
            links[links[gone].after].before = i;
        }
        ask(i);
        if (links[i].before != kEnd) {
            ask(links[i].before);
        }
    }
    std::size_t left = 0;
    for (std::uint32_t i = 0; i != kEnd; i = links[i].after) {
        symbols[left++] = symbols[i];
    }
    return left;
}

}  // namespace sluice::tokens
