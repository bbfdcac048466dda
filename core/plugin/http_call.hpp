// One HTTP exchange a plugin asked for, and who runs them all.
//
// Threads: event, all of it.
// Errors:  the transport's outcome is a sluice_status in the result; done runs exactly once unless
//          the call was cancelled, and never inside start().
// Limits:  a deadline and a body limit for each call; no redirects, no retries: some requests to
//          engines are destructive.
#pragma once
#include <sluice/sdk/net.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/http/upstream.hpp"
#include "core/net/address.hpp"
#include "core/net/cancel.hpp"
#include "core/net/task.hpp"

namespace sluice::plugin {

class EventThread;

struct HttpSpec {
    net::Address to;
    std::string head;  // request line and fields, complete
    std::string body;
    std::uint64_t deadline_us = 0;
    std::size_t max_body_bytes = 0;
};

struct HttpOutcome {
    sluice_status status = SLUICE_OK;
    std::uint32_t code = 0;
    std::vector<std::pair<std::string, std::string>> headers;
    std::string body;
    std::uint64_t elapsed_us = 0;
};

class HttpCall {
public:
    using Done = std::function<void(const HttpOutcome&)>;
    HttpCall(HttpSpec spec, Done done);
    // Nothing is told any more; the connection is closed.
    void cancel() noexcept;

private:
    friend class HttpCaller;
    HttpSpec spec_;
    Done done_;
    std::uint64_t begin_us_;
    net::Cancel cancel_;
    bool is_cancelled_ = false;
};

class HttpCaller {
public:
    explicit HttpCaller(EventThread& events) : events_(events) {}
    ~HttpCaller();

    void open();
    // Ends every exchange without a word.
    void close();
    void start(std::shared_ptr<HttpCall> call);

private:
    net::Task<void> run(std::shared_ptr<HttpCall> call);
    net::Task<Status> exchange(HttpCall& call, HttpOutcome& out);

    EventThread& events_;
    std::unique_ptr<http::UpstreamPool> pool_;
    std::unique_ptr<net::TaskGroup> tasks_;
};

sluice_status to_status(const Error& error) noexcept;

}  // namespace sluice::plugin
