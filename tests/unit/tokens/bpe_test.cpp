#include "core/tokens/bpe.hpp"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

using namespace sluice::tokens;

namespace {

// A byte-level model whose tokens are given by their bytes: 256 single bytes, then the results of
// the merges in order of rank.
class ByteModel {
public:
    ByteModel() {
        for (unsigned byte = 0; byte < 256; ++byte) {
            add(std::string(1, static_cast<char>(byte)));
        }
    }
    ByteModel& merge(const std::string& left, const std::string& right) {
        const TokenId joined =
            ids_.count(left + right) != 0 ? ids_[left + right] : add(left + right);
        rank_.emplace(std::pair(ids_.at(left), ids_.at(right)),
                      std::pair(static_cast<std::uint32_t>(merges_.size()), joined));
        merges_.push_back({ids_.at(left), ids_.at(right)});
        joined_.push_back(joined);
        return *this;
    }
    Bpe make() const {
        Bpe::Model model;
        model.is_byte_level = true;
        for (const auto& [text, id] : ids_) {
            REQUIRE(model.bytes.add(text, id).ok());
        }
        for (unsigned byte = 0; byte < 256; ++byte) {
            model.id_of_byte[byte] = byte;
        }
        model.merges = merges_;
        model.joined = joined_;
        return Bpe(std::move(model));
    }
    std::string text_of(TokenId id) const {
        for (const auto& [text, known] : ids_) {
            if (known == id) {
                return text;
            }
        }
        return {};
    }
    // The rule itself, from bytes: merge the pair of lowest rank, the leftmost of equals.
    std::vector<TokenId> plainly(std::string_view word) const {
        std::vector<TokenId> ids;
        for (const char c : word) {
            ids.push_back(static_cast<unsigned char>(c));
        }
        for (;;) {
            std::pair<std::uint32_t, TokenId> best{kNoRank, kNoToken};
            std::size_t where = 0;
            for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
                const auto found = rank_.find({ids[i], ids[i + 1]});
                if (found != rank_.end() && found->second.first < best.first) {
                    best = found->second;
                    where = i;
                }
            }
            if (best.first == kNoRank) {
                return ids;
            }
            ids[where] = best.second;
            ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(where) + 1);
        }
    }

private:
    TokenId add(const std::string& text) {
        const auto id = static_cast<TokenId>(ids_.size());
        ids_.emplace(text, id);
        return id;
    }

    std::map<std::string, TokenId> ids_;
    std::map<std::pair<TokenId, TokenId>, std::pair<std::uint32_t, TokenId>> rank_;
    std::vector<std::array<TokenId, 2>> merges_;
    std::vector<TokenId> joined_;
};

std::vector<TokenId> encode(const Bpe& bpe, std::string_view word) {
    std::vector<TokenId> ids;
    IdSink sink(ids);
    bpe.encode(word, sink);
    sink.finish();
    return ids;
}

std::string random_word(const std::vector<std::string>& pieces, std::size_t count,
                        std::uint32_t& seed) {
    std::string word;
    for (std::size_t i = 0; i < count; ++i) {
        seed = seed * 1664525U + 1013904223U;
        word += pieces[(seed >> 16U) % pieces.size()];
    }
    return word;
}

}  // namespace

