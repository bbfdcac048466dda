#include "core/tokens/nfc.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "core/tokens/unicode.hpp"

namespace sluice::tokens {
namespace {

using unicode::Decoded;
using unicode::NfcKind;

constexpr char32_t kSyllables = 0xAC00;
constexpr char32_t kLeads = 0x1100;
constexpr char32_t kVowels = 0x1161;
constexpr char32_t kTails = 0x11A7;  // one before the first tail: 0 means none
constexpr char32_t kVowelCount = 21;
constexpr char32_t kTailCount = 28;
constexpr char32_t kLeadCount = 19;
constexpr char32_t kSyllableCount = kLeadCount * kVowelCount * kTailCount;

NfcKind kind_of(char32_t c) noexcept {
    return unicode::kNfcKinds[unicode::kNfcKind[unicode::kNfcPage[c >> 8U]][c & 0xFFU]];
}

// Bytes from `p` on that need no look: ASCII in strides, then U+4000..U+9FFF by character.
const char* skip_inert(const char* p, const char* end) noexcept {
    while (p != end) {
        const auto lead = static_cast<unsigned char>(*p);
        if (lead < 0x80) {
            std::array<std::uint64_t, 4> words{};
            while (end - p >= 32) {
                std::memcpy(words.data(), p, 32);
                if (((words[0] | words[1] | words[2] | words[3]) & 0x8080808080808080U) != 0) {
                    break;
                }
                p += 32;
            }
            while (p != end && static_cast<unsigned char>(*p) < 0x80) {
                ++p;
            }
        } else if (lead >= 0xE4 && lead <= 0xE9) {
            p += 3;
        } else {
            break;
        }
    }
    return p;
}

struct Mark {
    char32_t value;
    std::uint8_t combining_class;
    std::uint32_t place = 0;  // in the stretch, before ordering
};

void decompose(char32_t c, std::vector<Mark>& out) {
    if (c >= kSyllables && c < kSyllables + kSyllableCount) {
        const char32_t index = c - kSyllables;
        out.push_back({kLeads + index / (kVowelCount * kTailCount), 0});
        out.push_back({kVowels + index / kTailCount % kVowelCount, 0});
        if (index % kTailCount != 0) {
            out.push_back({kTails + index % kTailCount, 0});
        }
        return;
    }
    const std::uint32_t* const keys = unicode::kDecomposed;
    const std::uint32_t* const keys_end = keys + unicode::kDecomposedCount;
    const std::uint32_t* const found = std::lower_bound(keys, keys_end, c);
    if (found == keys_end || *found != c) {
        out.push_back({c, kind_of(c).combining_class});
        return;
    }
    const auto index = found - keys;
    for (unsigned i = unicode::kDecompositionBegin[index];
         i < unicode::kDecompositionBegin[index + 1]; ++i) {
        const char32_t part = unicode::kDecomposition[i];
        out.push_back({part, kind_of(part).combining_class});
    }
}

// The primary composite of two characters, or 0.
char32_t compose(char32_t a, char32_t b) noexcept {
    if (a >= kLeads && a < kLeads + kLeadCount && b >= kVowels && b < kVowels + kVowelCount) {
        return kSyllables + ((a - kLeads) * kVowelCount + (b - kVowels)) * kTailCount;
    }
    if (a >= kSyllables && a < kSyllables + kSyllableCount && (a - kSyllables) % kTailCount == 0 &&
        b > kTails && b < kTails + kTailCount) {
        return a + (b - kTails);
    }
    const unicode::Composition* const all = unicode::kCompositions;
    const unicode::Composition* const end = all + unicode::kCompositionCount;
    const auto* const found =
        std::lower_bound(all, end, std::pair{a, b}, [](const unicode::Composition& c, auto key) {
            return std::pair{static_cast<char32_t>(c.first), static_cast<char32_t>(c.second)} < key;
        });
    return found != end && found->first == a && found->second == b ? found->composed : 0;
}

// Decompose, order, compose: one stretch that starts at a starter.
void append_stretch(std::string_view text, std::vector<Mark>& marks, std::string& out) {
    marks.clear();
    for (const char* p = text.data(); p != text.data() + text.size();) {
        const Decoded c = unicode::decode(p);
        decompose(c.value, marks);
        p += c.length;
    }
    for (std::uint32_t i = 0; i < marks.size(); ++i) {
        marks[i].place = i;
    }
    for (auto it = marks.begin(); it != marks.end();) {
        if (it->combining_class == 0) {
            ++it;
            continue;
        }
        auto run_end = std::find_if(it, marks.end(), [](Mark m) { return m.combining_class == 0; });
        std::sort(it, run_end, [](Mark a, Mark b) {
            return std::pair{a.combining_class, a.place} < std::pair{b.combining_class, b.place};
        });
        it = run_end;
    }
    Mark* starter = nullptr;
    std::uint8_t last_class = 0;  // of what stands between the starter and here
    std::size_t kept = 0;
    for (std::size_t i = 0; i < marks.size(); ++i) {
        const Mark mark = marks[i];
        const bool is_adjacent = starter != nullptr && starter == &marks[kept - 1];
        if (starter != nullptr && (is_adjacent || last_class < mark.combining_class)) {
            if (const char32_t both = compose(starter->value, mark.value); both != 0) {
                starter->value = both;
                continue;
            }
        }
        marks[kept] = mark;
        if (mark.combining_class == 0) {
            starter = &marks[kept];
        }
        last_class = mark.combining_class;
        ++kept;
    }
    for (std::size_t i = 0; i < kept; ++i) {
        unicode::append(marks[i].value, out);
    }
}

}  // namespace

bool is_nfc_quick(std::string_view text) noexcept {
    const char* p = text.data();
    const char* const end = p + text.size();
    std::uint8_t last_class = 0;
    while (p != end) {
        const char* const next = skip_inert(p, end);
        if (next != p) {
            last_class = 0;
            p = next;
            continue;
        }
        const Decoded c = unicode::decode(p);
        const NfcKind kind = kind_of(c.value);
        if (kind.is_uncertain != 0 ||
            (kind.combining_class != 0 && kind.combining_class < last_class)) {
            return false;
        }
        last_class = kind.combining_class;
        p += c.length;
    }
    return true;
}

void append_nfc(std::string_view text, std::string& out) {
    std::vector<Mark> marks;
    const char* const end = text.data() + text.size();
    const char* copied = text.data();  // everything before is in `out`
    const char* stretch = copied;      // where the current starter is
    bool is_doubtful = false;          // the current stretch has something to do
    std::uint8_t last_class = 0;
    const auto close_stretch = [&](const char* p) {
        if (is_doubtful) {
            out.append(copied, stretch);
            append_stretch({stretch, static_cast<std::size_t>(p - stretch)}, marks, out);
            copied = p;
        }
    };
    for (const char* p = text.data(); p != end;) {
        const Decoded c = unicode::decode(p);
        const NfcKind kind = kind_of(c.value);
        if (kind.combining_class == 0 && kind.is_uncertain == 0) {
            // Never joins what is before it, so what is before is a text of its own.
            close_stretch(p);
            stretch = p;
            is_doubtful = false;
        } else {
            is_doubtful |= kind.is_uncertain != 0 ||
                           (kind.combining_class != 0 && kind.combining_class < last_class);
        }
        last_class = kind.combining_class;
        p += c.length;
    }
    close_stretch(end);
    out.append(copied, end);
}

}  // namespace sluice::tokens
