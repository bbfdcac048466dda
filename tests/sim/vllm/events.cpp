#include "tests/sim/vllm/events.hpp"

#include <algorithm>
#include <msgpack.hpp>
#include <string_view>

namespace sluice::sim::vllm {
namespace {

using Packer = msgpack::packer<msgpack::sbuffer>;

class Encoder {
public:
    Encoder(Packer& out, EventEncoding encoding, HashForm form)
        : out_(out), is_map_(encoding == EventEncoding::Map), form_(form) {}

    void operator()(const BlockStored& e) {
        // A map leaves out what is unset and has no business being there; an array never shrinks.
        begin("BlockStored", is_map_ ? (e.session_id.empty() ? 11 : 12) : 9);
        name("block_hashes");
        out_.pack_array(size(e.hashes));
        std::for_each(e.hashes.begin(), e.hashes.end(), [this](const Digest& d) { hash(d); });
        name("parent_block_hash");
        if (e.parent) {
            hash(*e.parent);
        } else {
            out_.pack_nil();
        }
        name("token_ids");
        out_.pack(e.tokens);
        name("block_size");
        out_.pack(e.block_size);
        name("lora_id");
        if (e.lora_id) {
            out_.pack(*e.lora_id);
        } else {
            out_.pack_nil();
        }
        name("medium");
        text("GPU");
        name("lora_name");
        if (e.lora_name.empty()) {
            out_.pack_nil();
        } else {
            text(e.lora_name);
        }
        name("extra_keys");
        extra(e);
        if (is_map_) {
            group();
            name("kv_cache_spec_kind");
            text("full_attention");
            if (!e.session_id.empty()) {
                name("session_id");
                text(e.session_id);
            }
        }
    }

    void operator()(const BlockRemoved& e) {
        begin("BlockRemoved", is_map_ ? 4 : 3);
        name("block_hashes");
        out_.pack_array(1);
        hash(e.hash);
        name("medium");
        text("GPU");
        if (is_map_) {
            group();
        }
    }

    void operator()(const AllBlocksCleared&) { begin("AllBlocksCleared", 1); }

private:
    template <class C>
    static std::uint32_t size(const C& c) {
        return static_cast<std::uint32_t>(c.size());
    }
    void text(std::string_view s) {
        out_.pack_str(size(s));
        out_.pack_str_body(s.data(), size(s));
    }
    void name(std::string_view key) {
        if (is_map_) {
            text(key);
        }
    }
    // `fields` counts the tag.
    void begin(std::string_view tag, std::uint32_t fields) {
        if (is_map_) {
            out_.pack_map(fields);
            text("type");
        } else {
            out_.pack_array(fields);
        }
        text(tag);
    }
    void group() {
        name("group_idx");
        out_.pack(0);
    }
    void hash(const Digest& d) {
        if (form_ == HashForm::Integer) {
            out_.pack(low_64(d));
        } else {
            out_.pack_bin(size(d));
            out_.pack_bin_body(reinterpret_cast<const char*>(d.data()), size(d));
        }
    }
    void extra(const BlockStored& e) {
        const bool has_any = std::any_of(e.extra_keys.begin(), e.extra_keys.end(),
                                         [](const auto& keys) { return !keys.empty(); });
        if (!is_map_ && !has_any) {
            out_.pack_nil();
            return;
        }
        out_.pack_array(size(e.extra_keys));
        for (const auto& keys : e.extra_keys) {
            if (keys.empty()) {
                out_.pack_nil();
                continue;
            }
            out_.pack_array(size(keys));
            std::for_each(keys.begin(), keys.end(), [this](const auto& k) { text(k); });
        }
    }

    Packer& out_;
    bool is_map_;
    HashForm form_;
};

}  // namespace

std::string encode_batch(double timestamp_s, const std::vector<KvEvent>& events, int rank,
                         EventEncoding encoding, HashForm form) {
    msgpack::sbuffer buffer;
    Packer out(buffer);
    out.pack_array(3);
    out.pack(timestamp_s);
    out.pack_array(static_cast<std::uint32_t>(events.size()));
    Encoder encoder(out, encoding, form);
    for (const KvEvent& e : events) {
        std::visit(encoder, e);
    }
    out.pack(rank);
    return {buffer.data(), buffer.size()};
}

}  // namespace sluice::sim::vllm
