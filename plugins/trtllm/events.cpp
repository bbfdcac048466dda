#include "plugins/trtllm/events.hpp"

#include <limits>

#include "plugins/trtllm/json.hpp"

namespace sluice::trtllm {

namespace {

using json::Value;
using simdjson::SUCCESS;

constexpr std::array<std::pair<std::string_view, HashAlgo>, 3> kAlgos{
    {{"v1_block_key", HashAlgo::V1BlockKey},
     {"v2_sha256", HashAlgo::V2Sha256},
     {"v2_sha256_64", HashAlgo::V2Sha256Short}}};

int hex_digit(char c) noexcept {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Reads one reply. The first thing that is not as it should be ends it.
class Decoder {
public:
    explicit Decoder(Drained& out) : out_(out) {}

    bool run(std::string_view body) {
        json::Document doc;
        if (!doc.parse(body)) {
            return bad("the body is not JSON");
        }
        simdjson::dom::array list;
        if (doc.root().get(list) != SUCCESS) {
            return bad("the body is not an array");
        }
        for (const Value item : list) {
            if (!event(item)) {
                return false;
            }
        }
        return true;
    }

private:
    bool bad(std::string_view why) {
        out_ = Drained{};
        out_.fault = why;
        return false;
    }

    // Absent and null leave `to` as it is; another type or a value that does not fit is a fault.
    template <class T>
    bool optional_number(const Value& object, const char* name, std::optional<T>& to) {
        const auto value = json::member(object, name);
        const auto number = json::number(value);
        if (!value) {
            return true;
        }
        if (!number || *number > std::numeric_limits<T>::max()) {
            return bad("a number of the envelope is no number");
        }
        to = static_cast<T>(*number);
        return true;
    }

    bool event(const Value& item) {
        simdjson::dom::object object;
        if (item.get(object) != SUCCESS) {
            return bad("an event is not an object");
        }
        if (object.size() == 0) {
            ++out_.placeholders;
            return true;
        }
        Event e;
        const auto id = json::number(json::member(item, "event_id"));
        if (!id || *id == UINT64_MAX) {
            return bad("event_id is missing or no unsigned integer");
        }
        e.id = *id;
        std::optional<std::uint32_t> rank;
        if (!optional_number(item, "attention_dp_rank", rank) ||
            !optional_number(item, "window_size", e.window) ||
            !optional_number(item, "layer_group_id", e.group)) {
            return false;
        }
        e.rank = rank.value_or(0);
        if (const auto algo = json::member(item, "hash_algo")) {
            const auto name = json::text(algo);
            if (!name) {
                return bad("hash_algo is no text");
            }
            e.algo_text = name->substr(0, kMaxName);
            e.algo = algo_named(*name);
        }
        const auto data = json::member(item, "data");
        const auto type = data ? json::text(json::member(*data, "type")) : std::nullopt;
        if (!type) {
            return bad("data or its type is missing");
        }
        if (!content(*data, *type, e)) {
            return false;
        }
        out_.events.push_back(std::move(e));
        return true;
    }

    bool content(const Value& data, std::string_view type, Event& e) {
        if (type == "stored") {
            e.kind = Event::Kind::Stored;
            return stored(data, e);
        }
        if (type == "removed") {
            e.kind = Event::Kind::Removed;
            return removed(data, e);
        }
        if (type == "updated") {
            e.kind = Event::Kind::Updated;
            return updated(data, e);
        }
        if (type == "created") {
            e.kind = Event::Kind::Created;
            return created(data, e);
        }
        e.type = type.substr(0, kMaxName);
        return true;
    }

    bool created(const Value& data, Event& e) {
        const auto levels = json::member(data, "num_blocks_per_cache_level");
        if (!levels) {
            return true;
        }
        simdjson::dom::array list;
        if (levels->get(list) != SUCCESS) {
            return bad("num_blocks_per_cache_level is no list");
        }
        for (const Value entry : list) {
            std::uint64_t number = 0;
            if (entry.get(number) != SUCCESS) {
                return bad("num_blocks_per_cache_level holds no number");
            }
            e.levels.push_back(number);
        }
        return true;
    }

    // An integer of 64 bits, signed or not, or 64 hex digits.
    bool hash(const Value& value, std::uint64_t& to, std::optional<Digest>& digest) {
        std::int64_t negative = 0;
        std::string_view hex;
        if (value.get(to) == SUCCESS) {
            return true;
        }
        if (value.get(negative) == SUCCESS) {
            to = static_cast<std::uint64_t>(negative);
            return true;
        }
        if (value.get(hex) == SUCCESS && (digest = digest_of(hex))) {
            to = 0;
            for (std::size_t i = 0; i < 8; ++i) {
                to = to << 8U | (*digest)[i];
            }
            return true;
        }
        return bad("a block hash is no integer of 64 bits");
    }

    bool add_hash(const Value& value, Event& e) {
        std::uint64_t number = 0;
        std::optional<Digest> digest;
        if (!hash(value, number, digest)) {
            return false;
        }
        const bool is_mixed = digest ? e.digests.size() != e.hashes.size() : !e.digests.empty();
        if (is_mixed) {
            return bad("an event mixes integers and digests");
        }
        e.hashes.push_back(number);
        if (digest) {
            e.digests.push_back(*digest);
        }
        return true;
    }

    bool removed(const Value& data, Event& e) {
        const auto hashes = json::member(data, "block_hashes");
        simdjson::dom::array list;
        if (!hashes || hashes->get(list) != SUCCESS) {
            return bad("block_hashes is missing or no list");
        }
        for (const Value entry : list) {
            if (!add_hash(entry, e)) {
                return false;
            }
        }
        return true;
    }

    bool change(const Value& data, const char* name, std::optional<Change>& to) {
        const auto diff = json::member(data, name);
        if (!diff) {
            return true;
        }
        const auto from = json::number(json::member(*diff, "old_value"));
        const auto now = json::number(json::member(*diff, "new_value"));
        if (!from || !now) {
            return bad("a change lacks its old or new value");
        }
        to = Change{*from, *now};
        return true;
    }

    bool updated(const Value& data, Event& e) {
        const auto value = json::member(data, "block_hash");
        if (!value) {
            return bad("block_hash is missing");
        }
        return add_hash(*value, e) && change(data, "cache_level", e.level) &&
               change(data, "priority", e.priority);
    }

    bool stored(const Value& data, Event& e) {
        if (const auto parent = json::member(data, "parent_hash")) {
            std::uint64_t number = 0;
            if (!hash(*parent, number, e.parent_digest)) {
                return false;
            }
            e.parent = number;
        }
        const auto blocks = json::member(data, "blocks");
        simdjson::dom::array list;
        if (!blocks || blocks->get(list) != SUCCESS) {
            return bad("blocks is missing or no list");
        }
        for (const Value entry : list) {
            if (!block(entry, e)) {
                return false;
            }
        }
        return true;
    }

    bool block(const Value& entry, Event& e) {
        Block b;
        b.first_token = e.tokens.size();
        const auto value = json::member(entry, "block_hash");
        if (!value) {
            return bad("block_hash is missing");
        }
        std::optional<std::uint32_t> level;
        std::optional<std::uint32_t> priority;
        if (!add_hash(*value, e) || !optional_number(entry, "cache_level", level) ||
            !optional_number(entry, "priority", priority)) {
            return false;
        }
        b.level = level.value_or(0);
        b.priority = priority.value_or(0);
        if (const auto salt = json::member(entry, "cache_salt")) {
            if (!json::text(salt)) {
                return bad("cache_salt is no text");
            }
            b.traits |= kSalted;
        }
        if (const auto keys = json::member(entry, "mm_keys")) {
            simdjson::dom::array list;
            if (keys->get(list) != SUCCESS) {
                return bad("mm_keys is no list");
            }
            b.traits |= list.size() != 0 ? std::uint32_t{kMultimodal} : 0U;
        }
        b.traits |= json::member(entry, "lora_id") ? std::uint32_t{kLora} : 0U;
        if (!tokens(entry, e, b.traits)) {
            return false;
        }
        b.num_tokens = static_cast<std::uint32_t>(e.tokens.size() - b.first_token);
        e.blocks.push_back(b);
        return true;
    }

    bool tokens(const Value& entry, Event& e, std::uint32_t& traits) {
        const auto value = json::member(entry, "tokens");
        simdjson::dom::array list;
        if (!value || value->get(list) != SUCCESS) {
            return bad("tokens is missing or no list");
        }
        for (const Value token : list) {
            simdjson::dom::object object;
            if (token.get(object) != SUCCESS) {
                return bad("a token is not an object");
            }
            bool has_id = false;
            for (const auto field : object) {
                std::uint64_t number = 0;
                if (field.key == "token_id" && !has_id) {
                    std::string_view digest;
                    if (field.value.get(digest) == SUCCESS && digest_of(digest)) {
                        traits |= kDigestToken;
                    } else if (field.value.get(number) != SUCCESS || number > UINT32_MAX) {
                        return bad("token_id is no unsigned integer of 32 bits");
                    }
                    e.tokens.push_back(static_cast<std::uint32_t>(number));
                    has_id = true;
                } else if (field.key == "token_extra_id" && !field.value.is_null()) {
                    if (field.value.get(number) != SUCCESS) {
                        return bad("token_extra_id is no unsigned integer");
                    }
                    traits |= number != 0 ? std::uint32_t{kExtraId} : 0U;
                }
            }
            if (!has_id) {
                return bad("token_id is missing");
            }
        }
        return true;
    }

    static constexpr std::size_t kMaxName = 64;
    Drained& out_;
};

}  // namespace

std::optional<Digest> digest_of(std::string_view hex) noexcept {
    Digest out{};
    if (hex.size() != 2 * out.size()) {
        return std::nullopt;
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
        const int high = hex_digit(hex[2 * i]);
        const int low = hex_digit(hex[2 * i + 1]);
        if (high < 0 || low < 0) {
            return std::nullopt;
        }
        out[i] = static_cast<std::uint8_t>(high * 16 + low);
    }
    return out;
}

HashAlgo algo_named(std::string_view name) noexcept {
    for (const auto& [known, algo] : kAlgos) {
        if (known == name) {
            return algo;
        }
    }
    return HashAlgo::Other;
}

std::string_view name_of(HashAlgo algo) noexcept {
    for (const auto& [name, known] : kAlgos) {
        if (known == algo) {
            return name;
        }
    }
    return "unknown";
}

bool decode(std::string_view body, Drained& out) {
    out = Drained{};
    return Decoder(out).run(body);
}

}  // namespace sluice::trtllm
