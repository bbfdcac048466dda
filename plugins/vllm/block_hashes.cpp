#include "plugins/vllm/block_hashes.hpp"

#include <algorithm>

#include "plugins/vllm/hashing.hpp"
#include "plugins/vllm/json.hpp"

namespace sluice::vllm {

namespace {

[[noreturn]] void refuse(const std::string& what) {
    throw Failure(SLUICE_E_INVALID, what);
}

int hex_digit(char c) noexcept {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

std::string from_hex(std::string_view hex, const char* name) {
    std::string out;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
        const int high = hex_digit(hex[i]);
        const int low = hex_digit(hex[i + 1]);
        if (high < 0 || low < 0) {
            refuse(std::string(name) + " is not hex");
        }
        out += static_cast<char>(high * 16 + low);
    }
    if (hex.size() % 2 != 0) {
        refuse(std::string(name) + " is not hex");
    }
    return out;
}

class KeyReader {
public:
    BlockKeys list(const simdjson::dom::array& items, int depth) {
        BlockKeys out;
        for (const json::Value item : items) {
            if (++keys_ > kMaxKeys || depth > kMaxKeyDepth) {
                refuse("extra_keys has too many keys, or too deep ones");
            }
            out.push_back(one(item, depth));
        }
        return out;
    }

private:
    ExtraKey one(const json::Value& item, int depth) {
        ExtraKey key;
        std::string_view text;
        simdjson::dom::array items;
        if (item.is_null()) {
            return key;
        }
        if (item.get(text) == simdjson::SUCCESS) {
            key.kind = ExtraKey::Kind::Text;
            key.text = text;
        } else if (item.get(key.integer) == simdjson::SUCCESS) {
            key.kind = ExtraKey::Kind::Integer;
        } else if (item.get(items) == simdjson::SUCCESS) {
            key.kind = ExtraKey::Kind::Tuple;
            key.items = list(items, depth + 1);
        } else if (const auto hex = json::text(json::member(item, "bytes_hex"))) {
            key.kind = ExtraKey::Kind::Bytes;
            key.text = from_hex(*hex, "bytes_hex");
        } else {
            refuse("extra_keys holds what is no key");
        }
        return key;
    }

    std::size_t keys_ = 0;
};

// Empty: no block has any.
std::vector<BlockKeys> read_keys(const json::Value& given, std::size_t blocks) {
    std::vector<BlockKeys> out;
    if (given.is_null()) {
        return out;
    }
    simdjson::dom::array entries;
    if (given.get(entries) != simdjson::SUCCESS || entries.size() < blocks) {
        refuse("extra_keys is neither null nor a list with an entry a block");
    }
    KeyReader reader;
    for (const json::Value entry : entries) {
        if (out.size() == blocks) {
            break;
        }
        simdjson::dom::array keys;
        if (!entry.is_null() && entry.get(keys) != simdjson::SUCCESS) {
            refuse("an entry of extra_keys is neither null nor a list");
        }
        out.push_back(entry.is_null() ? BlockKeys() : reader.list(keys, 1));
    }
    return out;
}

std::vector<std::uint64_t> read_wide_tokens(const json::Value& given) {
    std::vector<std::uint64_t> out;
    simdjson::dom::array ids;
    if (given.get(ids) != simdjson::SUCCESS) {
        refuse("token_ids is no list");
    }
    for (const json::Value id : ids) {
        std::uint64_t number = 0;
        if (id.get(number) != simdjson::SUCCESS) {
            refuse("token_ids holds what is no unsigned integer");
        }
        out.push_back(number);
    }
    return out;
}

HashRule read_rule(const json::Value& root, const Settings& settings) {
    HashRule rule;
    rule.algorithm = settings.algorithm.value_or(Algorithm::Sha256);
    if (const auto name = json::text(json::member(root, "algorithm"))) {
        const auto algorithm = algorithm_named(*name);
        if (!algorithm) {
            refuse("algorithm: not one of this engine's");
        }
        rule.algorithm = *algorithm;
    }
    rule.integer_parent = json::boolean(json::member(root, "parent_is_integer"))
                              .value_or(rule.algorithm == Algorithm::Sha256Cbor64);
    return rule;
}

Digest read_parent(const json::Value& root, const Settings& settings, const HashRule& rule) {
    const auto text_of = [&](const char* name) {
        return json::text(json::member(root, name));
    };
    if (const auto given = text_of("parent")) {
        return Digest{from_hex(*given, "parent")};
    }
    const bool seed_said = json::member(root, "seed").has_value();
    const auto parent = none_hash(rule, seed_said ? json::owned(text_of("seed")) : settings.seed);
    if (!parent) {
        refuse("without a seed this algorithm starts from a random hash");
    }
    return *parent;
}

}  // namespace

std::vector<std::uint64_t> block_hashes(const Settings& settings, const sluice_hash_input& in,
                                        std::size_t max_blocks) {
    json::Document doc;
    const std::string_view params = view(in.params);
    if (!doc.parse(params.empty() ? "{}" : params) || !doc.root().is_object()) {
        refuse("params is not a JSON object");
    }
    const json::Value& root = doc.root();
    if (in.block_tokens == 0) {
        refuse("block_tokens is 0");
    }
    const HashRule rule = read_rule(root, settings);
    const Digest parent = read_parent(root, settings, rule);
    if (parent.bytes.empty()) {
        refuse("parent is empty");
    }
    std::vector<std::uint64_t> wide;
    const auto wide_ids = json::member(root, "token_ids");
    if (wide_ids) {
        wide = read_wide_tokens(*wide_ids);
    }
    const std::size_t num_tokens = wide_ids ? wide.size() : in.num_tokens;
    const std::size_t blocks = std::min(num_tokens / in.block_tokens, max_blocks);
    std::vector<BlockKeys> keys;
    if (const auto given = json::member(root, "extra_keys")) {
        keys = read_keys(*given, blocks);
    } else {
        const bool is_tagged = json::text(json::member(root, "key_form")) == "tagged";
        const Identity who{std::string(view(in.lora)),
                           std::string(json::text(json::member(root, "lora_path")).value_or("")),
                           std::string(view(in.salt))};
        keys = text_keys(is_tagged ? KeyForm::Tagged : KeyForm::Bare, who, blocks);
    }
    const std::size_t used = blocks * in.block_tokens;
    const auto chain =
        wide_ids ? hash_chain(rule, parent, std::span(std::as_const(wide)).first(used),
                              in.block_tokens, keys)
                 : hash_chain(rule, parent, std::span(in.tokens, used), in.block_tokens, keys);
    if (chain.size() != blocks) {
        throw Failure(SLUICE_E_LIMIT, "a block is too long to hash");
    }
    std::vector<std::uint64_t> out;
    for (const Digest& digest : chain) {
        out.push_back(digest.folded());
    }
    return out;
}

}  // namespace sluice::vllm
