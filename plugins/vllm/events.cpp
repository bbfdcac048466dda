#include "plugins/vllm/events.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "plugins/vllm/msgpack.hpp"

namespace sluice::vllm {

using msgpack::Item;
using msgpack::Kind;
using msgpack::Reader;

std::optional<std::uint64_t> fold_digest(std::span<const std::uint8_t> digest) noexcept {
    if (digest.empty()) {
        return std::nullopt;
    }
    std::uint64_t value = 0;
    for (std::uint8_t byte : digest.last(std::min<std::size_t>(digest.size(), 8))) {
        value = value << 8U | byte;
    }
    return value;
}

namespace {

// The fields of an event by array position; position 0 is the tag.
enum class Field {
    Tag,
    Hashes,
    Parent,
    Tokens,
    BlockSize,
    LoraId,
    Medium,
    LoraName,
    ExtraKeys,
    Group,
    SpecKind,
    SpecWindow,
    Locality,
    Unknown
};

constexpr std::array kStoredFields{Field::Tag,    Field::Hashes,    Field::Parent,
                                   Field::Tokens, Field::BlockSize, Field::LoraId,
                                   Field::Medium, Field::LoraName,  Field::ExtraKeys,
                                   Field::Group,  Field::SpecKind,  Field::SpecWindow};
constexpr std::array kRemovedFields{Field::Tag, Field::Hashes, Field::Medium, Field::Group};

Field field_named(std::string_view name) noexcept {
    struct Named {
        std::string_view name;
        Field field;
    };
    static constexpr Named kNames[] = {{"block_hashes", Field::Hashes},
                                       {"parent_block_hash", Field::Parent},
                                       {"token_ids", Field::Tokens},
                                       {"block_size", Field::BlockSize},
                                       {"lora_id", Field::LoraId},
                                       {"medium", Field::Medium},
                                       {"lora_name", Field::LoraName},
                                       {"extra_keys", Field::ExtraKeys},
                                       {"group_idx", Field::Group},
                                       {"kv_cache_spec_kind", Field::SpecKind},
                                       {"kv_cache_spec_sliding_window", Field::SpecWindow},
                                       {"locality", Field::Locality},
                                       {"type", Field::Tag}};
    for (const Named& n : kNames) {
        if (n.name == name) {
            return n.field;
        }
    }
    return Field::Unknown;
}

enum class Tag { Stored, Removed, Cleared, Unknown };
Tag tag_named(std::string_view name) noexcept {
    return name == "BlockStored"        ? Tag::Stored
           : name == "BlockRemoved"     ? Tag::Removed
           : name == "AllBlocksCleared" ? Tag::Cleared
                                        : Tag::Unknown;
}

class Decoder {
public:
    Decoder(std::span<const std::uint8_t> payload, Batch& out) : in_(payload), out_(out) {}

    bool run() {
        const Item batch = in_.next();
        if (batch.kind != Kind::Array || batch.count < 2) {
            return false;
        }
        const Item time = in_.next();
        if (time.kind == Kind::Float && std::isfinite(time.real)) {
            out_.engine_time_s = time.real;
        } else if (time.kind == Kind::Integer) {
            out_.engine_time_s = time.is_negative
                                     ? static_cast<double>(static_cast<std::int64_t>(time.bits))
                                     : static_cast<double>(time.bits);
        } else {
            return false;
        }
        const Item events = in_.next();
        if (events.kind != Kind::Array || events.count > kMaxEvents) {
            return false;
        }
        for (std::size_t i = 0; i < events.count; ++i) {
            if (!event()) {
                return false;
            }
        }
        if (batch.count > 2) {
            const Item rank = in_.next();
            if (rank.kind == Kind::Integer) {
                out_.rank = static_cast<std::int64_t>(rank.bits);
            } else if (rank.kind != Kind::Nil) {
                return false;
            }
        }
        for (std::size_t i = 3; i < batch.count; ++i) {
            in_.skip();
        }
        return !in_.failed() && in_.at_end();
    }

private:
    bool event() {
        const Item head = in_.next();
        if (head.kind == Kind::Array) {
            return array_event(head);
        }
        return head.kind == Kind::Map && map_event(head);
    }

