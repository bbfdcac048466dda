#include "tests/sim/engine/text_model.hpp"

#include <algorithm>
#include <cctype>

#include "tests/sim/support/utf8.hpp"

namespace sluice::sim {
namespace {

// A space and lower-case letters: cut out again as one word by any pre-tokenizer.
bool is_plain_word(std::string_view s) {
    return s.size() >= 3 && s.front() == ' ' &&
           std::all_of(s.begin() + 1, s.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

bool is_readable(std::string_view s) {
    return !s.empty() && utf8::valid(s) && std::none_of(s.begin(), s.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    });
}

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Moves whole characters from `pending` to `out`; bytes that cannot start or continue a character
// become U+FFFD.
void drain(std::string& pending, std::string& out, bool is_last) {
    while (!pending.empty()) {
        std::size_t n = is_last ? pending.size() : utf8::whole_prefix(pending);
        while (n > 0 && !utf8::valid(std::string_view(pending).substr(0, n))) {
            --n;
        }
        if (n == 0) {
            if (!is_last && utf8::whole_prefix(pending) == 0) {
                return;  // the beginning of a character
            }
            out += kReplacement;
            n = 1;
        } else {
            out.append(pending, 0, n);
        }
        pending.erase(0, n);
    }
}

}  // namespace

std::string_view TextModel::bytes_of(TokenId id) const noexcept {
    return id < tokens_.size() ? std::string_view(tokens_[id].bytes) : std::string_view();
}

bool TextModel::is_special(TokenId id) const noexcept {
    return id < tokens_.size() && tokens_[id].is_special;
}

std::string TextModel::decode(const std::vector<TokenId>& ids, bool skips_special) const {
    std::string raw;
    for (const TokenId id : ids) {
        if (!skips_special || !is_special(id)) {
            raw += bytes_of(id);
        }
    }
    std::string out;
    drain(raw, out, true);
    return out;
}

void TextModel::collect_words() {
    std::vector<TokenId> readable;
    for (TokenId id = 0; id < tokens_.size(); ++id) {
        if (tokens_[id].is_added) {
            continue;
        }
        if (is_readable(tokens_[id].bytes)) {
            readable.push_back(id);
        }
        if (is_plain_word(tokens_[id].bytes)) {
            words_.push_back(id);
        }
    }
    constexpr std::size_t kEnough = 64;
    if (words_.size() < kEnough) {
        words_ = readable;
        return;
    }
    // One in sixteen may be anything readable: other scripts, punctuation, halves of words.
    for (std::size_t i = 0; i < words_.size() / 15 && !readable.empty(); ++i) {
        words_.push_back(readable[i * readable.size() / (words_.size() / 15 + 1)]);
    }
}

std::string Detokenizer::push(TokenId id) {
    std::string out;
    if (!model_->is_special(id)) {
        pending_ += model_->bytes_of(id);
        drain(pending_, out, false);
    }
    return out;
}

}  // namespace sluice::sim
