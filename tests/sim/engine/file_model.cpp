#include <simdjson.h>

#include <array>
#include <charconv>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/tokens/model.hpp"
#include "tests/sim/engine/text_model.hpp"
#include "tests/sim/support/utf8.hpp"

namespace sluice::sim {
namespace {

// GPT-2's alphabet: printable Latin-1 stands for itself, other bytes for U+0100 upwards.
std::unordered_map<unsigned, char> byte_alphabet() {
    std::unordered_map<unsigned, char> out;
    unsigned next = 0x100;
    for (unsigned b = 0; b < 256; ++b) {
        const bool is_shown =
            (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
        out.emplace(is_shown ? b : next++, static_cast<char>(b));
    }
    return out;
}

// The raw bytes of a byte-level spelling; the spelling itself when it is none.
std::string from_alphabet(std::string_view s, const std::unordered_map<unsigned, char>& alphabet) {
    std::string out;
    for (std::size_t i = 0; i < s.size();) {
        const auto it = alphabet.find(utf8::take(s, i));
        if (it == alphabet.end()) {
            return std::string(s);
        }
        out.push_back(it->second);
    }
    return out;
}

std::string from_sentencepiece(std::string_view s) {
    if (s.size() == 6 && s.substr(0, 3) == "<0x" && s.back() == '>') {
        unsigned b = 0;
        std::from_chars(s.data() + 3, s.data() + 5, b, 16);
        return std::string(1, static_cast<char>(b));
    }
    static constexpr std::string_view kBar = "\xE2\x96\x81";
    std::string out;
    while (!s.empty()) {
        const bool is_bar = s.substr(0, kBar.size()) == kBar;
        out.push_back(is_bar ? ' ' : s.front());
        s.remove_prefix(is_bar ? kBar.size() : 1);
    }
    return out;
}

class FileModel final : public TextModel {
public:
    FileModel(std::shared_ptr<const tokens::Model> model, std::filesystem::path dir)
        : model_(std::move(model)), dir_(std::move(dir)) {}

    Status read_vocabulary() {
        std::unordered_set<TokenId> added;
        std::unordered_set<TokenId> special;
        bool is_byte_level = false;
        try {
            simdjson::dom::parser parser;
            const simdjson::dom::element file =
                parser.load((dir_ / "tokenizer.json").string()).value();
            simdjson::dom::array list;
            if (file["added_tokens"].get(list) == simdjson::SUCCESS) {
                for (const simdjson::dom::element t : list) {
                    const auto id = static_cast<TokenId>(t["id"].get_uint64().value());
                    added.insert(id);
                    if (t["special"].get_bool().value()) {
                        special.insert(id);
                    }
                }
            }
            const std::string decoder = simdjson::minify(file["decoder"].value());
            is_byte_level = decoder.find("ByteLevel") != std::string::npos;
        } catch (const simdjson::simdjson_error& e) {
            return Error{Code::Invalid, (dir_ / "tokenizer.json").string() + ": " + e.what()};
        }
        fill(added, special, is_byte_level);
        return {};
    }

    Result<std::vector<TokenId>> encode(std::string_view text,
                                        bool add_special_tokens) const override {
        std::vector<TokenId> out;
        if (auto s = model_->tokenizer().encode(text, add_special_tokens, out); !s) {
            return std::move(s).error();
        }
        return out;
    }

    Result<std::string> render(const json::Value&, std::string_view body) const override {
        return model_->render_template(body);
    }

    std::string spelling(TokenId id) const override {
        return std::string(model_->tokenizer().token_of(id));
    }

    std::optional<TokenId> id_of(std::string_view token) const override {
        return model_->tokenizer().id_of(token);
    }

private:
    void fill(const std::unordered_set<TokenId>& added, const std::unordered_set<TokenId>& special,
              bool is_byte_level) {
        const auto alphabet = byte_alphabet();
        const tokens::Tokenizer& t = model_->tokenizer();
        TokenId end = static_cast<TokenId>(t.vocab_size());
        for (const TokenId id : added) {
            end = std::max(end, id + 1);
        }
        for (TokenId id = 0; id < end; ++id) {
            const std::string_view spelled = t.token_of(id);
            const std::string bytes = added.count(id) != 0 ? std::string(spelled)
                                      : is_byte_level      ? from_alphabet(spelled, alphabet)
                                                           : from_sentencepiece(spelled);
            tokens_.push_back({bytes, special.count(id) != 0, added.count(id) != 0});
        }
        const auto& named = t.special_tokens();
        if (const auto it = named.find("eos_token"); it != named.end()) {
            eos_ = t.id_of(it->second);
        }
        collect_words();
    }

    std::shared_ptr<const tokens::Model> model_;
    std::filesystem::path dir_;
};

}  // namespace

Result<std::unique_ptr<TextModel>> TextModel::load(const std::filesystem::path& dir) {
    auto model = tokens::Model::load(dir);
    if (!model) {
        return std::move(model).error().at(dir.string());
    }
    auto out = std::make_unique<FileModel>(std::move(model).value(), dir);
    if (auto s = out->read_vocabulary(); !s) {
        return std::move(s).error();
    }
    return std::unique_ptr<TextModel>(std::move(out));
}

}  // namespace sluice::sim