TEST_SUITE("tokens/bpe") {
    TEST_CASE("short and long words follow the rule, with equal ranks and overlaps") {
        ByteModel model;
        model.merge("a", "a").merge("b", "a").merge("aa", "aa").merge("a", "b").merge("aa", "b");
        model.merge("ba", "ba").merge("aaaa", "b").merge("b", "b").merge("ab", "aa");
        const Bpe bpe = model.make();
        std::uint32_t seed = 1;
        for (std::size_t length = 1; length < 300; ++length) {
            const std::string word = random_word({"a", "a", "b", "aa", "c"}, length, seed);
            CAPTURE(word);
            CHECK(encode(bpe, word) == model.plainly(word));
        }
        // Around the length where the heap takes over.
        for (const std::size_t length : {Bpe::kShortSymbols, Bpe::kShortSymbols + 1}) {
            CHECK(encode(bpe, std::string(length, 'a')) == model.plainly(std::string(length, 'a')));
        }
    }

    TEST_CASE("characters that start whole give what their bytes give") {
        // U+4E2D is E4 B8 AD, U+4E2E E4 B8 AE, U+4E8C E4 BA 8C, U+00E9 C3 A9. Before the bytes of a
        // character are joined, its first byte may merge with a space, its last with what follows.
        ByteModel model;
        model.merge("\xB8", "\xAD").merge("\xE4", "\xB8\xAD").merge(" ", "\xE4");
        model.merge("\xAE", "\xE4").merge("\xAE", "x").merge("\xE4", "\xB8");
        model.merge("\xE4\xB8", "\xAE").merge("\xBA", "\x8C").merge("\xE4", "\xBA\x8C");
        model.merge("\xE4\xB8\xAD", "\xE4\xBA\x8C").merge("\xE4\xBA\x8C", "\xE4\xB8\xAD");
        model.merge(" \xE4", "\xBA\x8C").merge("\xC3", "\xA9").merge("\xA9", "y");
        model.merge("\xE4\xB8\xAE", "\xC3\xA9").merge("\xAE", "\xC3");
        const Bpe bpe = model.make();
        const std::vector<std::string> pieces = {"\u4E2D", "\u4E2E", "\u4E8C", "\u00E9",    " ",
                                                 "x",      "y",      "\u4E8D", "\U0001F600"};
        std::uint32_t seed = 1;
        for (int round = 0; round < 20000; ++round) {
            const std::string word =
                random_word(pieces, static_cast<std::size_t>(1 + round % 9), seed);
            CAPTURE(word);
            CHECK(encode(bpe, word) == model.plainly(word));
        }
    }

    TEST_CASE("a character merged as a whole before its own bytes are is not started whole") {
        // The merge of c with x has a lower rank than the merges that make c.
        ByteModel model;
        model.merge("\xC3", "\xA9").merge("a", "b");
        ByteModel odd;
        odd.merge("a", "b").merge("\xC3", "\xA9").merge("b", "\xC3\xA9").merge("\xC3\xA9", "x");
        std::uint32_t seed = 7;
        const Bpe bpe = odd.make();
        for (int round = 0; round < 2000; ++round) {
            const std::string word = random_word({"a", "b", "\u00E9", "x"}, 8, seed);
            CAPTURE(word);
            CHECK(encode(bpe, word) == odd.plainly(word));
        }
        CHECK(encode(model.make(), "\u00E9ab") == std::vector<TokenId>{256, 257});
    }

    TEST_CASE("random models give what the rule gives") {
        const std::vector<std::string> pieces = {"\u4E2D", "\u4E2E", "\u4E8C", "\u00E9",
                                                 " ",      "a",      "b"};
        std::uint32_t seed = 99;
        for (int round = 0; round < 60; ++round) {
            // Merges of whatever two parts meet in a random text, in random order.
            ByteModel model;
            for (int merges = 0; merges < 40; ++merges) {
                const std::string text = random_word(pieces, 6, seed);
                const auto ids = model.plainly(text);
                if (ids.size() < 2) {
                    continue;
                }
                seed = seed * 1664525U + 1013904223U;
                const std::size_t at = (seed >> 16U) % (ids.size() - 1);
                model.merge(model.text_of(ids[at]), model.text_of(ids[at + 1]));
            }
            const Bpe bpe = model.make();
            for (int i = 0; i < 300; ++i) {
                const std::string word =
                    random_word(pieces, static_cast<std::size_t>(1 + i % 40), seed);
                CAPTURE(word);
                CHECK(encode(bpe, word) == model.plainly(word));
            }
        }
    }
}
