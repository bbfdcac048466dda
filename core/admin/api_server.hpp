// The management interface: REST under /netlox/v1, and metrics.
//
// Threads: start(), stage(), commit_staged() and stop() control. Requests run on Poco's bounded
// pool. Errors:  start() refuses a listen address off loopback without a token file, and a token
// file
//          that others can read. stage() refuses the same.
// Limits:  max_threads requests at a time; when they are taken, the oldest client that keeps its
//          thread waiting is ended for each new one. max_queued connections waiting,
//          max_per_address of one address; further ones are closed. Heads and bodies:
//          connection.hpp. A client that is slower than io_timeout between two bytes is dropped.
// Source:  the management contract's routes and envelopes; docs/operations.md lists them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/admin/knobs.hpp"
#include "core/admin/providers.hpp"
#include "core/base/result.hpp"
#include "core/rules/rule_book.hpp"

namespace sluice::admin {

struct Config {
    std::string host = "127.0.0.1";  // numeric
    std::uint16_t port = 11111;      // 0 = any free one
    std::string token_file;          // empty = open, on loopback only
    KnobValues knobs;
    std::string version = "0.1.0";
    std::string build_info;
    int max_threads = 40;
    int max_queued = 64;
    std::size_t max_per_address = 32;
    std::size_t max_body_bytes = 1U << 20U;
    std::uint32_t io_timeout_ms = 10'000;
    std::uint32_t request_timeout_ms = 30'000;  // for a whole request to arrive
};

// Whether the interface could start so: the address and the token file. Binds nothing.
Status check_config(const Config& config);

class ApiServer {
public:
    // `book` and `providers` must outlive the server.
    ApiServer(Config config, rules::RuleBook& book, Providers& providers);
    ~ApiServer();
    ApiServer(const ApiServer&) = delete;
    ApiServer& operator=(const ApiServer&) = delete;

    Status start();
    // A reload in two steps: reads token file and knobs of `next`, and takes them over. Address and
    // limits stay.
    Status stage(const Config& next);
    void commit_staged();
    // Stops accepting, lets running requests end for at most `grace_ms`.
    void stop(std::uint32_t grace_ms = 2000);
    // The port bound; 0 before start().
    std::uint16_t port() const;

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::admin
