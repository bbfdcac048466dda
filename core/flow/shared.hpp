// What every worker of the data plane shares, and what each has for itself.
//
// Threads: Shared any. WorkerState its loop's.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "core/base/snapshot.hpp"
#include "core/base/thread_pool.hpp"
#include "core/flow/directory.hpp"
#include "core/flow/flow_metrics.hpp"
#include "core/flow/flow_ring.hpp"
#include "core/flow/observer.hpp"
#include "core/flow/pd_metrics.hpp"
#include "core/flow/reply_head.hpp"
#include "core/http/upstream.hpp"
#include "core/json/body.hpp"
#include "core/route/ladder.hpp"
#include "core/tokens/library.hpp"

namespace sluice::flow {

struct Shared {
    // Prompts longer than this are tokenized on the compute pool.
    static constexpr std::size_t kInlineBodyBytes = 64U << 10U;

    explicit Shared(std::filesystem::path tokenizers)
        : library(std::move(tokenizers)), compute("sluice-compute", 2, 4096) {}

    Snapshot<Directory> directory;
    // Of a prefill endpoint's reply; a longer one is not handed on. Set before any worker runs.
    std::size_t max_prefill_reply_bytes = 16U << 20U;
    // Maintenance: requests that arrive now are refused, running ones go on.
    std::atomic<bool> is_refusing_new{false};
    tokens::Library library;
    FlowRing ring;
    ThreadPool compute;  // last: its jobs use the members above
};

// Readers and prompts that exchanges borrow while they need them.
template <class T>
class Spares {
public:
    static constexpr std::size_t kMaxKept = 64;
    std::unique_ptr<T> take() {
        if (kept_.empty()) {
            return std::make_unique<T>();
        }
        auto one = std::move(kept_.back());
        kept_.pop_back();
        return one;
    }
    void give_back(std::unique_ptr<T> one) {
        if (kept_.size() < kMaxKept) {
            kept_.push_back(std::move(one));
        }
    }

private:
    std::vector<std::unique_ptr<T>> kept_;
};

// The memory of one exchange, reused by later ones so that the steady state allocates nothing.
struct Scratch {
    // What a large request made grow is let go.
    static constexpr std::size_t kKeptTokens = 64U << 10U;
    void reset();

    route::Receipt receipt;
    route::Prompt prompt;
    Observer observer;
    ReplyHead reply;
    std::string upstream_head;
    std::string first_part;                // of an answer that was read in pieces
    std::vector<std::string_view> pieces;  // the body as it goes upstream
    std::vector<std::size_t> tried;        // pool indexes that failed
};

struct WorkerState {
    WorkerState(net::Loop& worker_loop, Shared& everyone)
        : loop(worker_loop),
          shared(everyone),
          directory(everyone.directory.get()),
          upstreams(worker_loop) {}

    net::Loop& loop;
    Shared& shared;
    // Shared::directory, brought here with each change so that requests need no lock. Another one
    // may stand here after each wait.
    std::shared_ptr<const Directory> directory;
    http::UpstreamPool upstreams;
    route::Ladder ladder;
    FlowMetrics metrics;
    net::Cancel last_words;  // fired when the gateway waits no longer: exchanges end with an error
    PdMetrics pd_metrics;
    Spares<json::BodyReader> readers;
    Spares<Scratch> scratch;
};

}  // namespace sluice::flow