    bool array_event(const Item& head) {
        if (head.count == 0) {
            return false;
        }
        const Item tag = in_.next();
        if (tag.kind != Kind::Text) {
            return false;
        }
        const Tag kind = tag_named(tag.text());
        std::span<const Field> fields;
        if (kind == Tag::Stored) {
            fields = kStoredFields;
        } else if (kind == Tag::Removed) {
            fields = kRemovedFields;
        }
        Event event;
        seen_ = 0;
        for (std::size_t i = 1; i < head.count; ++i) {
            if (i >= fields.size()) {
                in_.skip();
            } else if (!read(fields[i], event)) {
                return false;
            }
            if (in_.failed()) {
                return false;
            }
        }
        return finish(kind, std::move(event));
    }

    // The tag may come last in a map, so members are read by name whatever the kind turns out to
    // be; a member of an unknown kind is held to nothing: the map is read again, passed over.
    bool map_event(const Item& head) {
        const Reader members = in_;
        std::optional<Tag> kind;
        for (std::size_t i = 0; i < head.count && !kind; ++i) {
            const Item key = in_.next();
            if (key.kind != Kind::Text) {
                return false;
            }
            if (key.text() == "type") {
                const Item tag = in_.next();
                if (tag.kind != Kind::Text) {
                    return false;
                }
                kind = tag_named(tag.text());
            } else {
                in_.skip();
            }
        }
        if (!kind || in_.failed()) {
            return false;
        }
        in_ = members;
        if (*kind == Tag::Unknown || *kind == Tag::Cleared) {
            in_.skip_members(head);
            return !in_.failed() && finish(*kind, {});
        }
        Event event;
        seen_ = 0;
        for (std::size_t i = 0; i < head.count; ++i) {
            const Item key = in_.next();
            if (key.kind != Kind::Text) {
                return false;
            }
            Field field = field_named(key.text());
            if (*kind == Tag::Removed && field != Field::Hashes && field != Field::Medium &&
                field != Field::Group && field != Field::Locality) {
                field = Field::Unknown;
            }
            if (field == Field::Tag || field == Field::Unknown) {
                in_.skip();
            } else if (!read(field, event)) {
                return false;
            }
            if (in_.failed()) {
                return false;
            }
        }
        return finish(*kind, std::move(event));
    }

    bool finish(Tag kind, Event event) {
        const auto needs = [&](Field f) {
            return (seen_ & bit(f)) != 0;
        };
        switch (kind) {
            case Tag::Unknown:
                ++out_.skipped;
                return true;
            case Tag::Stored:
                if (!needs(Field::Hashes) || !needs(Field::Parent) || !needs(Field::Tokens) ||
                    !needs(Field::BlockSize)) {
                    return false;
                }
                event.kind = EventKind::Stored;
                break;
            case Tag::Removed:
                if (!needs(Field::Hashes)) {
                    return false;
                }
                event.kind = EventKind::Removed;
                break;
            case Tag::Cleared:
                event.kind = EventKind::Cleared;
                break;
        }
        out_.events.push_back(std::move(event));
        return true;
    }

    bool read(Field field, Event& event) {
        seen_ |= bit(field);
        switch (field) {
            case Field::Hashes:
                return hashes(event.hashes);
            case Field::Parent: {
                const Item item = in_.next();
                event.parent.reset();
                return item.kind == Kind::Nil || hash(item, event.parent);
            }
            case Field::Tokens:
                return tokens(event.tokens);
            case Field::BlockSize: {
                const Item item = in_.next();
                event.block_size = static_cast<std::uint32_t>(item.bits);
                return item.is_u32();
            }
            case Field::LoraId: {
                const Item item = in_.next();
                if (item.kind == Kind::Integer) {
                    event.lora_id = static_cast<std::int64_t>(item.bits);
                }
                return item.kind == Kind::Integer || item.kind == Kind::Nil;
            }
            case Field::Medium:
                return text(event.medium);
            case Field::LoraName:
                return text(event.lora_name);
            case Field::SpecKind:
                return text(event.spec_kind);
            case Field::Locality:
                return text(event.locality);
            case Field::Group: {
                const Item item = in_.next();
                if (item.is_u32()) {
                    event.group = static_cast<std::uint32_t>(item.bits);
                }
                return item.is_u32() || item.kind == Kind::Nil;
            }
            case Field::ExtraKeys:
                return extra_keys(event);
            case Field::SpecWindow:
            case Field::Tag:
            case Field::Unknown:
                in_.skip();
                return true;
        }
        return false;
    }

