// The block index against its budgets: blocks applied a second, look-ups, bytes a holder-block.
//
//   bench-kv [holder-blocks]      default 10,000,000
//
// Beside it runs the obvious design: hash maps of the standard library under a shared mutex.
// Times are CPU time of the thread, so that neighbours on the machine count little. Prompts are
// looked up in random order over the whole index: caches are as cold as in service, but for
// the row with 64 holders of each block, whose index is small enough to stay in them.
#include <malloc.h>
#include <sluice/sdk/kv.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "core/kv/index.hpp"

namespace {

using namespace sluice::kv;

constexpr std::uint32_t kBlockTokens = 16;

double cpu_s() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double rss_bytes() {
    std::ifstream statm("/proc/self/statm");
    double size = 0;
    double resident = 0;
    statm >> size >> resident;
    return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

std::uint64_t mixed(std::uint64_t v) {
    v = (v ^ v >> 30) * 0xBF58476D1CE4E5B9ULL;
    v = (v ^ v >> 27) * 0x94D049BB133111EBULL;
    return v ^ v >> 31;
}

// Prompt `number`, `blocks` long; hashes and tokens follow from the number.
struct Prompt {
    std::vector<std::uint64_t> hashes;
    std::vector<std::uint32_t> tokens;
};

Prompt prompt(std::uint64_t number, std::size_t blocks) {
    Prompt p;
    for (std::size_t b = 0; b < blocks; ++b) {
        p.hashes.push_back(mixed(number << 12 | b) | 1);
        for (std::uint32_t t = 0; t < kBlockTokens; ++t) {
            p.tokens.push_back(
                static_cast<std::uint32_t>(mixed((number * 977 + b) * 16 + t) % 150'000));
        }
    }
    return p;
}

std::vector<Key> keys_of(std::uint64_t number, std::size_t blocks) {
    std::vector<Key> keys;
    chain(root_key({}, {}), prompt(number, blocks).tokens, kBlockTokens, keys);
    return keys;
}

// Batches of a few events each, made before the clock starts.
class Feed {
public:
    void stored(const Prompt& p) {
        sluice_kv_event e = event(SLUICE_KV_STORED, p);
        e.num_tokens = static_cast<std::uint32_t>(p.tokens.size());
        e.tokens = p.tokens.data();
        e.block_tokens = kBlockTokens;
        events_.push_back(e);
    }
    void stored_one(const Prompt& p, std::uint32_t at) {
        sluice_kv_event e = event(SLUICE_KV_STORED, p);
        e.num_hashes = 1;
        e.hashes = p.hashes.data() + at;
        e.tokens = p.tokens.data() + at * kBlockTokens;
        e.num_tokens = e.block_tokens = kBlockTokens;
        if (at > 0) {
            e.flags |= SLUICE_KV_HAS_PARENT;
            e.parent = p.hashes[at - 1];
        }
        events_.push_back(e);
    }
    // As engines evict: one hash an event.
    void removed(const Prompt& p) {
        for (std::uint32_t i = 0; i < p.hashes.size(); ++i) {
            sluice_kv_event e = event(SLUICE_KV_REMOVED, p);
            e.num_hashes = 1;
            e.hashes = p.hashes.data() + i;
            events_.push_back(e);
        }
    }
    // Applies all of it to one endpoint, some events a batch, and starts over.
    template <class I>
    void run(I& index, std::uint64_t endpoint, std::size_t events_a_batch) {
        for (std::size_t i = 0; i < events_.size(); i += events_a_batch) {
            sluice_kv_batch batch{};
            batch.size = sizeof batch;
            batch.endpoint = endpoint;
            batch.events = {
                &events_[i],
                static_cast<std::uint32_t>(std::min(events_a_batch, events_.size() - i)),
                sizeof(sluice_kv_event)};
            if (!index.apply(batch)) {
                std::fprintf(stderr, "batch refused\n");
                std::exit(1);
            }
        }
        events_.clear();
    }

private:
    static sluice_kv_event event(std::uint32_t type, const Prompt& p) {
        sluice_kv_event e{};
        e.size = sizeof e;
        e.type = type;
        e.flags = SLUICE_KV_COPIES;
        e.tier = SLUICE_TIER_GPU;
        e.num_hashes = static_cast<std::uint32_t>(p.hashes.size());
        e.hashes = p.hashes.data();
        return e;
    }
    std::vector<sluice_kv_event> events_;
};

// The peer: what one writes first. One rank an endpoint, GPU only.
class Plain {
public:
    bool apply(const sluice_kv_batch& batch) {
        const std::unique_lock lock(mu_);
        auto& mine = engines_[batch.endpoint];
        for (std::uint32_t i = 0; i < batch.events.count; ++i) {
            const auto& e = *SLUICE_AT(sluice_kv_event, batch.events, i);
            Key key = (e.flags & SLUICE_KV_HAS_PARENT) != 0 ? mine[e.parent].key : root_key({}, {});
            for (std::uint32_t h = 0; h < e.num_hashes; ++h) {
                if (e.type == SLUICE_KV_STORED) {
                    key = next_key(key, {e.tokens + h * kBlockTokens, kBlockTokens});
                    auto& block = mine[e.hashes[h]];
                    block.key = key;
                    if (block.copies++ == 0) {
                        holders_[key].push_back(static_cast<std::uint32_t>(batch.endpoint));
                    }
                } else if (const auto it = mine.find(e.hashes[h]); it != mine.end()) {
                    if (--it->second.copies == 0) {
                        const auto at = holders_.find(it->second.key);
                        std::erase(at->second, static_cast<std::uint32_t>(batch.endpoint));
                        if (at->second.empty()) {
                            holders_.erase(at);
                        }
                        mine.erase(it);
                    }
                }
            }
        }
        return true;
    }
    std::size_t match(const std::vector<Key>& query) {
        const std::shared_lock lock(mu_);
        std::size_t total = 0;
        left_.clear();
        for (std::size_t i = 0; i < query.size(); ++i) {
            const auto it = holders_.find(query[i]);
            if (it == holders_.end()) {
                break;
            }
            if (i == 0) {
                left_ = it->second;
            } else {
                std::erase_if(left_, [&](std::uint32_t id) {
                    return std::find(it->second.begin(), it->second.end(), id) == it->second.end();
                });
            }
            total += left_.size();
        }
        return total;
    }

private:
    struct Block {
        Key key = 0;
        std::uint32_t copies = 0;
    };
    std::shared_mutex mu_;
    std::unordered_map<Key, std::vector<std::uint32_t>> holders_;
    std::unordered_map<std::uint64_t, std::unordered_map<std::uint64_t, Block>> engines_;
    std::vector<std::uint32_t> left_;
};

constexpr std::size_t kPromptBlocks = 32;
constexpr std::uint64_t kEndpoints = 16;
constexpr std::size_t kRound = 256;  // prompts made, then applied

// Prompt n is held by endpoint n % kEndpoints.
template <class I>
void fill_and_churn(const char* name, I& index, std::uint64_t blocks) {
    const double rss = rss_bytes();
    const std::uint64_t prompts = blocks / kPromptBlocks;
    Feed feed;
    double used = 0;
    const auto timed = [&](std::uint64_t endpoint, std::size_t events_a_batch) {
        const double t = cpu_s();
        feed.run(index, endpoint, events_a_batch);
        used += cpu_s() - t;
    };
    for (std::uint64_t from = 0; from < prompts; from += kRound * kEndpoints) {
        for (std::uint64_t ep = 0; ep < kEndpoints; ++ep) {
            std::vector<Prompt> made;
            for (std::uint64_t n = from + ep; n < std::min(from + kRound * kEndpoints, prompts);
                 n += kEndpoints) {
                made.push_back(prompt(n, kPromptBlocks));
            }
            for (const Prompt& p : made) {
                feed.stored(p);
            }
            timed(ep, 4);
        }
    }
    std::printf("%-7s fill    %6.2f M blocks/s   events of %zu blocks, from empty to %.1f M\n",
                name, static_cast<double>(prompts * kPromptBlocks) / used * 1e-6, kPromptBlocks,
                static_cast<double>(blocks) * 1e-6);
    std::printf("%-7s memory  %6.1f B a holder-block by resident set\n", name,
                (rss_bytes() - rss) / static_cast<double>(blocks));

    // Full engines: each new prompt evicts an old one, block by block.
    for (const bool one_by_one : {false, true}) {
        used = 0;
        std::uint64_t done = 0;
        const std::uint64_t first = prompts + (one_by_one ? kRound * kEndpoints * 2 : 0);
        for (std::uint64_t from = 0; from < kRound * kEndpoints * 2; from += kRound * kEndpoints) {
            for (std::uint64_t ep = 0; ep < kEndpoints; ++ep) {
                std::vector<Prompt> made;
                std::vector<Prompt> old;
                for (std::uint64_t n = from + ep; n < from + kRound * kEndpoints; n += kEndpoints) {
                    made.push_back(prompt((first + kEndpoints - 1) / kEndpoints * kEndpoints + n,
                                          kPromptBlocks));
                    old.push_back(prompt(first - prompts + n, kPromptBlocks));
                }
                for (std::size_t i = 0; i < made.size(); ++i) {
                    if (one_by_one) {
                        for (std::uint32_t b = 0; b < kPromptBlocks; ++b) {
                            feed.stored_one(made[i], b);
                        }
                    } else {
                        feed.stored(made[i]);
                    }
                    feed.removed(old[i]);
                    done += 2 * kPromptBlocks;
                }
                timed(ep, one_by_one ? 2 * kPromptBlocks : 1 + kPromptBlocks);
            }
        }
        std::printf("%-7s churn   %6.2f M blocks/s   stored in events of %zu, removed one by one\n",
                    name, static_cast<double>(done) / used * 1e-6,
                    one_by_one ? std::size_t{1} : kPromptBlocks);
    }
}

template <class F>
double ns_each(const std::vector<std::vector<Key>>& queries, F&& look_up) {
    const double t = cpu_s();
    for (const auto& q : queries) {
        look_up(q);
    }
    return (cpu_s() - t) * 1e9 / static_cast<double>(queries.size());
}

// Prompts that are still held after the churn.
std::vector<std::vector<Key>> queries_of(std::uint64_t blocks, std::size_t length, std::size_t n,
                                         bool held) {
    std::mt19937_64 rng(5);
    const std::uint64_t gone = kRound * kEndpoints * 4;
    const std::uint64_t prompts = blocks / kPromptBlocks;
    std::vector<std::vector<Key>> out;
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint64_t number =
            held ? gone + rng() % (prompts - gone) : (std::uint64_t{1} << 40) + rng() % 1'000'000;
        out.push_back(keys_of(number, length));
    }
    return out;
}

template <class F>
void look_ups(const char* name, std::uint64_t blocks, F&& look_up) {
    for (const std::size_t length : {std::size_t{1}, kPromptBlocks}) {
        const auto queries = queries_of(blocks, length, 100'000 / length, true);
        std::printf("%-7s look-up %6.0f ns          %zu blocks, one holder\n", name,
                    ns_each(queries, look_up), length);
    }
    const auto misses = queries_of(blocks, kPromptBlocks, 20'000, false);
    std::printf("%-7s look-up %6.0f ns          nobody has the first block\n", name,
                ns_each(misses, look_up));
}

template <class I, class F>
void shared(const char* name, I& index, std::uint64_t prompts, F&& look_up) {
    constexpr std::size_t kLong = 128;
    constexpr std::uint64_t kMany = 64;
    const double rss = rss_bytes();
    Feed feed;
    double used = 0;
    for (std::uint64_t n = 0; n < prompts; ++n) {
        const Prompt p = prompt(n, kLong);
        for (std::uint64_t ep = 0; ep < kMany; ++ep) {
            feed.stored(p);
            const double t = cpu_s();
            feed.run(index, 1000 + ep, 1);
            used += cpu_s() - t;
        }
    }
    const double held = static_cast<double>(prompts * kLong * kMany);
    std::printf("%-7s fill    %6.2f M blocks/s   %zu holders of each block\n", name,
                held / used * 1e-6, static_cast<std::size_t>(kMany));
    std::printf("%-7s memory  %6.1f B a holder-block by resident set\n", name,
                (rss_bytes() - rss) / held);
    std::vector<std::vector<Key>> queries;
    std::mt19937_64 rng(6);
    for (int i = 0; i < 4'000; ++i) {
        queries.push_back(keys_of(rng() % prompts, kLong));
    }
    std::printf("%-7s look-up %6.0f ns          128 blocks, 64 holders\n", name,
                ns_each(queries, look_up));
}

}  // namespace

int main(int argc, char** argv) {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    const std::uint64_t blocks =
        argc > 1 ? std::strtoull(argv[1], nullptr, 10) : std::uint64_t{10'000'000};
    if (blocks < 5'000'000) {
        std::fprintf(stderr, "at least 5000000 holder-blocks\n");
        return 2;
    }
    std::size_t found = 0;
    {
        Index index{IndexOptions{.max_blocks_per_endpoint = kMaxMaxBlocks}};
        for (std::uint64_t ep = 0; ep < kEndpoints; ++ep) {
            (void)index.attach(ep, 1);  // cannot fail: sixteen ranks
        }
        fill_and_churn("sluice", index, blocks);
        const MemoryUse m = index.memory();
        std::printf("sluice  memory  %6.1f B a holder-block in the index, %.1f for engine hashes\n",
                    static_cast<double>(m.index_bytes) / static_cast<double>(blocks),
                    static_cast<double>(m.engine_hash_bytes) / static_cast<double>(blocks));
        MatchSet out;
        look_ups("sluice", blocks, [&](const std::vector<Key>& q) {
            index.match(q, out);
            found += out.matches().size();
        });
    }
    {
        Index index{IndexOptions{.max_blocks_per_endpoint = kMaxMaxBlocks}};
        for (std::uint64_t ep = 0; ep < 64; ++ep) {
            (void)index.attach(1000 + ep, 1);  // cannot fail: 64 ranks
        }
        MatchSet out;
        const std::uint64_t prompts = blocks / 128 / 64;
        shared("sluice", index, prompts, [&](const std::vector<Key>& q) {
            index.match(q, out);
            found += out.matches().size();
        });
        const MemoryUse m = index.memory();
        const double held = static_cast<double>(prompts * 128 * 64);
        std::printf("sluice  memory  %6.1f B a holder-block in the index, %.1f for engine hashes\n",
                    static_cast<double>(m.index_bytes) / held,
                    static_cast<double>(m.engine_hash_bytes) / held);
    }
    malloc_trim(0);
    {
        const std::uint64_t fewer = blocks / 5;
        auto plain = std::make_unique<Plain>();
        fill_and_churn("plain", *plain, fewer);
        look_ups("plain", fewer, [&](const std::vector<Key>& q) { found += plain->match(q); });
        plain = std::make_unique<Plain>();
        shared("plain", *plain, fewer / 128 / 64,
               [&](const std::vector<Key>& q) { found += plain->match(q); });
    }
    std::printf("(%zu matches)\n", found);
    return 0;
}
