#include "plugins/vllm/events.hpp"

#include "tests/unit/plugin_vllm/vectors.hpp"

using namespace sluice::vllm;
using namespace sluice::vllm::test;
using simdjson::dom::element;

namespace {

void check_text(const element& want, const char* name, const std::optional<std::string>& got) {
    CAPTURE(name);
    CHECK(got.has_value() == !is_null(want, name));
    CHECK(got.value_or("") == str(want, name));
}

void check_key(const element& want, const ExtraKey& got) {
    if (want.is_null()) {
        CHECK(got.kind == ExtraKey::Kind::Nil);
    } else if (want.is_string()) {
        CHECK(got.kind == ExtraKey::Kind::Text);
        CHECK(got.text == std::string_view(want));
    } else if (want.is_array()) {
        REQUIRE(got.kind == ExtraKey::Kind::Tuple);
        std::size_t i = 0;
        for (const element item : simdjson::dom::array(want)) {
            REQUIRE(i < got.items.size());
            check_key(item, got.items[i++]);
        }
        CHECK(i == got.items.size());
    } else if (want.is_object()) {
        CHECK(got.kind == ExtraKey::Kind::Bytes);
        CHECK(got.text == unhex(str(want, "bytes_hex")));
    } else {
        CHECK(got.kind == ExtraKey::Kind::Integer);
        CHECK(got.integer == std::int64_t(want));
    }
}

void check_hashes(const element& want, const std::vector<std::uint64_t>& got) {
    std::size_t i = 0;
    for (const element h : simdjson::dom::array(want)) {
        REQUIRE(i < got.size());
        CHECK(got[i++] == std::stoull(str(h, "u64")));
    }
    CHECK(i == got.size());
}

void check_event(const element& want, const Event& got) {
    const std::string type = str(want, "type");
    if (type == "AllBlocksCleared") {
        CHECK(got.kind == EventKind::Cleared);
        return;
    }
    check_hashes(want["block_hashes"], got.hashes);
    check_text(want, "medium", got.medium);
    check_text(want, "locality", got.locality);
    CHECK(got.group.has_value() == !is_null(want, "group_idx"));
    if (got.group) {
        CHECK(*got.group == std::uint64_t(want["group_idx"]));
    }
    if (type == "BlockRemoved") {
        CHECK(got.kind == EventKind::Removed);
        return;
    }
    REQUIRE(type == "BlockStored");
    CHECK(got.kind == EventKind::Stored);
    CHECK(got.parent.has_value() == !is_null(want, "parent_block_hash"));
    if (got.parent) {
        CHECK(*got.parent == std::stoull(str(want["parent_block_hash"], "u64")));
    }
    CHECK(got.block_size == std::uint64_t(want["block_size"]));
    CHECK(got.lora_id.has_value() == !is_null(want, "lora_id"));
    check_text(want, "lora_name", got.lora_name);
    check_text(want, "kv_cache_spec_kind", got.spec_kind);
    std::size_t i = 0;
    for (const element token : simdjson::dom::array(want["token_ids"])) {
        REQUIRE(i < got.tokens.size());
        CHECK(got.tokens[i++] == std::uint64_t(token));
    }
    CHECK(i == got.tokens.size());
    CHECK(got.has_extra_keys == !is_null(want, "extra_keys"));
    if (!got.has_extra_keys) {
        return;
    }
    std::size_t block = 0;
    bool any = false;
    for (const element entry : simdjson::dom::array(want["extra_keys"])) {
        if (!entry.is_null()) {
            any = true;
            REQUIRE(block < got.extra_keys.size());
            std::size_t k = 0;
            for (const element key : simdjson::dom::array(entry)) {
                REQUIRE(k < got.extra_keys[block].size());
                check_key(key, got.extra_keys[block][k++]);
            }
            CHECK(k == got.extra_keys[block].size());
        } else if (!got.extra_keys.empty()) {
            CHECK(got.extra_keys[block].empty());
        }
        ++block;
    }
    CHECK(got.extra_keys.size() == (any ? block : 0));
}

bool decodes(const std::string& payload) {
    Batch batch;
    return decode(bytes(payload), batch);
}

}  // namespace

