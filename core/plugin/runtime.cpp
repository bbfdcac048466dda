#include "core/plugin/runtime.hpp"

#include "core/base/log.hpp"
#include "core/plugin/attachment.hpp"
#include "core/plugin/control_queue.hpp"
#include "core/plugin/host_context.hpp"
#include "core/plugin/http_call.hpp"
#include "core/plugin/zmq_thread.hpp"

namespace sluice::plugin {

Runtime::Runtime(EngineSink& sink, RuntimeOptions options)
    : sink_(sink),
      options_(std::move(options)),
      zmq_(std::make_unique<ZmqThread>(events_)),
      http_(std::make_unique<HttpCaller>(events_)),
      control_(std::make_unique<ControlQueue>()),
      attachments_(std::make_unique<AttachmentBook>(events_)) {}

Runtime::~Runtime() {
    stop();
}

Status Runtime::start() {
    if (auto started = events_.start(); !started) {
        return started;
    }
    if (auto started = zmq_->start(); !started) {
        events_.stop();
        return started;
    }
    control_->start();
    return events_.run([this] { http_->open(); });
}

void Runtime::remember(const std::shared_ptr<HostContext>& context) {
    const std::lock_guard lock(mu_);
    std::erase_if(contexts_, [](const auto& c) { return c.expired(); });
    contexts_.push_back(context);
}

void Runtime::keep(std::shared_ptr<HostContext> context) {
    const std::lock_guard lock(mu_);
    kept_.push_back(std::move(context));
}

void Runtime::settle() {
    // A dropped view or attachment is one hop, the instance behind it the next.
    for (int hop = 0; hop < 3; ++hop) {
        if (const auto ran = events_.run([] {}); !ran) {
            log::error("event thread is stuck", {{"error", ran.error().what}});
        }
        control_->wait_idle();
    }
}

void Runtime::stop() {
    if (!events_.is_running()) {
        return;
    }
    settle();
    std::vector<std::weak_ptr<HostContext>> contexts;
    {
        const std::lock_guard lock(mu_);
        contexts.swap(contexts_);
    }
    for (const auto& weak : contexts) {
        const auto context = weak.lock();
        if (context && context->phase() != HostContext::Phase::Closed) {
            log::error("plugin instance outlives the runtime",
                       {{"plugin", context->plugin_id()}, {"instance", context->instance()}});
            (void)context->close();  // said there, and there is nothing left to do about it
        }
    }
    if (const auto closed = events_.run([this] { http_->close(); }); !closed) {
        log::error("event thread is stuck", {{"error", closed.error().what}});
    }
    zmq_->stop();
    control_->stop();
    events_.stop();
}

}  // namespace sluice::plugin
