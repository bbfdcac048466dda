// What instances share: the event thread, the ZMQ thread, the thread for teardown, the sink.
//
// Start order: Runtime::start(), then instances. Stop order: drop every instance, attachment and
// selector view, then Runtime::stop().
//
// Threads: start() and stop() control; the rest any.
// Owns:    threads "sluice-event", "sluice-zmq", "sluice-control".
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/plugin/engine_sink.hpp"
#include "core/plugin/event_thread.hpp"

namespace sluice::plugin {

class AttachmentBook;
class ControlQueue;
class HostContext;
class HttpCaller;
class ZmqThread;

struct RuntimeOptions {
    std::uint64_t http_timeout_us = 5'000'000;     // where a call names none
    std::size_t http_max_body_bytes = 16U << 20U;  // where a call names none
    std::uint32_t http_max_calls = 256;            // per instance, at a time
    std::uint32_t max_timers = 1024;               // per instance
    std::uint32_t max_posts = 65'536;              // per instance, not yet run
    std::uint32_t max_sockets = 4096;              // ZMQ, per instance
    std::size_t zmq_queue_bytes = 64U << 20U;      // per socket, received and not yet handed over
    std::string user_agent = "sluice";
    std::string version = "0.1.0";  // sluice_host.version
};

class Runtime {
public:
    explicit Runtime(EngineSink& sink, RuntimeOptions options = {});
    ~Runtime();
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;

    Status start();
    void stop();
    // [control] Waits until what was dropped before this call is detached and destroyed.
    void settle();

    const RuntimeOptions& options() const noexcept { return options_; }
    EngineSink& sink() noexcept { return sink_; }
    EventThread& events() noexcept { return events_; }
    ZmqThread& zmq() noexcept { return *zmq_; }
    HttpCaller& http() noexcept { return *http_; }
    ControlQueue& control() noexcept { return *control_; }
    AttachmentBook& attachments() noexcept { return *attachments_; }
    // An instance's context, closed by stop() if it is still there.
    void remember(const std::shared_ptr<HostContext>& context);
    // A context that plugin code may still be using; it stays for good.
    void keep(std::shared_ptr<HostContext> context);

private:
    EngineSink& sink_;
    const RuntimeOptions options_;
    EventThread events_;
    std::unique_ptr<ZmqThread> zmq_;
    std::unique_ptr<HttpCaller> http_;
    std::unique_ptr<ControlQueue> control_;
    std::unique_ptr<AttachmentBook> attachments_;
    std::mutex mu_;
    std::vector<std::weak_ptr<HostContext>> contexts_;  // guarded by mu_
    std::vector<std::shared_ptr<HostContext>> kept_;    // guarded by mu_
};

}  // namespace sluice::plugin
