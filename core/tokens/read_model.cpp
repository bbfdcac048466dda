#include <array>
#include <optional>

#include "core/tokens/tokenizer_json_parts.hpp"
#include "core/tokens/unicode.hpp"

namespace sluice::tokens::file {
namespace {

// The byte behind each character of ByteLevel's alphabet: printable bytes are themselves, the
// others stand in order from U+0100.
class ByteAlphabet {
public:
    ByteAlphabet() {
        byte_of_.fill(-1);
        char32_t next = 0x100;
        for (int byte = 0; byte < 256; ++byte) {
            const bool is_itself =
                (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
            byte_of_[is_itself ? static_cast<std::size_t>(byte) : next++] = byte;
        }
    }
    // The bytes a token stands for; empty if it has a character that is not of the alphabet.
    std::optional<std::string> bytes_of(std::string_view token) const {
        std::string bytes;
        for (const char* p = token.data(); p != token.data() + token.size();) {
            const unicode::Decoded c = unicode::decode(p);
            if (c.value >= byte_of_.size() || byte_of_[c.value] < 0) {
                return std::nullopt;
            }
            bytes.push_back(static_cast<char>(byte_of_[c.value]));
            p += c.length;
        }
        return bytes;
    }

private:
    std::array<int, 0x144> byte_of_{};
};

Status read_vocabulary(element value, TokenizerParts& out) {
    simdjson::dom::object vocab;
    if (member(value, "vocab").get(vocab) != simdjson::SUCCESS) {
        return invalid("vocab must be an object");
    }
    const ByteAlphabet alphabet;
    out.spelled.reserve(vocab.size(), vocab.size() * 8);
    out.model.bytes.reserve(vocab.size(), vocab.size() * 8);
    for (const auto [token, number] : vocab) {
        const auto id = id_of(number);
        if (!id) {
            return id.error().at("vocab");
        }
        Status status = out.spelled.add(token, *id);
        if (status && !out.model.is_byte_level) {
            status = out.model.bytes.add(token, *id);
        } else if (status) {
            // Entries outside the alphabet are there for decoding; no text leads to them.
            if (const auto bytes = alphabet.bytes_of(token); bytes && !bytes->empty()) {
                status = out.model.bytes.add(*bytes, *id);
            }
        }
        if (!status) {
            return std::move(status).error().at("vocab");
        }
    }
    return {};
}

struct Pair {
    std::string_view left;
    std::string_view right;
};
std::optional<Pair> pair_of(element value) {
    std::string_view line;
    if (value.get(line) == simdjson::SUCCESS) {
        const std::size_t space = line.find(' ');
        if (space == std::string_view::npos ||
            line.find(' ', space + 1) != std::string_view::npos) {
            return std::nullopt;
        }
        return Pair{line.substr(0, space), line.substr(space + 1)};
    }
    simdjson::dom::array items;
    Pair pair;
    if (value.get(items) != simdjson::SUCCESS || items.size() != 2 ||
        items.at(0).get(pair.left) != simdjson::SUCCESS ||
        items.at(1).get(pair.right) != simdjson::SUCCESS) {
        return std::nullopt;
    }
    return pair;
}

Status read_merges(element value, TokenizerParts& out) {
    simdjson::dom::array merges;
    if (member(value, "merges").get(merges) != simdjson::SUCCESS) {
        return invalid("merges must be an array");
    }
    out.model.merges.reserve(merges.size());
    out.model.joined.reserve(merges.size());
    std::string whole;
    std::size_t number = 0;
    for (const element item : merges) {
        const auto where = [&] {
            return "merge " + std::to_string(number);
        };
        const auto pair = pair_of(item);
        if (!pair) {
            return invalid(where() + " is not a pair of tokens");
        }
        whole.assign(pair->left).append(pair->right);
        const TokenId left = out.spelled.find(pair->left);
        const TokenId right = out.spelled.find(pair->right);
        const TokenId joined = out.spelled.find(whole);
        if (left == kNoToken || right == kNoToken || joined == kNoToken) {
            return invalid(where() + " has a token that is not in the vocabulary");
        }
        out.model.merges.push_back({left, right});
        out.model.joined.push_back(joined);
        ++number;
    }
    return {};
}

bool is_none(element value) {
    std::string_view text;
    return value.is_null() || (value.get(text) == simdjson::SUCCESS && text.empty());
}

Status read_bytes_and_unknown(element value, TokenizerParts& out) {
    const auto fallback = flag_of(value, "byte_fallback", false);
    if (!fallback) {
        return fallback.error();
    }
    Bpe::Model& model = out.model;
    bool has_all_bytes = true;
    for (unsigned byte = 0; byte < 256; ++byte) {
        if (model.is_byte_level) {
            const char c = static_cast<char>(byte);
            model.id_of_byte[byte] = model.bytes.find({&c, 1});
        } else if (*fallback) {
            constexpr std::string_view kHex = "0123456789ABCDEF";
            const std::string token = {'<', '0', 'x', kHex[byte >> 4U], kHex[byte & 15U], '>'};
            model.id_of_byte[byte] = out.spelled.find(token);
        }
        has_all_bytes &= model.id_of_byte[byte] != kNoToken;
    }
    if (model.is_byte_level && *fallback && !has_all_bytes) {
        return unsupported("byte_fallback in a ByteLevel model");
    }
    if (has(value, "unk_token")) {
        const auto name = text_of(value, "unk_token");
        if (!name) {
            return name.error();
        }
        model.unknown = out.spelled.find(*name);
        if (model.unknown == kNoToken && !has_all_bytes) {
            return invalid("unk_token '" + std::string(*name) + "' is not in the vocabulary");
        }
    }
    return {};
}

}  // namespace

Status read_model(element value, TokenizerParts& out) {
    if (has(value, "type")) {
        const auto type = text_of(value, "type");
        if (!type || *type != "BPE") {
            return unsupported("type " + std::string(type ? *type : "that is no string"));
        }
    }
    double dropout = 0;
    const element dropout_value = member(value, "dropout");
    if (!dropout_value.is_null() &&
        (dropout_value.get(dropout) != simdjson::SUCCESS || dropout != 0)) {
        return unsupported("dropout");
    }
    for (const std::string_view name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
        if (!is_none(member(value, name))) {
            return unsupported(std::string(name));
        }
    }
    const auto ignores = flag_of(value, "ignore_merges", false);
    const auto fuses = flag_of(value, "fuse_unk", false);
    if (!ignores || !fuses) {
        return ignores ? fuses.error() : ignores.error();
    }
    out.model.ignores_merges = *ignores;
    out.model.fuses_unknown = *fuses;
    if (Status status = read_vocabulary(value, out); !status) {
        return status;
    }
    if (Status status = read_bytes_and_unknown(value, out); !status) {
        return status;
    }
    return read_merges(value, out);
}

}  // namespace sluice::tokens::file