    static bool hash(const Item& item, std::optional<std::uint64_t>& out) {
        if (item.kind == Kind::Integer) {
            out = item.bits;
        } else if (item.kind == Kind::Bytes) {
            out = fold_digest(item.bytes);
        } else {
            out.reset();
        }
        return out.has_value();
    }

    bool hashes(std::vector<std::uint64_t>& out) {
        const Item list = in_.next();
        if (list.kind != Kind::Array) {
            return false;
        }
        out.clear();
        out.reserve(list.count);
        std::optional<std::uint64_t> value;
        for (std::size_t i = 0; i < list.count; ++i) {
            if (!hash(in_.next(), value)) {
                return false;
            }
            out.push_back(*value);
        }
        return true;
    }

    bool tokens(std::vector<std::uint32_t>& out) {
        const Item list = in_.next();
        if (list.kind != Kind::Array) {
            return false;
        }
        out.clear();
        out.reserve(list.count);
        for (std::size_t i = 0; i < list.count; ++i) {
            const Item item = in_.next();
            if (!item.is_u32()) {
                return false;
            }
            out.push_back(static_cast<std::uint32_t>(item.bits));
        }
        return true;
    }

    bool text(std::optional<std::string>& out) {
        const Item item = in_.next();
        if (item.kind == Kind::Text) {
            out = std::string(item.text());
        }
        return item.kind == Kind::Text || item.kind == Kind::Nil;
    }

    bool extra_keys(Event& event) {
        const Item list = in_.next();
        if (list.kind == Kind::Nil) {
            return true;
        }
        if (list.kind != Kind::Array) {
            return false;
        }
        event.has_extra_keys = true;
        event.extra_keys.clear();
        // Nearly always a list of nils: only a list that holds a key costs memory per hash.
        bool any = false;
        for (std::size_t i = 0; i < list.count; ++i) {
            const Item entry = in_.next();
            if (entry.kind == Kind::Nil) {
                if (any) {
                    event.extra_keys.emplace_back();
                }
                continue;
            }
            if (entry.kind != Kind::Array) {
                return false;
            }
            if (!any) {
                any = true;
                event.extra_keys.resize(i);
            }
            BlockKeys& keys = event.extra_keys.emplace_back();
            for (std::size_t k = 0; k < entry.count; ++k) {
                if (!key(keys.emplace_back(), kMaxKeyDepth)) {
                    return false;
                }
            }
        }
        return true;
    }

    bool key(ExtraKey& out, int depth) {
        if (++keys_ > kMaxKeys) {
            return false;
        }
        const Item item = in_.next();
        switch (item.kind) {
            case Kind::Nil:
                return true;
            case Kind::Text:
                out.kind = ExtraKey::Kind::Text;
                out.text = item.text();
                return true;
            case Kind::Bytes:
                out.kind = ExtraKey::Kind::Bytes;
                out.text = item.text();
                return true;
            case Kind::Integer:
                out.kind = ExtraKey::Kind::Integer;
                out.integer = static_cast<std::int64_t>(item.bits);
                return true;
            case Kind::Array:
                out.kind = ExtraKey::Kind::Tuple;
                for (std::size_t i = 0; i < item.count; ++i) {
                    if (depth == 0 || !key(out.items.emplace_back(), depth - 1)) {
                        return false;
                    }
                }
                return true;
            default:
                return false;
        }
    }

    static constexpr std::uint32_t bit(Field f) noexcept { return 1U << static_cast<unsigned>(f); }

    Reader in_;
    Batch& out_;
    std::uint32_t seen_ = 0;
    std::size_t keys_ = 0;
};

}  // namespace

bool decode(std::span<const std::uint8_t> payload, Batch& out) {
    out = Batch{};
    return payload.size() <= kMaxPayloadBytes && Decoder(payload, out).run();
}

}  // namespace sluice::vllm
