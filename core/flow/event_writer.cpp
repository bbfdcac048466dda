#include "core/flow/event_writer.hpp"

#include <algorithm>
#include <msgpack.hpp>

namespace sluice::flow {
namespace {

// What msgpack writes to.
class Text {
public:
    explicit Text(std::string& to) : to_(to) {}
    void write(const char* data, std::size_t size) { to_.append(data, size); }

private:
    std::string& to_;
};
using Packer = msgpack::packer<Text>;

void text(Packer& p, std::string_view s) {
    p.pack_str(static_cast<std::uint32_t>(s.size()));
    p.pack_str_body(s.data(), static_cast<std::uint32_t>(s.size()));
}

void hashes(Packer& p, std::span<const std::uint64_t> all) {
    text(p, "block_hashes");
    p.pack_array(static_cast<std::uint32_t>(all.size()));
    for (const std::uint64_t hash : all) {
        p.pack_uint64(hash);
    }
}

struct Place {
    std::string_view medium;
    bool is_remote = false;
};

Place place_of(std::uint32_t tier) noexcept {
    switch (tier) {
        case SLUICE_TIER_HOST:
            return {"CPU"};
        case SLUICE_TIER_DISK:
            return {"STORAGE"};
        case SLUICE_TIER_REMOTE:
            return {"STORAGE", true};
        default:
            return {"GPU"};
    }
}

void place(Packer& p, const Place& where, std::uint32_t group) {
    text(p, "medium");
    text(p, where.medium);
    text(p, "group_idx");
    p.pack_uint32(group);
    if (where.is_remote) {
        text(p, "locality");
        text(p, "REMOTE");
    }
}

// The keys of one block. The marker of an opaque one has the shape of an image's: whoever reads it
// cannot compute such a block from a request.
void extra_keys(Packer& p, std::string_view lora, std::string_view salt, bool is_opaque) {
    const std::uint32_t count =
        (lora.empty() ? 0U : 1U) + (salt.empty() ? 0U : 1U) + (is_opaque ? 1U : 0U);
    if (count == 0) {
        p.pack_nil();
        return;
    }
    p.pack_array(count);
    if (!lora.empty()) {
        text(p, lora);
    }
    if (is_opaque) {
        p.pack_array(2);
        text(p, "opaque");
        p.pack_uint32(0);
    }
    if (!salt.empty()) {
        text(p, salt);
    }
}

}  // namespace

std::string& EventWriter::next_event() {
    if (bodies_.empty() || bodies_.back().events.size() >= kFullBytes ||
        bodies_.back().count >= kEventsAPayload) {
        bodies_.emplace_back();
    }
    ++bodies_.back().count;
    return bodies_.back().events;
}

void EventWriter::stored(const Stored& event) {
    if (event.hashes.empty()) {
        return;
    }
    if (!event.is_whole()) {
        one_stored(event);
        return;
    }
    const std::size_t step =
        std::clamp<std::size_t>(kTokensAnEvent / event.block_tokens, 1, kHashesAnEvent);
    for (std::size_t at = 0; at < event.hashes.size(); at += step) {
        const std::size_t count = std::min(step, event.hashes.size() - at);
        Stored part = event;
        part.hashes = event.hashes.subspan(at, count);
        part.tokens = event.tokens.subspan(at * event.block_tokens, count * event.block_tokens);
        part.opaque = event.opaque == nullptr ? nullptr : event.opaque + at;
        if (at > 0) {
            part.parent = event.hashes[at - 1];
        }
        one_stored(part);
    }
}

void EventWriter::one_stored(const Stored& event) {
    const Place where = place_of(event.tier);
    const bool is_salted = !event.parent && !event.salt.empty();
    const bool is_salt_too_long = is_salted && event.salt.size() > kMaxSaltBytes;
    Text out(next_event());
    Packer p(out);
    p.pack_map(where.is_remote ? 12 : 11);
    text(p, "type");
    text(p, "BlockStored");
    hashes(p, event.hashes);
    text(p, "parent_block_hash");
    if (event.parent) {
        p.pack_uint64(*event.parent);
    } else {
        p.pack_nil();
    }
    text(p, "token_ids");
    p.pack_array(static_cast<std::uint32_t>(event.tokens.size()));
    for (const std::uint32_t token : event.tokens) {
        p.pack_uint32(token);
    }
    text(p, "block_size");
    p.pack_uint32(event.block_tokens);
    text(p, "lora_id");
    p.pack_nil();
    text(p, "lora_name");
    if (event.lora.empty()) {
        p.pack_nil();
    } else {
        text(p, event.lora);
    }
    text(p, "extra_keys");
    p.pack_array(static_cast<std::uint32_t>(event.hashes.size()));
    for (std::size_t i = 0; i < event.hashes.size(); ++i) {
        const bool has_salt = i == 0 && is_salted && !is_salt_too_long;
        const bool is_opaque =
            (event.opaque != nullptr && event.opaque[i] != 0) || (i == 0 && is_salt_too_long);
        extra_keys(p, event.lora, has_salt ? event.salt : std::string_view(), is_opaque);
    }
    text(p, "kv_cache_spec_kind");
    text(p, "full_attention");  // only groups that serve a prefix look-up come here
    place(p, where, event.group);
}

void EventWriter::removed(std::span<const std::uint64_t> all, std::uint32_t tier,
                          std::uint32_t group) {
    const Place where = place_of(tier);
    for (std::size_t at = 0; at < all.size(); at += kHashesAnEvent) {
        Text out(next_event());
        Packer p(out);
        p.pack_map(where.is_remote ? 5 : 4);
        text(p, "type");
        text(p, "BlockRemoved");
        hashes(p, all.subspan(at, std::min(kHashesAnEvent, all.size() - at)));
        place(p, where, group);
    }
}

void EventWriter::cleared() {
    Text out(next_event());
    Packer p(out);
    p.pack_map(1);
    text(p, "type");
    text(p, "AllBlocksCleared");
}

std::string EventWriter::payload(double at, const Body& body) const {
    std::string out;
    out.reserve(body.events.size() + 24);
    Text sink(out);
    Packer p(sink);
    p.pack_array(3);
    p.pack_double(at);
    p.pack_array(body.count);
    out += body.events;
    p.pack_uint32(rank_);
    return out;
}

std::vector<std::string> EventWriter::take(double at) {
    std::vector<std::string> out;
    out.reserve(bodies_.size());
    for (const Body& body : bodies_) {
        out.push_back(payload(at, body));
    }
    bodies_.clear();
    return out;
}

std::string EventWriter::nothing(double at) const {
    return payload(at, {});
}

}  // namespace sluice::flow
