// The published batches of one stream: numbered from 0, and kept as far as the bounds reach, for
// the thread that sends them and for readers that ask again.
//
// It is the queue between the two threads, too: what the sender has not read when it falls out of
// the bounds is never sent, which readers notice by its number.
//
// Threads: append() and burn() event; the rest any.
// Errors:  none.
// Limits:  kMaxBatches and max_bytes; a batch over max_bytes is not kept at all.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace sluice::flow {

class EventLog {
public:
    static constexpr std::size_t kMaxBatches = 10'000;
    static constexpr std::size_t kMaxBytes = 64U << 20U;
    static constexpr std::size_t kBatchOverhead = 128;  // counted with each payload

    struct Batch {
        std::uint64_t seq = 0;
        std::shared_ptr<const std::string> payload;
    };
    struct Usage {
        std::uint64_t next = 0;  // the number of the next batch
        std::size_t batches = 0;
        std::size_t bytes = 0;
        std::uint64_t published = 0;  // ever; burned numbers do not count
        std::uint64_t dropped = 0;    // fell out of the bounds, sent or not
        std::uint64_t burned = 0;
    };

    explicit EventLog(std::size_t max_batches = kMaxBatches, std::size_t max_bytes = kMaxBytes)
        : max_batches_(max_batches), max_bytes_(max_bytes) {}

    void append(std::string payload);
    // A number that no batch will ever have: readers know that something is missing.
    void burn();
    // Batches from number `from` on, oldest first: at least one if there is any, then as many as
    // fit `max_bytes`.
    std::vector<Batch> read(std::uint64_t from, std::size_t max_batches,
                            std::size_t max_bytes) const;
    std::uint64_t next() const;
    Usage usage() const;

private:
    const std::size_t max_batches_;
    const std::size_t max_bytes_;
    mutable std::mutex mu_;
    std::deque<Batch> batches_;  // guarded by mu_, by number
    Usage usage_;                // guarded by mu_
};

using EventLogPtr = std::shared_ptr<EventLog>;

}  // namespace sluice::flow
