#include "plugins/trtllm/block_hashes.hpp"

#include <algorithm>
#include <charconv>
#include <string>

#include "plugins/trtllm/hashing.hpp"
#include "plugins/trtllm/json.hpp"
#include "sluice/sdk.hpp"

namespace sluice::trtllm {

namespace {

[[noreturn]] void refuse(const std::string& what) {
    throw Failure(SLUICE_E_INVALID, what);
}

struct Prompt {
    HashAlgo scheme = HashAlgo::V1BlockKey;
    bool is_v2_manager = false;
    V1Scope scope;
    std::vector<std::uint64_t> extra_ids;
    std::vector<std::vector<MmKey>> mm_keys;
    std::vector<std::optional<Digest>> digests;  // empty, or one a token
};

// A number, or its decimal text: ids pass 2^53, which not every writer can spell as a number.
std::optional<std::uint64_t> id(const json::Value& root, const char* name) {
    const auto value = json::member(root, name);
    if (!value) {
        return std::nullopt;
    }
    if (const auto number = json::number(value)) {
        return number;
    }
    std::uint64_t out = 0;
    const std::string_view text = json::text(value).value_or("");
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error != std::errc() || end != text.data() + text.size()) {
        refuse(std::string(name) + " is no unsigned integer of 64 bits");
    }
    return out;
}

Digest digest(std::string_view hex, const char* name) {
    const auto out = digest_of(hex);
    if (!out) {
        refuse(std::string(name) + " holds a digest that is not 64 hex digits");
    }
    return *out;
}

void read_salt(const json::Value& root, Prompt& out) {
    out.scope.salt_id = id(root, "cache_salt_id");
    const auto salt = json::text(json::member(root, "cache_salt"));
    if (out.scope.salt_id || !salt) {
        return;
    }
    const auto rule =
        salt_rule_named(json::text(json::member(root, "salt_derivation")).value_or("sha256_8le"));
    if (!rule) {
        refuse("salt_derivation is none of blake3_8le, sha256_8le, libstdcxx_string_hash");
    }
    out.scope.salt_id = salt_id(*rule, *salt);
}

void read_extra_ids(const json::Value& root, std::size_t num_tokens, Prompt& out) {
    const auto value = json::member(root, "token_extra_ids");
    simdjson::dom::array list;
    if (!value || json::boolean(json::member(root, "uses_extra_ids")) == false) {
        return;
    }
    if (value->get(list) != simdjson::SUCCESS || list.size() > kMaxExtras) {
        refuse("token_extra_ids is no list of numbers");
    }
    for (const json::Value entry : list) {
        std::uint64_t number = 0;
        if (entry.get(number) != simdjson::SUCCESS) {
            refuse("token_extra_ids holds no unsigned integer");
        }
        out.extra_ids.push_back(number);
    }
    if (out.extra_ids.size() < num_tokens) {
        refuse("token_extra_ids is shorter than the prompt");
    }
}

void read_mm_keys(const json::Value& root, Prompt& out) {
    const auto value = json::member(root, "mm_keys_per_block");
    if (!value) {
        return;
    }
    simdjson::dom::array blocks;
    if (value->get(blocks) != simdjson::SUCCESS) {
        refuse("mm_keys_per_block is no list of lists");
    }
    std::size_t total = 0;
    for (const json::Value block : blocks) {
        auto& keys = out.mm_keys.emplace_back();
        simdjson::dom::array list;
        if (block.get(list) != simdjson::SUCCESS || (total += list.size()) > kMaxExtras) {
            refuse("mm_keys_per_block is no list of lists");
        }
        for (const json::Value entry : list) {
            const auto hash = json::text(json::member(entry, "hash")).value_or("");
            keys.push_back({digest(hash, "mm_keys_per_block"),
                            json::number(json::member(entry, "start_offset")).value_or(0)});
        }
    }
}

void read_digests(const json::Value& root, std::size_t num_tokens, Prompt& out) {
    const auto value = json::member(root, "prompt_token_ids");
    simdjson::dom::array list;
    if (!value || value->get(list) != simdjson::SUCCESS) {
        return;
    }
    std::size_t at = 0;
    for (const json::Value entry : list) {
        std::string_view hex;
        if (at < num_tokens && entry.get(hex) == simdjson::SUCCESS) {
            out.digests.resize(num_tokens);
            out.digests[at] = digest(hex, "prompt_token_ids");
        }
        ++at;
    }
}

Prompt read(std::string_view params, std::size_t num_tokens) {
    json::Document doc;
    if (!doc.parse(params.empty() ? "{}" : params) || !doc.root().is_object()) {
        refuse("params is not a JSON object");
    }
    Prompt out;
    if (const auto scheme = json::text(json::member(doc.root(), "scheme"))) {
        out.scheme = algo_named(*scheme);
    }
    if (out.scheme == HashAlgo::Other) {
        refuse("scheme is none of v1_block_key, v2_sha256, v2_sha256_64");
    }
    out.is_v2_manager = json::text(json::member(doc.root(), "manager")) == "v2";
    out.scope.lora_id = id(doc.root(), "lora_task_id");
    read_salt(doc.root(), out);
    read_extra_ids(doc.root(), num_tokens, out);
    read_mm_keys(doc.root(), out);
    read_digests(doc.root(), num_tokens, out);
    return out;
}

// The v2 manager reports v1 keys too, up to the first block that holds a content digest: from there
// on they are halves of its own digests.
class Chain {
public:
    Chain(const Prompt& prompt, std::span<const std::uint32_t> tokens, std::uint32_t block_tokens)
        : prompt_(prompt), tokens_(tokens), block_tokens_(block_tokens) {
        if (prompt.scheme != HashAlgo::V1BlockKey || prompt.is_v2_manager) {
            digest_ = v2_root(prompt.scope);
        }
    }

