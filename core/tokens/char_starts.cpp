#include "core/tokens/char_starts.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/tokens/unicode.hpp"

namespace sluice::tokens {
namespace {

// Real models have under a hundred bars of under twenty texts.
constexpr std::size_t kMaxBars = 4096;
constexpr std::size_t kMaxTexts = 64;

unsigned char byte_of(char c) noexcept {
    return static_cast<unsigned char>(c);
}

// One character in its only valid form: tokens hold any bytes, overlong forms among them.
bool is_one_character(std::string_view text) {
    if (text.empty() || unicode::is_continuation(text[0]) ||
        text.size() != unicode::length_of(byte_of(text[0])) ||
        !std::all_of(text.begin() + 1, text.end(), unicode::is_continuation)) {
        return false;
    }
    const char32_t c = unicode::decode(text.data()).value;
    std::string again;
    if (c < 0x110000) {
        unicode::append(c, again);
    }
    return again == text;
}

// Bytes that, side by side in valid UTF-8, are of one character.
bool is_within_character(std::string_view text) noexcept {
    const bool has_lead = !unicode::is_continuation(text[0]);
    return std::all_of(text.begin() + (has_lead ? 1 : 0), text.end(), unicode::is_continuation) &&
           (!has_lead || text.size() <= unicode::length_of(byte_of(text[0])));
}

// A merge of a part of a character with what is beside it.
struct Crossing {
    std::uint32_t rank;
    TokenId neighbour;
};
using Crossings = std::unordered_map<TokenId, std::vector<Crossing>>;

// One character's bytes merged alone.
struct Alone {
    std::vector<TokenId> parts;  // what is left in the end
    std::uint32_t highest_rank = 0;
    std::vector<TokenId> firsts;  // every part that was first before the character was whole
    std::vector<TokenId> lasts;
};

Alone merge_alone(std::string_view text, const std::vector<TokenId>& id_of_byte,
                  const MergeTable& merges) {
    Alone out;
    std::vector<TokenId>& parts = out.parts;
    for (const char c : text) {
        parts.push_back(id_of_byte[byte_of(c)]);
    }
    while (parts.size() > 1) {
        out.firsts.push_back(parts.front());
        out.lasts.push_back(parts.back());
        Merge best;
        std::size_t where = 0;
        for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
            const Merge merge = merges.find(parts[i], parts[i + 1]);
            if (merge.rank < best.rank) {
                best = merge;
                where = i;
            }
        }
        if (best.rank == kNoRank) {
            return out;
        }
        out.highest_rank = std::max(out.highest_rank, best.rank);
        parts[where] = best.joined;
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(where) + 1);
    }
    return out;
}

// The texts of the neighbours that merge with one of `parts` at a rank up to `rank`, in order.
std::vector<std::string> neighbours_up_to(const std::vector<TokenId>& parts,
                                          const Crossings& crossings, std::uint32_t rank,
                                          const Vocabulary& bytes) {
    std::set<std::string> texts;
    for (const TokenId part : parts) {
        if (const auto found = crossings.find(part); found != crossings.end()) {
            for (const Crossing& crossing : found->second) {
                if (crossing.rank > rank) {
                    break;  // they are in order
                }
                texts.emplace(bytes.at(crossing.neighbour));
            }
        }
    }
    return {texts.begin(), texts.end()};
}

}  // namespace

CharStarts::CharStarts() : pages_(1), bars_(1), bar_bytes_(1) {}

CharStarts::Start& CharStarts::at(char32_t c) {
    std::uint16_t& page = page_of_[c >> 8U];
    if (page == 0) {
        page = static_cast<std::uint16_t>(pages_.size());
        pages_.emplace_back();
    }
    return pages_[page][c & 0xFFU];
}

bool CharStarts::is_barred(const Start& start, std::string_view before,
                           std::string_view after) const noexcept {
    const Bar& left = bars_[start.left];
    const Bar& right = bars_[start.right];
    return std::any_of(left.begin(), left.end(),
                       [before](const std::string& text) { return before.ends_with(text); }) ||
           std::any_of(right.begin(), right.end(),
                       [after](const std::string& text) { return after.starts_with(text); });
}

std::uint16_t CharStarts::add_bar(Bar texts, bool is_before) {
    std::bitset<256> bytes;
    for (const std::string& text : texts) {
        bytes.set(byte_of(is_before ? text.back() : text.front()));
    }
    bars_.push_back(std::move(texts));
    bar_bytes_.push_back(bytes);
    return static_cast<std::uint16_t>(bars_.size() - 1);
}

