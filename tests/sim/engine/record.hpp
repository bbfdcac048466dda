// What a simulated engine was sent, for tests to look at.
//
// Threads: any.
// Limits:  kMaxRecorded requests, the oldest give way; kMaxRecordedBody bytes of each body.
#pragma once
#include <deque>
#include <mutex>
#include <string>

#include "tests/sim/support/exchange.hpp"

namespace sluice::sim {

class Record {
public:
    static constexpr std::size_t kMaxRecorded = 256;
    static constexpr std::size_t kMaxRecordedBody = std::size_t{64} << 10U;

    // Requests of tests to the simulator itself are left out.
    void add(const http::Request& request);
    void clear();
    // A JSON array, oldest first.
    std::string json() const;

private:
    struct Entry {
        std::string method;
        std::string target;
        http::Headers headers;
        std::string body;
    };
    mutable std::mutex mu_;
    std::deque<Entry> entries_;  // guarded by mu_
};

}  // namespace sluice::sim
