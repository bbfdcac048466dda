#include "tests/sim/trtllm/event_log.hpp"

#include <utility>

#include "tests/sim/support/json.hpp"

namespace sluice::sim::trtllm {
namespace {

constexpr int kDefaultPriority = 35;

void write_tokens(json::Writer& w, const std::vector<Element>& tokens) {
    w.key("tokens").open_array();
    for (const Element& e : tokens) {
        w.open_object().field("type", "unique_token").key("token_id");
        if (const auto* token = std::get_if<TokenId>(&e)) {
            w.value(std::uint64_t{*token});
        } else {
            w.value(hex(std::get<Digest>(e)));
        }
        w.field("token_extra_id", std::uint64_t{0}).close_object();
    }
    w.close_array();
}

void write_mm_keys(json::Writer& w, const std::vector<MmKey>& keys) {
    w.key("mm_keys").open_array();
    for (const MmKey& k : keys) {
        w.open_object().field("type", "mm_key").field("hash", hex(k.hash));
        w.field("start_offset", k.start_offset).close_object();
    }
    w.close_array();
}

bool is_same(const PoolName& a, const PoolName& b) {
    return a.window == b.window && a.group == b.group;
}

}  // namespace

void EventLog::push(const PoolName& pool, const std::string& data) {
    json::Writer w;
    w.open_object().field("event_id", next_id_++).key("data").raw(data);
    w.field("window_size", std::uint64_t{pool.window});
    if (form_.manager == Manager::V2 && tells_cache_contract(form_.era)) {
        w.field("hash_algo", to_string(form_.algorithm));
        w.field("layer_group_id", std::uint64_t{pool.group});
    }
    if (form_.rank && has_dp_rank(form_.era)) {
        w.field("attention_dp_rank", std::uint64_t{*form_.rank});
    }
    ready_.push_back(w.close_object().take());
}

void EventLog::created(const PoolName& pool, std::uint64_t primary, std::uint64_t secondary) {
    json::Writer w;
    w.open_object().field("type", "created").key("num_blocks_per_cache_level").open_array();
    push(pool, w.value(primary).value(secondary).close_array().close_object().take());
}

void EventLog::stored(const PoolName& pool, const std::string& parent,
                      const std::vector<StoredBlock>& blocks,
                      const std::optional<std::string>& salt) {
    flush_removed(batches_removed(form_.era) ? &pool : nullptr);
    json::Writer w;
    w.open_object()
        .field("type", "stored")
        .key("parent_hash")
        .raw(parent.empty() ? "null" : parent);
    w.key("blocks").open_array();
    for (const StoredBlock& b : blocks) {
        w.open_object().field("type", "stored_block").key("block_hash").raw(b.hash);
        write_tokens(w, b.tokens);
        if (tells_cache_contract(form_.era)) {
            w.key("cache_salt");
            if (salt && form_.manager == Manager::V1) {
                w.value(*salt);
            } else {
                w.null();
            }
        }
        w.field("cache_level", std::int64_t{0}).field("priority", std::int64_t{kDefaultPriority});
        if (has_mm_keys(form_.era)) {
            write_mm_keys(w, form_.manager == Manager::V1 ? b.mm_keys : std::vector<MmKey>());
        }
        w.close_object();
    }
    push(pool, w.close_array().close_object().take());
}

void EventLog::removed(const PoolName& pool, std::string hash) {
    for (std::size_t i = removed_.size(); i-- > 0;) {
        if (is_same(removed_[i].pool, pool)) {
            removed_[i].hashes.push_back(std::move(hash));
            return;
        }
        if (!batches_removed(form_.era)) {
            break;  // only adjacent ones
        }
    }
    removed_.push_back({pool, {std::move(hash)}});
}

void EventLog::updated(const PoolName& pool, const std::string& hash, int old_level,
                       int new_level) {
    flush_removed(batches_removed(form_.era) ? &pool : nullptr);
    json::Writer w;
    w.open_object().field("type", "updated").key("block_hash").raw(hash);
    w.key("cache_level").open_object().field("type", "event_diff");
    w.field("new_value", std::int64_t{new_level}).field("old_value", std::int64_t{old_level});
    push(pool, w.close_object().null_field("priority").close_object().take());
}

// Numbers the evictions of one pool, or of all.
void EventLog::flush_removed(const PoolName* only) {
    std::vector<Batch> kept;
    for (Batch& b : std::exchange(removed_, {})) {
        if (only != nullptr && !is_same(b.pool, *only)) {
            kept.push_back(std::move(b));
            continue;
        }
        json::Writer w;
        w.open_object().field("type", "removed").key("block_hashes").open_array();
        for (const std::string& h : b.hashes) {
            w.raw(h);
        }
        push(b.pool, w.close_array().close_object().take());
    }
    removed_ = std::move(kept);
}

void EventLog::flush() {
    flush_removed(nullptr);
    if (!ready_.empty()) {
        ring_.append(std::exchange(ready_, {}));
    }
}

}  // namespace sluice::sim::trtllm
