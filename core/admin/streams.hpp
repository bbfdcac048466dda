// Answers without an end: event streams, all served by one thread, so that they take none of the
// pool that answers requests.
//
// Threads: owns one ("sluice-streams") while a stream is open. add() and stop() any;
//          StreamSource::next() its thread.
// Owns:    the connections it took over.
// Limits:  max_streams at a time. A stream holds at most about max_waiting_bytes that its reader
//          has not taken; a reader that takes nothing for stall_us while something waits, or that
//          its source has run past, is dropped and counted. A comment goes out every heartbeat_us
//          of silence, so that a dead client is noticed.
// Source:  text/event-stream of the HTML standard: comments begin with a colon.
#pragma once
#include <Poco/Net/StreamSocket.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "core/admin/http_value.hpp"

namespace sluice::admin {

struct StreamLimits {
    std::size_t max_streams = 8;
    std::size_t max_waiting_bytes = 64U << 10U;
    std::uint64_t stall_us = 5'000'000;
    std::uint64_t heartbeat_us = 10'000'000;
};

class Streams {
public:
    explicit Streams(StreamLimits limits = {}) : limits_(limits) {}
    ~Streams() { stop(); }
    Streams(const Streams&) = delete;
    Streams& operator=(const Streams&) = delete;

    // Answers on the connection from now on, which is otherwise in nobody's hands. False: there are
    // as many streams as there may be, or the server stops; the connection is untouched.
    bool add(const Poco::Net::StreamSocket& socket, const Response& response);
    // Ends every stream at once.
    void stop();
    std::size_t size() const;

private:
    struct Stream {
        Poco::Net::StreamSocket socket;
        std::shared_ptr<StreamSource> source;
        std::string waiting;           // to be sent
        std::uint64_t moved_us = 0;    // when the reader last took something, or had taken all
        std::uint64_t written_us = 0;  // when something was last sent
    };
    enum class Fate { Goes, Gone, Slow };

    bool reserve();
    void start(Stream stream);
    void run(const std::stop_token& token);
    Fate step(Stream& stream, std::uint64_t now) const;
    void end(Stream& stream, Fate fate);

    const StreamLimits limits_;
    mutable std::mutex mu_;
    std::condition_variable_any wake_;
    std::vector<Stream> incoming_;  // guarded by mu_
    std::size_t count_ = 0;         // guarded by mu_, live and reserved
    bool is_stopped_ = false;       // guarded by mu_
    std::jthread thread_;           // guarded by mu_ until stop()
};

// What a client hears when there are too many.
Response too_many_streams();

}  // namespace sluice::admin
