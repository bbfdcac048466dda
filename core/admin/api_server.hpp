// The management interface: REST under /netlox/v1, and metrics.
//
// Threads: start() and stop() control. Requests run on Poco's bounded pool.
// Errors:  start() refuses a listen address off loopback without a token file, and a token file
//          that others can read.
// Limits:  max_threads requests at a time, max_queued connections waiting; further ones are closed.
//          A request head of 64 KiB, a body of max_body_bytes; a client that is slower than
//          io_timeout between two reads is dropped.
// Source:  the management contract's routes and envelopes; docs/operations.md lists them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/admin/providers.hpp"
#include "core/base/result.hpp"
#include "core/rules/rule_book.hpp"

namespace sluice::admin {

struct Config {
    std::string host = "127.0.0.1";  // numeric
    std::uint16_t port = 11111;      // 0 = any free one
    std::string token_file;          // empty = open, on loopback only
    std::string version = "0.1.0";
    std::string build_info;
    int max_threads = 8;
    int max_queued = 64;
    std::size_t max_body_bytes = 1U << 20U;
    std::uint32_t io_timeout_ms = 10'000;
    std::uint32_t request_timeout_ms = 30'000;  // for a whole request to arrive
};

class ApiServer {
public:
    // `book` and `providers` must outlive the server.
    ApiServer(Config config, rules::RuleBook& book, Providers& providers);
    ~ApiServer();
    ApiServer(const ApiServer&) = delete;
    ApiServer& operator=(const ApiServer&) = delete;

    Status start();
    // Stops accepting, lets running requests end for at most `grace_ms`.
    void stop(std::uint32_t grace_ms = 2000);
    // The port bound; 0 before start().
    std::uint16_t port() const;

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::admin
