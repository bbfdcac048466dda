// Any text through small tokenizers of every layout, and any bytes as a tokenizer.json.
//
// The first byte chooses. For texts: what encodes with caches encodes without them to the same ids,
// and to no more ids than bytes of normalized text (NFC triples at most, a prefix adds 3 a
// segment).
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokens/tokenizer.hpp"

using sluice::tokens::TokenId;
using sluice::tokens::Tokenizer;

namespace {

constexpr std::string_view kVocab =
    R"("unk_token":"?","vocab":{"a":0,"b":1,"▁":2,"▁a":3,"ab":4,"aba":5,"?":6,"'":7,"s":8,"Ġ":9,)"
    R"("Ġa":10,"Ã":11,"©":12,"Ã©":13,"▁▁":14},"merges":["a b","ab a","▁ a","Ġ a","Ã ©","▁ ▁"])";

// Layout by layout: normalizer, pre-tokenizer, added tokens.
struct Layout {
    std::string_view normalizer;
    std::string_view pre_tokenizer;
};
constexpr std::array kLayouts = {
    Layout{R"({"type":"NFC"})", R"({"type":"ByteLevel","add_prefix_space":true,"use_regex":true})"},
    Layout{R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},)"
           R"({"type":"Replace","pattern":{"String":" "},"content":"▁"}]})",
           "null"},
    Layout{"null",
           R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true})"},
    Layout{
        R"({"type":"NFC"})",
        R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\p{N}{1,3}"},)"
        R"("behavior":"Isolated"},{"type":"Split","pattern":{"Regex":"(?:\\p{L}|\\s+(?!\\S))+"},)"
        R"("behavior":"MergedWithPrevious"}]})"},
};

std::string file_of(const Layout& layout) {
    std::string text = R"({"normalizer":)";
    text.append(layout.normalizer).append(R"(,"pre_tokenizer":)").append(layout.pre_tokenizer);
    text += R"(,"added_tokens":[{"id":20,"content":"<a>","lstrip":true,"rstrip":true},)"
            R"({"id":21,"content":"ab","single_word":true,"normalized":false},)"
            R"({"id":22,"content":"<","normalized":true}],"model":{"type":"BPE",)";
    return text.append(kVocab).append("}}");
}

std::shared_ptr<const Tokenizer> made(const std::string& text, const Tokenizer::Options& options) {
    auto parsed = Tokenizer::parse(text, {}, options);
    if (!parsed) {
        std::abort();
    }
    return *parsed;
}

struct Pair {
    std::shared_ptr<const Tokenizer> cached;
    std::shared_ptr<const Tokenizer> plain;
};

const std::vector<Pair>& pairs() {
    static const std::vector<Pair> all = [] {
        std::vector<Pair> out;
        for (const Layout& layout : kLayouts) {
            const std::string text = file_of(layout);
            out.push_back({made(text, {1 << 16U, 1 << 14U}), made(text, {0, 0})});
        }
        std::ifstream mini("tests/vectors/tokenizers/mini/tokenizer.json", std::ios::binary);
        const std::string text((std::istreambuf_iterator<char>(mini)), {});
        if (!text.empty()) {
            out.push_back({made(text, {1 << 16U, 1 << 14U}), made(text, {0, 0})});
        }
        return out;
    }();
    return all;
}

void check_text(const Pair& pair, std::string_view text) {
    std::vector<TokenId> cached;
    std::vector<TokenId> plain;
    const bool ok = pair.cached->encode(text, true, cached).ok();
    if (ok != pair.plain->encode(text, true, plain).ok() || cached != plain ||
        cached.size() > 6 * text.size() + 6) {
        std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
    const std::size_t choice = data[0] % (pairs().size() + 1);
    if (choice < pairs().size()) {
        check_text(pairs()[choice], text);
        return 0;
    }
    const auto parsed = Tokenizer::parse(text, text, {1 << 14U, 1 << 14U});
    if (parsed.ok()) {
        std::vector<TokenId> ids;
        (void)(*parsed)->encode("ab <a> \u00E9 1", true, ids).ok();
    }
    return 0;
}
