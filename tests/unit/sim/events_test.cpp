#include "tests/sim/vllm/events.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "tests/sim/support/json.hpp"

using namespace sluice::sim;

namespace {

std::string from_hex(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
        out.push_back(static_cast<char>(std::stoul(std::string(text.substr(i, 2)), nullptr, 16)));
    }
    return out;
}

// The digest a recorded hash stands for; of an integer only the low 64 bits are known.
vllm::Digest digest_of(const json::Value& hash) {
    vllm::Digest out{};
    std::string raw = from_hex(hash.text_of("bytes_hex"));
    if (raw.empty()) {
        const std::uint64_t n = std::stoull(std::string(hash.text_of("u64")));
        for (unsigned i = 0; i < 8; ++i) {
            raw.push_back(static_cast<char>(n >> (56 - 8 * i)));
        }
        raw.insert(0, 24, '\0');
    }
    std::copy(raw.begin(), raw.end(), out.begin());
    return out;
}

vllm::KvEvent event_of(const json::Value& v, bool& has_bytes) {
    if (v.text_of("type") == "AllBlocksCleared") {
        return vllm::AllBlocksCleared{};
    }
    const json::Array& hashes = *v.get("block_hashes")->array();
    has_bytes = !hashes.front().text_of("bytes_hex").empty();
    if (v.text_of("type") == "BlockRemoved") {
        return vllm::BlockRemoved{digest_of(hashes.front())};
    }
    vllm::BlockStored out;
    for (const json::Value& h : hashes) {
        out.hashes.push_back(digest_of(h));
    }
    if (const json::Value* parent = v.get("parent_block_hash")) {
        out.parent = digest_of(*parent);
    }
    for (const json::Value& t : *v.get("token_ids")->array()) {
        out.tokens.push_back(static_cast<TokenId>(*t.integer()));
    }
    out.block_size = static_cast<std::uint32_t>(*v.get("block_size")->integer());
    if (const json::Value* id = v.get("lora_id")) {
        out.lora_id = *id->integer();
    }
    out.lora_name = v.text_of("lora_name");
    out.session_id = v.text_of("session_id");
    out.extra_keys.resize(out.hashes.size());
    if (const json::Value* keys = v.get("extra_keys")) {
        for (std::size_t i = 0; i < keys->array()->size(); ++i) {
            const json::Array* block = (*keys->array())[i].array();
            for (const json::Value& k : block != nullptr ? *block : json::Array()) {
                out.extra_keys[i].push_back(*k.text());
            }
        }
    }
    return out;
}

}  // namespace

TEST_SUITE("sim/events") {
    TEST_CASE("batches are, byte for byte, those of a running 0.32 and of the 0.17 classes") {
        std::ifstream file("tests/vectors/vllm_kv_events.jsonl");
        REQUIRE(file);
        std::size_t maps = 0;
        std::size_t arrays = 0;
        for (std::string line; std::getline(file, line);) {
            auto parsed = json::parse(line);
            const json::Value& v = std::get<json::Value>(parsed);
            const std::string_view id = v.text_of("id");
            const bool is_live = id.substr(0, 7) == "ev-live";
            // 0.17 with text keys only: cases 013 and 017 are of 0.17 with explicit nils.
            if (!is_live && id != "ev-stored-014") {
                continue;
            }
            CAPTURE(id);
            const json::Value& decoded = *v.get("decoded");
            bool has_bytes = false;
            std::vector<vllm::KvEvent> events;
            for (const json::Value& e : *decoded.get("events")->array()) {
                events.push_back(event_of(e, has_bytes));
            }
            const json::Value& ts = *decoded.get("ts");
            const double at =
                ts.real() != nullptr ? *ts.real() : static_cast<double>(*ts.integer());
            const auto rank = static_cast<int>(*decoded.get("data_parallel_rank")->integer());
            const std::string got = vllm::encode_batch(
                at, events, rank, is_live ? vllm::EventEncoding::Map : vllm::EventEncoding::Array,
                has_bytes ? vllm::HashForm::Bytes : vllm::HashForm::Integer);
            CHECK(got == from_hex(v.text_of("payload_hex")));
            ++(is_live ? maps : arrays);
        }
        CHECK(maps == 13);
        CHECK(arrays == 1);
    }
}
