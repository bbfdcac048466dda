// Any sequence of batches, reports and resets leaves the index consistent with its own numbers.
//
// Input: a stream of bytes read as operations; short of bytes, zeros follow.
#include <sluice/sdk/kv.h>

#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "core/kv/index.hpp"

namespace {

using namespace sluice::kv;

class Bytes {
public:
    explicit Bytes(std::span<const std::uint8_t> in) : in_(in) {}
    bool empty() const { return in_.empty(); }
    std::uint32_t next() {
        if (in_.empty()) {
            return 0;
        }
        const std::uint8_t b = in_[0];
        in_ = in_.subspan(1);
        return b;
    }

private:
    std::span<const std::uint8_t> in_;
};

constexpr std::uint64_t kBound = 24;

void check(const Index& index) {
    std::uint64_t total = 0;
    for (const HolderStats& s : index.stats()) {
        total += s.total_blocks;
        if (s.gpu_blocks > s.total_blocks) {
            std::abort();
        }
    }
    if (total > kBound || index.list(1, 1000).size() > total) {
        std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Bytes in({data, size});
    Index index{IndexOptions{.max_blocks_per_endpoint = kBound, .engine_keys = in.next() % 4 == 3}};
    if (!index.attach(1, 2)) {
        std::abort();
    }
    MatchSet out;
    while (!in.empty()) {
        const std::uint32_t op = in.next();
        const std::uint32_t rank = op >> 6 & 1U;
        if (op % 16 == 0) {
            index.reset(1, rank);
            continue;
        }
        if (op % 16 == 1) {
            sluice_kv_report report{};
            report.size = sizeof report;
            report.endpoint = 1;
            report.dp_rank = rank;
            report.state = in.next() % 8;
            index.report(report);
            continue;
        }
        const std::uint32_t shape = in.next();
        std::vector<std::uint64_t> hashes(shape % 5);
        std::vector<std::uint8_t> opaque(hashes.size());
        std::vector<std::uint32_t> tokens(shape >> 3 & 7U);
        for (auto& h : hashes) {
            h = in.next() % 64;
        }
        for (auto& o : opaque) {
            o = in.next() % 8 == 7;
        }
        for (auto& t : tokens) {
            t = in.next() % 3;
        }
        sluice_kv_event e{};
        e.size = sizeof e;
        e.type = op % 16 < 11 ? std::uint32_t{SLUICE_KV_STORED} : op % 4;
        e.flags = in.next();
        e.tier = in.next() % 8 == 0 ? in.next() : 1 + in.next() % 4;
        e.group = in.next() % 8 == 0 ? in.next() : 0;
        e.block_tokens = in.next() % 4;
        e.num_hashes = static_cast<std::uint32_t>(hashes.size());
        e.hashes = hashes.data();
        e.num_tokens = static_cast<std::uint32_t>(tokens.size());
        e.tokens = tokens.data();
        e.opaque = opaque.empty() ? nullptr : opaque.data();
        e.parent = in.next() % 64;
        sluice_kv_batch batch{};
        batch.size = sizeof batch;
        batch.dp_rank = rank;
        batch.endpoint = 1;
        batch.events = {&e, 1, sizeof e};
        std::uint32_t unplaced = 0;
        if (index.apply(batch, &unplaced) && unplaced > e.num_hashes) {
            std::abort();
        }
        index.match_prompt(root_key({}, {}), tokens, 1, out);
        for (const Match& m : out.matches()) {
            if (m.endpoint != 1 || m.rank > 1 || m.gpu_blocks > m.blocks ||
                m.blocks + m.doubtful_blocks > tokens.size()) {
                std::abort();
            }
        }
        check(index);
    }
    return 0;
}
