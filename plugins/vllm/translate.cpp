#include "plugins/vllm/translate.hpp"

#include <algorithm>
#include <array>

namespace sluice::vllm {

namespace {

bool same_letters(std::string_view a, std::string_view b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
        const auto lower = [](char c) {
            return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
        };
        return lower(x) == lower(y);
    });
}

bool is_text(const ExtraKey& key, std::string_view text) {
    return key.kind == ExtraKey::Kind::Text && key.text == text;
}

}  // namespace

std::uint32_t tier_of(const Event& event) noexcept {
    if (event.locality && same_letters(*event.locality, "remote")) {
        return SLUICE_TIER_REMOTE;
    }
    if (!event.medium) {
        return SLUICE_TIER_GPU;
    }
    struct Named {
        std::string_view medium;
        std::uint32_t tier;
    };
    static constexpr std::array kMedia{
        Named{"gpu", SLUICE_TIER_GPU}, Named{"cpu", SLUICE_TIER_HOST},
        Named{"storage", SLUICE_TIER_DISK}, Named{"fs", SLUICE_TIER_DISK},
        Named{"obj", SLUICE_TIER_REMOTE}};
    for (const Named& n : kMedia) {
        if (same_letters(n.medium, *event.medium)) {
            return n.tier;
        }
    }
    return 0;
}

bool serves_lookup(std::string_view kind) noexcept {
    return kind == "full_attention" || kind == "mla_attention" || kind == "sink_full_attention";
}

Reading read_keys(const Event& event) {
    Reading out;
    const std::size_t hashes = event.hashes.size();
    const auto hide = [&](std::size_t i) {
        out.opaque.resize(hashes, 0);
        out.opaque[i] = 1;
    };
    const bool adapter_unnamed = !event.lora_name && event.lora_id;
    out.lora = event.lora_name.value_or("");
    if (adapter_unnamed) {
        // Before 0.14 events give the adapter's number alone; its name may still be the first key.
        const bool named = event.extra_keys.size() == hashes && hashes > 0 &&
                           !event.extra_keys[0].empty() &&
                           event.extra_keys[0][0].kind == ExtraKey::Kind::Text;
        if (!named) {
            out.opaque.assign(hashes, 1);
            return out;
        }
        out.lora = event.extra_keys[0][0].text;
    }
    if (event.extra_keys.empty()) {
        if (!out.lora.empty() && event.has_extra_keys) {
            // An adapter's blocks without its key: these hashes are not what they seem.
            out.opaque.assign(hashes, 1);
        }
        return out;
    }
    if (event.extra_keys.size() != hashes) {
        out.opaque.assign(hashes, 1);
        return out;
    }
    for (std::size_t i = 0; i < hashes; ++i) {
        const BlockKeys& keys = event.extra_keys[i];
        std::size_t used = 0;
        if (!out.lora.empty()) {
            if (keys.empty() || !is_text(keys[0], out.lora)) {
                hide(i);
                continue;
            }
            used = 1;
        }
        const bool starts_prompt = i == 0 && !event.parent;
        if (starts_prompt && keys.size() == used + 1 && keys[used].kind == ExtraKey::Kind::Text) {
            out.salt = keys[used].text;
            ++used;
        }
        if (used != keys.size()) {
            hide(i);
        }
    }
    return out;
}

Translated Translator::translate(const Batch& batch) {
    Translated out;
    out.events.reserve(batch.events.size());
    for (const Event& event : batch.events) {
        if (event.kind == EventKind::Cleared) {
            sluice_kv_event e{};
            e.size = sizeof e;
            e.type = SLUICE_KV_CLEARED;
            e.tier = SLUICE_TIER_GPU;
            e.group = SLUICE_ANY;
            out.events.push_back(e);
            out.cleared = true;
            continue;
        }
        if (event.hashes.empty()) {
            continue;
        }
        const std::uint32_t tier = tier_of(event);
        if (tier == 0) {
            out.unknown_medium += event.hashes.size();
            continue;
        }
        if (!group_serves(event)) {
            out.not_lookup += event.hashes.size();
            continue;
        }
        has_other_tiers_ = has_other_tiers_ || tier != SLUICE_TIER_GPU;
        if (event.kind == EventKind::Stored) {
            stored(event, out);
            continue;
        }
        sluice_kv_event e{};
        e.size = sizeof e;
        e.type = SLUICE_KV_REMOVED;
        e.flags = SLUICE_KV_COPIES;
        e.tier = tier;
        e.group = event.group.value_or(0);
        e.hashes = event.hashes.data();
        e.num_hashes = static_cast<std::uint32_t>(event.hashes.size());
        out.events.push_back(e);
    }
    return out;
}

void Translator::stored(const Event& event, Translated& out) {
    const std::uint32_t tier = tier_of(event);
    const bool whole = event.product_holds();
    if (tier == SLUICE_TIER_GPU && whole && !learn_block_size(event)) {
        out.partial += event.hashes.size();
        return;
    }
    sluice_kv_event e{};
    e.size = sizeof e;
    e.type = SLUICE_KV_STORED;
    e.flags = SLUICE_KV_COPIES;
    e.tier = tier;
    e.group = event.group.value_or(0);
    e.block_tokens = event.block_size;
    e.num_hashes = static_cast<std::uint32_t>(event.hashes.size());
    e.hashes = event.hashes.data();
    e.num_tokens = static_cast<std::uint32_t>(event.tokens.size());
    e.tokens = event.tokens.data();
    if (event.parent) {
        e.flags |= SLUICE_KV_HAS_PARENT;
        e.parent = *event.parent;
    }
    const Reading& reading = out.readings.emplace_back(read_keys(event));
    e.lora = borrow(reading.lora);
    e.salt = borrow(reading.salt);
    e.opaque = reading.opaque.empty() ? nullptr : reading.opaque.data();
    if (tier == SLUICE_TIER_GPU && whole && !event.parent) {
        out.roots.push_back({out.events.size(), &event});
    }
    out.events.push_back(e);
}

// False: the event's block is another size than this rank's blocks, a partial entry of a hybrid
// model.
bool Translator::learn_block_size(const Event& event) {
    const bool single = event.hashes.size() == 1;
    if (block_tokens_ == 0 || (is_tentative_ && !single)) {
        block_tokens_ = event.block_size;
        is_tentative_ = single;
        return true;
    }
    if (is_tentative_ && event.block_size > block_tokens_) {
        block_tokens_ = event.block_size;
    }
    return event.block_size == block_tokens_;
}

bool Translator::group_serves(const Event& event) {
    const std::uint32_t group = event.group.value_or(0);
    if (event.spec_kind) {
        const bool serves = serves_lookup(*event.spec_kind);
        if (groups_.size() < kMaxGroups || groups_.contains(group)) {
            groups_[group] = serves;
        }
        return serves;
    }
    // Removals name no kind: what the group stored decides; without any word only group 0 serves.
    const auto known = groups_.find(group);
    return known != groups_.end() ? known->second : group == 0;
}

}  // namespace sluice::vllm