CharStarts CharStarts::for_bytes(const Vocabulary& bytes, const std::vector<TokenId>& id_of_byte,
                                 const MergeTable& merges,
                                 const std::vector<std::array<TokenId, 2>>& merge_list) {
    Crossings from_left;   // by the part that starts a character: what it merges with before it
    Crossings from_right;  // by the part that ends one
    std::vector<std::uint32_t> first_use(bytes.id_end(), kNoRank);
    for (std::uint32_t rank = 0; rank < merge_list.size(); ++rank) {
        const auto [left, right] = merge_list[rank];
        const std::string_view x = bytes.at(left);
        const std::string_view y = bytes.at(right);
        if (x.empty() || y.empty()) {
            continue;
        }
        first_use[left] = std::min(first_use[left], rank);
        first_use[right] = std::min(first_use[right], rank);
        const bool starts_part = !unicode::is_continuation(y[0]) && is_within_character(y) &&
                                 y.size() < unicode::length_of(byte_of(y[0]));
        const bool ends_part = unicode::is_continuation(x[0]) && is_within_character(x);
        if (starts_part) {
            from_left[right].push_back({rank, left});
        }
        // A continuation byte after it would be of the same character.
        if (ends_part && !unicode::is_continuation(y[0])) {
            from_right[left].push_back({rank, right});
        }
    }
    CharStarts out;
    std::map<Bar, std::uint16_t> left_bars = {{Bar(), 0}};
    std::map<Bar, std::uint16_t> right_bars = {{Bar(), 0}};
    const auto bar_of = [&out](Bar texts, std::map<Bar, std::uint16_t>& known, bool is_before) {
        const auto found = known.find(texts);
        return found != known.end()
                   ? found->second
                   : known.emplace(texts, out.add_bar(texts, is_before)).first->second;
    };
    const auto add = [&](char32_t c, std::string_view text) {
        bool has_tokens = true;
        bool merges_any = false;
        for (std::size_t i = 0; i < text.size(); ++i) {
            const TokenId id = id_of_byte[byte_of(text[i])];
            has_tokens &= id != kNoToken;
            merges_any |=
                i != 0 && merges.find_low(id_of_byte[byte_of(text[i - 1])], id).rank != kNoRank;
        }
        if (!has_tokens || !merges_any) {
            return;  // nothing is gained
        }
        const Alone alone = merge_alone(text, id_of_byte, merges);
        const bool is_whole = alone.parts.size() == 1;
        if (alone.parts.size() > kMaxTokens || out.bars_.size() + 2 > kMaxBars ||
            (is_whole && first_use[alone.parts[0]] <= alone.highest_rank)) {
            return;  // it starts as its bytes, which is always right
        }
        Bar before = neighbours_up_to(alone.firsts, from_left, alone.highest_rank, bytes);
        Bar after = neighbours_up_to(alone.lasts, from_right, alone.highest_rank, bytes);
        if (before.size() <= kMaxTexts && after.size() <= kMaxTexts) {
            Start& start = out.at(c);
            std::copy(alone.parts.begin(), alone.parts.end(), start.ids.begin());
            start.left = bar_of(std::move(before), left_bars, true);
            start.right = bar_of(std::move(after), right_bars, false);
        }
    };
    std::string text;
    for (char32_t c = 0x80; c < 0x10000; ++c) {
        if (c < 0xD800 || c > 0xDFFF) {
            text.clear();
            unicode::append(c, text);
            add(c, text);
        }
    }
    // Above, those that have a token of their own.
    for (TokenId id = 0; id < bytes.id_end(); ++id) {
        const std::string_view own = bytes.at(id);
        if (own.size() == 4 && is_one_character(own)) {
            add(unicode::decode(own.data()).value, own);
        }
    }
    return out;
}

CharStarts CharStarts::for_characters(const Vocabulary& vocabulary) {
    CharStarts out;
    for (TokenId id = 0; id < vocabulary.id_end(); ++id) {
        const std::string_view text = vocabulary.at(id);
        if (!text.empty() && is_one_character(text)) {
            out.at(unicode::decode(text.data()).value).ids[0] = id;
        }
    }
    return out;
}

}  // namespace sluice::tokens
