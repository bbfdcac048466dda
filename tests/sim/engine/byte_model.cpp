#include <array>

#include "tests/sim/engine/text_model.hpp"
#include "tests/sim/support/utf8.hpp"

namespace sluice::sim {
namespace {

constexpr std::array<std::string_view, 5> kSpecial = {"<|endoftext|>", "<|im_start|>", "<|im_end|>",
                                                      "<think>", "</think>"};
constexpr TokenId kFirstSpecial = 256;
constexpr TokenId kImEnd = 258;

class ByteModel final : public TextModel {
public:
    ByteModel() {
        for (unsigned b = 0; b < 256; ++b) {
            tokens_.push_back({std::string(1, static_cast<char>(b)), false, false});
        }
        for (const std::string_view s : kSpecial) {
            // The thinking marks are added tokens, yet no special ones: they are shown.
            tokens_.push_back({std::string(s), s.find("think") == std::string_view::npos, true});
        }
        eos_ = kImEnd;
        collect_words();
    }

    Result<std::vector<TokenId>> encode(std::string_view text, bool) const override {
        if (!utf8::valid(text)) {
            return Error{Code::Invalid, "text is not UTF-8"};
        }
        std::vector<TokenId> out;
        out.reserve(text.size());
        while (!text.empty()) {
            if (const auto special = special_at(text)) {
                out.push_back(*special);
                text.remove_prefix(tokens_[*special].bytes.size());
            } else {
                out.push_back(static_cast<unsigned char>(text.front()));
                text.remove_prefix(1);
            }
        }
        return out;
    }

    Result<std::string> render(const json::Value& request, std::string_view) const override {
        std::string out;
        const json::Value* messages = request.find("messages");
        const json::Array* list = messages == nullptr ? nullptr : messages->array();
        for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
            const json::Value& m = (*list)[i];
            const bool is_open =
                i + 1 == list->size() && request.flag("continue_final_message", false);
            out += "<|im_start|>" + std::string(m.text_of("role")) + "\n" + content(m);
            out += is_open ? "" : "<|im_end|>\n";
        }
        if (request.flag("add_generation_prompt", true)) {
            out += "<|im_start|>assistant\n";
        }
        return out;
    }

    std::string spelling(TokenId id) const override { return decode({id}); }

    std::optional<TokenId> id_of(std::string_view token) const override {
        if (token.size() == 1) {
            return static_cast<unsigned char>(token.front());
        }
        const auto special = special_at(token);
        return special && tokens_[*special].bytes == token ? special : std::nullopt;
    }

private:
    std::optional<TokenId> special_at(std::string_view text) const {
        for (std::size_t i = 0; i < kSpecial.size(); ++i) {
            if (text.substr(0, kSpecial[i].size()) == kSpecial[i]) {
                return kFirstSpecial + static_cast<TokenId>(i);
            }
        }
        return std::nullopt;
    }

    static std::string content(const json::Value& message) {
        const json::Value* c = message.find("content");
        const json::Array* parts = c == nullptr ? nullptr : c->array();
        if (parts == nullptr) {
            return std::string(message.text_of("content"));
        }
        std::string out;
        for (const json::Value& part : *parts) {
            out += (out.empty() ? "" : "\n") + std::string(part.text_of("text"));
        }
        return out;
    }
};

}  // namespace

std::unique_ptr<TextModel> TextModel::bytes() {
    return std::make_unique<ByteModel>();
}

}  // namespace sluice::sim