TEST_SUITE("vllm/events") {
    TEST_CASE("every golden payload decodes to what it says, or is refused whole") {
        const std::size_t lines =
            each_line("tests/vectors/vllm_kv_events.jsonl", [](const element& line) {
                CAPTURE(str(line, "id"));
                const std::string expect = str(line, "expect");
                // Exactly sized, so that a sanitizer sees a read past the end.
                const std::string hex = str(line, "payload_hex");
                const std::string raw = unhex(hex);
                const std::vector<std::uint8_t> payload(raw.begin(), raw.end());
                Batch batch;
                const bool ok = decode(payload, batch);
                if (expect == "reject_keep_state") {
                    CHECK_FALSE(ok);
                    return;
                }
                if (expect == "accept_optional") {
                    return;  // either is right; this reader refuses a batch that is a map
                }
                REQUIRE(ok);
                CHECK(batch.engine_time_s == doctest::Approx(double(line["decoded"]["ts"])));
                CHECK(batch.rank.has_value() == !is_null(line["decoded"], "data_parallel_rank"));
                std::size_t i = 0;
                std::uint32_t skipped = 0;
                for (const element event : simdjson::dom::array(line["decoded"]["events"])) {
                    bool skip = false;
                    if (event["skipped"].get(skip) == simdjson::SUCCESS && skip) {
                        ++skipped;
                        continue;
                    }
                    REQUIRE(i < batch.events.size());
                    check_event(event, batch.events[i++]);
                }
                CHECK(i == batch.events.size());
                CHECK(batch.skipped == skipped);
            });
        CHECK(lines == 81);
    }

    TEST_CASE("every cut of a good payload is refused") {
        each_line("tests/vectors/vllm_kv_events.jsonl", [](const element& line) {
            if (str(line, "expect") != "accept") {
                return;
            }
            CAPTURE(str(line, "id"));
            const std::string whole = unhex(str(line, "payload_hex"));
            for (std::size_t size = 0; size < whole.size(); ++size) {
                CHECK_FALSE(decodes(whole.substr(0, size)));
            }
        });
    }

    TEST_CASE("a digest gives its last eight bytes, a short one all of them") {
        struct Row {
            const char* hex;
            std::uint64_t want;
        };
        for (const Row& row : {Row{"00112233445566778899aabbccddeeff", 0x8899aabbccddeeffU},
                               Row{"0102030405060708", 0x0102030405060708U}, Row{"ff", 0xffU},
                               Row{"0102", 0x0102U}}) {
            CAPTURE(row.hex);
            CHECK(fold_digest(bytes(unhex(row.hex))) == row.want);
        }
        CHECK_FALSE(fold_digest({}).has_value());
    }

    TEST_CASE("more extra keys than the bound make a batch malformed") {
        const auto payload = [](std::size_t entries) {
            Pack p;
            p.array(2)
                .u64(1)
                .array(1)
                .array(9)
                .text("BlockStored")
                .array(1)
                .u64(7)
                .nil()
                .array(0)
                .u64(16)
                .nil()
                .nil()
                .nil();
            p.raw(std::string("\xdd\x00\x00\x00\x01", 5));
            p.raw("\xdd");
            for (int shift = 24; shift >= 0; shift -= 8) {
                p.raw(std::string(1, static_cast<char>(entries >> shift)));
            }
            return p.take() + std::string(entries, '\x01');
        };
        CHECK(decodes(payload(kMaxKeys)));
        CHECK_FALSE(decodes(payload(kMaxKeys + 1)));
    }

    TEST_CASE("a payload over the bound is refused unread") {
        Pack p;
        p.array(3).u64(1).array(0).nil();
        std::string good = p.take();
        CHECK(decodes(good));
        good.resize(kMaxPayloadBytes + 1, '\xc0');
        CHECK_FALSE(decodes(good));
    }
}
