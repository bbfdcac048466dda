#include "plugins/vllm/translate.hpp"

#include <doctest/doctest.h>

#include "plugins/vllm/attest.hpp"
#include "tests/unit/plugin_vllm/vectors.hpp"

using namespace sluice::vllm;
using namespace sluice::vllm::test;

namespace {

ExtraKey word(std::string text) {
    ExtraKey key;
    key.kind = ExtraKey::Kind::Text;
    key.text = std::move(text);
    return key;
}
ExtraKey image(std::string id, std::int64_t offset) {
    ExtraKey key;
    key.kind = ExtraKey::Kind::Tuple;
    ExtraKey at;
    at.kind = ExtraKey::Kind::Integer;
    at.integer = offset;
    key.items = {word(std::move(id)), at};
    return key;
}
ExtraKey digest() {
    ExtraKey key;
    key.kind = ExtraKey::Kind::Bytes;
    key.text = std::string(32, 'd');
    return key;
}

Event stored(std::size_t blocks, std::uint32_t block_size = 4) {
    Event e;
    for (std::size_t i = 0; i < blocks; ++i) {
        e.hashes.push_back(100 + i);
        for (std::uint32_t t = 0; t < block_size; ++t) {
            e.tokens.push_back(static_cast<std::uint32_t>(i * block_size) + t);
        }
    }
    e.block_size = block_size;
    e.medium = "GPU";
    return e;
}
Event removed(std::uint64_t hash) {
    Event e;
    e.kind = EventKind::Removed;
    e.hashes = {hash};
    e.medium = "GPU";
    return e;
}
Batch batch(std::vector<Event> events) {
    Batch b;
    b.events = std::move(events);
    return b;
}
using Opaque = std::vector<std::uint8_t>;

}  // namespace

