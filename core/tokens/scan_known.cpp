#include <array>
#include <utility>

#include "core/tokens/scan_cl100k.hpp"
#include "core/tokens/scan_deepseek.hpp"
#include "core/tokens/scan_each.hpp"
#include "core/tokens/scan_gpt2.hpp"
#include "core/tokens/scan_o200k.hpp"
#include "core/tokens/scan_words.hpp"
#include "core/tokens/scanner.hpp"

namespace sluice::tokens {
namespace {

using Made = std::unique_ptr<const Scanner>;

template <class Next>
Made make() {
    return std::make_unique<const scan::Each<Next>>(Next{});
}
template <class Next>
Made make_words() {
    return std::make_unique<const scan::Words<Next>>();
}

struct Known {
    std::string_view pattern;
    bool has_gaps;  // some text matches nothing: only Isolated is the same as our scanner then
    Made (*make)();
};

// Byte for byte what the models' files say.
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define PREFIX R"([^\r\n\p{L}\p{N}]?)"
constexpr std::array kKnown = {
    // Qwen 2, 2.5, 3
    Known{CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" SPACES, false,
          make_words<scan::Cl100k<1, false>>},
    // Llama 3
    Known{CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" SPACES,
          false, make_words<scan::Cl100k<3, false>>},
    // Qwen 3.5
    Known{CONTRACTIONS
          R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" SPACES,
          false, make_words<scan::Cl100k<1, true>>},
    // gpt-oss, gpt-4o, Llama 4
    Known{PREFIX UPPER "*" LOWER "+" CONTRACTIONS "?|" PREFIX UPPER "+" LOWER "*" CONTRACTIONS
                       R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" SPACES,
          false, make_words<scan::O200k<3, true>>},
    // Tekken
    Known{PREFIX UPPER "*" LOWER "+|" PREFIX UPPER "+" LOWER
                       R"(*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" SPACES,
          false, make_words<scan::O200k<1, false>>},
    // DeepSeek V3, R1: three in a row; the line ends stand there as themselves
    Known{R"(\p{N}{1,3})", true, make<scan::Numbers<3>>},
    Known{"[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+", true, make<scan::HanAndKana>},
    Known{R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^)"
          "\r\n"
          R"(\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[)"
          "\r\n"
          R"(]*|\s*[)"
          "\r\n"
          R"(]+|\s+(?!\S)|\s+)",
          true, make_words<scan::DeepSeekWords>},
};
#undef CONTRACTIONS
#undef SPACES
#undef UPPER
#undef LOWER
#undef PREFIX

}  // namespace

Made make_known_scanner(std::string_view pattern, Behavior behavior) {
    for (const Known& known : kKnown) {
        if (known.pattern == pattern && (behavior == Behavior::Isolated ||
                                         (behavior == Behavior::MatchesOnly && !known.has_gaps))) {
            return known.make();
        }
    }
    return nullptr;
}

Made make_gpt2_scanner() {
    return make_words<scan::Gpt2>();
}

}  // namespace sluice::tokens