    std::uint64_t next() {
        const std::size_t first = block_ * block_tokens_;
        const auto tokens = tokens_.subspan(first, block_tokens_);
        std::vector<TokenOrDigest> mixed(tokens.begin(), tokens.end());
        for (std::size_t i = 0; i < tokens.size() && !prompt_.digests.empty(); ++i) {
            if (const auto& digest = prompt_.digests[first + i]) {
                mixed[i] = *digest;
                has_digest_ = true;
            }
        }
        if (digest_) {
            digest_ = v2_block(*digest_, mixed);
        }
        if (prompt_.scheme != HashAlgo::V1BlockKey || has_digest_) {
            if (!digest_) {
                refuse("the v1 manager has no content digests among its tokens");
            }
            ++block_;
            return folded(*digest_);
        }
        std::span<const std::uint64_t> extra_ids(prompt_.extra_ids);
        if (!extra_ids.empty()) {
            extra_ids = extra_ids.subspan(first, block_tokens_);
        }
        std::span<const MmKey> mm_keys;
        if (block_ < prompt_.mm_keys.size()) {
            mm_keys = prompt_.mm_keys[block_];
        }
        ++block_;
        return parent_ = v1_block(parent_, tokens, prompt_.scope, extra_ids, mm_keys);
    }

private:
    const Prompt& prompt_;
    std::span<const std::uint32_t> tokens_;
    std::uint32_t block_tokens_;
    std::size_t block_ = 0;
    std::uint64_t parent_ = 0;
    std::optional<Digest> digest_;
    bool has_digest_ = false;
};

}  // namespace

std::vector<std::uint64_t> block_hashes(std::string_view params,
                                        std::span<const std::uint32_t> tokens,
                                        std::uint32_t block_tokens, std::size_t max_blocks) {
    if (block_tokens == 0) {
        refuse("block_tokens is 0");
    }
    const Prompt prompt = read(params, tokens.size());
    Chain chain(prompt, tokens, block_tokens);
    std::vector<std::uint64_t> out(std::min(tokens.size() / block_tokens, max_blocks));
    std::generate(out.begin(), out.end(), [&] { return chain.next(); });
    return out;
}

}  // namespace sluice::trtllm