TEST_SUITE("vllm/translate") {
    TEST_CASE("extra keys: the adapter and the salt root a chain, everything else hides a block") {
        struct Row {
            const char* name;
            std::optional<std::string> lora;
            std::optional<std::uint64_t> parent;
            std::vector<BlockKeys> keys;
            const char* want_lora;
            const char* want_salt;
            Opaque want_opaque;
        };
        for (const Row& row : {
                 Row{"plain", {}, {}, {}, "", "", {}},
                 Row{"salt", {}, {}, {{word("tenant-a")}, {}}, "", "tenant-a", {}},
                 Row{"adapter", "sql", {}, {{word("sql")}, {word("sql")}}, "sql", "", {}},
                 Row{"adapter and salt",
                     "sql",
                     {},
                     {{word("sql"), word("t")}, {word("sql")}},
                     "sql",
                     "t",
                     {}},
                 Row{"image", {}, {}, {{image("id", 2)}, {}}, "", "", {1, 0}},
                 Row{"image later", {}, {}, {{}, {image("id", -2)}}, "", "", {0, 1}},
                 Row{"image and salt", {}, {}, {{image("id", 2), word("t")}, {}}, "", "", {1, 0}},
                 Row{"adapter and image",
                     "sql",
                     {},
                     {{word("sql"), image("id", 2)}, {word("sql")}},
                     "sql",
                     "",
                     {1, 0}},
                 Row{"embedding", {}, {}, {{digest()}, {digest()}}, "", "", {1, 1}},
                 Row{"bare image of 0.17 in a later block",
                     {},
                     {},
                     {{}, {word("id")}},
                     "",
                     "",
                     {0, 1}},
                 Row{"bare image with a parent", {}, 7, {{word("id")}, {}}, "", "", {1, 0}},
                 Row{"two bare texts", {}, {}, {{word("id"), word("t")}, {}}, "", "", {1, 0}},
                 Row{"adapter's key missing", "sql", {}, {{word("sql")}, {}}, "sql", "", {0, 1}},
                 Row{"another adapter's key",
                     "sql",
                     {},
                     {{word("dba")}, {word("sql")}},
                     "sql",
                     "",
                     {1, 0}},
                 Row{"keys that do not line up", {}, {}, {{word("t")}}, "", "", {1, 1}},
             }) {
            CAPTURE(row.name);
            Event e = stored(2);
            e.lora_name = row.lora;
            e.parent = row.parent;
            e.extra_keys = row.keys;
            e.has_extra_keys = true;
            const Reading got = read_keys(e);
            CHECK(got.lora == row.want_lora);
            CHECK(got.salt == row.want_salt);
            CHECK(got.opaque == row.want_opaque);
        }
    }

    TEST_CASE(
        "an adapter known by number only hides its blocks, unless its name is the first key") {
        Event e = stored(2);
        e.lora_id = 3;
        CHECK(read_keys(e).opaque == Opaque{1, 1});
        e.has_extra_keys = true;
        e.extra_keys = {{word("sql")}, {word("sql")}};
        CHECK(read_keys(e).lora == "sql");
        CHECK(read_keys(e).opaque.empty());
        Event named = stored(2);  // 0.14 to 0.16: a name, no extra keys
        named.lora_name = "sql";
        CHECK(read_keys(named).lora == "sql");
        CHECK(read_keys(named).opaque.empty());
    }

    TEST_CASE("media go to tiers whatever their letters; an unknown one is counted") {
        struct Row {
            std::optional<std::string> medium, locality;
            std::uint32_t want;
        };
        for (const Row& row :
             {Row{{}, {}, SLUICE_TIER_GPU}, Row{"GPU", {}, SLUICE_TIER_GPU},
              Row{"cpu", {}, SLUICE_TIER_HOST}, Row{"CPU", "LOCAL", SLUICE_TIER_HOST},
              Row{"STORAGE", {}, SLUICE_TIER_DISK}, Row{"FS", {}, SLUICE_TIER_DISK},
              Row{"OBJ", {}, SLUICE_TIER_REMOTE}, Row{"STORAGE", "REMOTE", SLUICE_TIER_REMOTE},
              Row{"TAPE", {}, 0}}) {
            Event e = stored(1);
            e.medium = row.medium;
            e.locality = row.locality;
            CHECK(tier_of(e) == row.want);
        }
        Event tape = stored(3);
        tape.medium = "TAPE";
        Translator t;
        const Batch b = batch({tape});
        const Translated out = t.translate(b);
        CHECK(out.events.empty());
        CHECK(out.unknown_medium == 3);
    }

    TEST_CASE("groups that serve no look-up are left out, stored and removed") {
        Event window = stored(2);
        window.group = 1;
        window.spec_kind = "sliding_window";
        Event full = stored(2);
        full.group = 0;
        full.spec_kind = "full_attention";
        Event gone_window = removed(100);
        gone_window.group = 1;
        Event gone_full = removed(100);
        gone_full.group = 0;
        Event gone_stranger = removed(100);
        gone_stranger.group = 5;
        Translator t;
        const Batch b = batch({window, full, gone_window, gone_full, gone_stranger});
        const Translated out = t.translate(b);
        REQUIRE(out.events.size() == 2);
        CHECK(out.events[0].type == SLUICE_KV_STORED);
        CHECK(out.events[1].type == SLUICE_KV_REMOVED);
        CHECK(out.events[1].group == 0);
        CHECK(out.not_lookup == 4);
        Event mla = stored(1);
        mla.group = 5;
        mla.spec_kind = "mla_attention";
        const Batch later = batch({mla, gone_stranger});
        CHECK(t.translate(later).events.size() == 2);
    }

    TEST_CASE("copies are counted by the host, so every event says so") {
        Translator t;
        const Batch b = batch({stored(1), removed(100)});
        for (const sluice_kv_event& e : t.translate(b).events) {
            CHECK((e.flags & SLUICE_KV_COPIES) != 0);
        }
    }

    TEST_CASE("a clear takes the GPU, all groups, and nothing else") {
        Event clear;
        clear.kind = EventKind::Cleared;
        Translator t;
        const Batch b = batch({clear, stored(1)});
        const Translated out = t.translate(b);
        REQUIRE(out.events.size() == 2);
        CHECK(out.cleared);
        CHECK(out.events[0].type == SLUICE_KV_CLEARED);
        CHECK(out.events[0].tier == SLUICE_TIER_GPU);
        CHECK(out.events[0].group == SLUICE_ANY);
        CHECK_FALSE(t.has_other_tiers());
        Event host = stored(1);
        host.medium = "CPU";
        const Batch offload = batch({host});
        (void)t.translate(offload);
        CHECK(t.has_other_tiers());
    }

    TEST_CASE("a tokenless offload event names blocks only; its block size may be 0") {
        Event e;
        e.hashes = {7, 8};
        e.medium = "CPU";
        e.block_size = 0;
        Translator t;
        const Batch b = batch({e});
        const Translated out = t.translate(b);
        REQUIRE(out.events.size() == 1);
        CHECK(out.events[0].num_tokens == 0);
        CHECK(out.events[0].block_tokens == 0);
        CHECK(out.events[0].tier == SLUICE_TIER_HOST);
        CHECK(t.block_tokens() == 0);
        CHECK(out.roots.empty());
    }

    TEST_CASE("a block of another size than this rank's is a partial entry, left out and counted") {
        Translator t;
        const Batch whole = batch({stored(2, 16)});
        CHECK(t.translate(whole).events.size() == 1);
        CHECK(t.block_tokens() == 16);
        const Batch part = batch({stored(1, 4)});
        const Translated out = t.translate(part);
        CHECK(out.events.empty());
        CHECK(out.partial == 1);
        Translator other;  // a first event of one hash may itself be the partial one
        (void)other.translate(part);
        CHECK(other.block_tokens() == 4);
        CHECK(other.translate(whole).events.size() == 1);
        CHECK(other.block_tokens() == 16);
    }
}

TEST_SUITE("vllm/attest") {
    struct Chain {
        std::vector<std::uint32_t> tokens;
        std::vector<std::uint64_t> hashes;
    };
    Chain chain_of(Algorithm algorithm, const std::optional<std::string>& seed,
                   std::vector<BlockKeys> keys = {}) {
        Chain c;
        for (std::uint32_t t = 0; t < 48; ++t) {
            c.tokens.push_back(t * 3 + 1);
        }
        const HashRule rule{algorithm, algorithm == Algorithm::Sha256Cbor64};
        const Digest none = none_hash(rule, seed).value_or(Digest{std::string(32, 'r')});
        for (const Digest& d :
             hash_chain(rule, none, std::span<const std::uint32_t>(c.tokens), 16, keys)) {
            c.hashes.push_back(d.folded());
        }
        return c;
    }
    Root root_of(const Chain& c, Identity who = {}, bool shows_keys = true) {
        return {c.tokens, c.hashes, 16, std::move(who), shows_keys};
    }
    Settings declare(std::optional<Algorithm> algorithm, std::optional<std::string> seed) {
        Settings s;
        s.algorithm = algorithm;
        s.seed = std::move(seed);
        return s;
    }

    TEST_CASE("what a rule declares is compared with the first stored block") {
        struct Row {
            const char* name;
            std::optional<Algorithm> algorithm;
            std::optional<std::string> seed;
            Algorithm engine;
            std::optional<std::string> engine_seed;
            std::optional<Attestation> want;
        };
        for (const Row& row :
             {Row{"both right", Algorithm::Sha256Cbor, "42", Algorithm::Sha256Cbor, "42",
                  Attestation::Attested},
              Row{"nothing declared", {}, {}, Algorithm::Sha256, "0", Attestation::Attested},
              Row{"algorithm declared, seed unset",
                  Algorithm::Sha256,
                  {},
                  Algorithm::Sha256,
                  {},
                  Attestation::Attested},
              Row{"another algorithm", Algorithm::Sha256Cbor, "42", Algorithm::Sha256, "42",
                  Attestation::OtherAlgorithm},
              Row{"another seed", Algorithm::Sha256Cbor, "42", Algorithm::Sha256Cbor, "0",
                  Attestation::OtherSeed},
              Row{"engine without seed",
                  Algorithm::Sha256Cbor,
                  "42",
                  Algorithm::Sha256Cbor,
                  {},
                  Attestation::OtherSeed},
              Row{"nothing fits", Algorithm::Sha256Cbor, "42", Algorithm::Xxhash, "77",
                  Attestation::OtherAlgorithm},
              Row{"seed not declared and not guessed",
                  Algorithm::Sha256Cbor,
                  {},
                  Algorithm::Sha256Cbor,
                  "77",
                  Attestation::Unproven},
              Row{"nothing declared, nothing fits", {}, {}, Algorithm::Sha256, "77", {}}}) {
            CAPTURE(row.name);
            Attestor a(declare(row.algorithm, row.seed));
            const auto verdict = a.see(root_of(chain_of(row.engine, row.engine_seed)));
            CHECK(verdict.has_value() == row.want.has_value());
            if (verdict && row.want) {
                CHECK(verdict->result == *row.want);
                CHECK_FALSE(verdict->detail.empty());
            }
            CHECK_FALSE(a.see(root_of(chain_of(row.engine, row.engine_seed))).has_value());
        }
    }

    TEST_CASE("the engine's own word on its algorithm decides what a misfit is called") {
        Attestor a(declare(Algorithm::Sha256Cbor, "42"));
        a.hint("sha256_cbor");
        CHECK(a.see(root_of(chain_of(Algorithm::Sha256Cbor, "77")))->result ==
              Attestation::OtherSeed);
        Attestor b(declare(Algorithm::Sha256Cbor, "42"));
        b.hint("xxhash");
        CHECK(b.see(root_of(chain_of(Algorithm::Xxhash, "77")))->result ==
              Attestation::OtherAlgorithm);
    }

    TEST_CASE("both key forms are tried, and the one that fits is shown") {
        const Identity who{"sql", "adapters/sql", "tenant"};
        for (KeyForm form : {KeyForm::Bare, KeyForm::Tagged}) {
            Attestor a(declare(Algorithm::Sha256, "0"));
            const auto verdict =
                a.see(root_of(chain_of(Algorithm::Sha256, "0", text_keys(form, who, 3)), who));
            REQUIRE(verdict.has_value());
            CHECK(verdict->result == Attestation::Attested);
            CHECK(a.key_form() == (form == KeyForm::Bare ? "bare" : "tagged"));
        }
    }

    TEST_CASE("an adapter whose path is not known proves nothing") {
        const Identity with_path{"sql", "adapters/sql", ""};
        Attestor a(declare(Algorithm::Sha256, "0"));
        const auto chain =
            chain_of(Algorithm::Sha256, "0", text_keys(KeyForm::Tagged, with_path, 3));
        CHECK_FALSE(a.see(root_of(chain, {"sql", "", ""})).has_value());
        CHECK(a.see(root_of(chain, with_path))->result == Attestation::Attested);
    }

    TEST_CASE("where events hide their keys one misfit is not yet a mismatch") {
        Attestor a(declare(Algorithm::Sha256, "0"));
        const auto salted =
            chain_of(Algorithm::Sha256, "0", text_keys(KeyForm::Bare, {"", "", "hidden"}, 3));
        CHECK_FALSE(a.see(root_of(salted, {}, false)).has_value());
        CHECK(a.see(root_of(chain_of(Algorithm::Sha256, "0"), {}, false))->result ==
              Attestation::Attested);
        CHECK(a.plain_blocks(root_of(salted, {}, false)) == 0);
        CHECK(a.plain_blocks(root_of(chain_of(Algorithm::Sha256, "0"), {}, false)) == 3);
        auto image = text_keys(KeyForm::Bare, {"", "", ""}, 3);
        image.resize(3);
        image[2].push_back(image.empty() ? ExtraKey{} : word("hidden-image"));
        CHECK(a.plain_blocks(root_of(chain_of(Algorithm::Sha256, "0", image), {}, false)) == 2);
    }

    TEST_CASE("after a restart everything is attested anew") {
        Attestor a(declare(Algorithm::Sha256, "0"));
        CHECK(a.see(root_of(chain_of(Algorithm::Sha256, "0")))->result == Attestation::Attested);
        a.forget();
        CHECK_FALSE(a.is_known());
        CHECK(a.see(root_of(chain_of(Algorithm::Sha256, "42")))->result ==
              Attestation::OtherAlgorithm);
    }
}
