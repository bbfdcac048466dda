#include "core/plugin/event_side.hpp"
#include "core/plugin/host_context.hpp"
#include "core/plugin/runtime.hpp"
#include "core/plugin/sdk_text.hpp"
#include "core/plugin/services.hpp"
#include "core/plugin/zmq_link.hpp"
#include "core/plugin/zmq_thread.hpp"

namespace sluice::plugin {
namespace {

constexpr std::uint32_t kDefaultHwm = 100'000;
constexpr std::size_t kDefaultMessage = 64U << 20U;

ZmqHandler handler_for(HostContext& context, const sluice_zmq_handler& from) {
    ZmqHandler out;
    // Sockets end before their instance does, so the context outlives the handler.
    out.on_message = [&context, fn = from.on_message, user = from.user](const ZmqFrames& frames) {
        std::array<sluice_bytes, ZmqLink::kMaxFrames> parts{};
        std::size_t bytes = 0;
        for (std::size_t i = 0; i < frames.size(); ++i) {
            parts[i] = {static_cast<const std::uint8_t*>(frames[i].data()), frames[i].size()};
            bytes += frames[i].size();
        }
        const auto count = static_cast<std::uint32_t>(frames.size());
        context.enter_event(bytes, [&] { fn(user, parts.data(), count); });
    };
    out.on_link = [&context, fn = from.on_link, user = from.user](bool is_connected) {
        if (fn != nullptr) {
            context.enter_event(0, [&] { fn(user, is_connected ? 1 : 0); });
        }
    };
    return out;
}

sluice_status open(const sluice_host* host, const sluice_zmq_options* options,
                   const sluice_zmq_handler* handler, sluice_zmq_socket** out,
                   sluice_error* err) noexcept {
    HostContext& context = HostContext::of(host);
    if (!context.may_use_event_service("zmq open off the event thread")) {
        return report(err, SLUICE_E_STATE,
                      "sockets open on the event thread of an active instance");
    }
    if (options == nullptr || !SLUICE_HAS(sluice_zmq_options, options, max_message_bytes) ||
        handler == nullptr || !SLUICE_HAS(sluice_zmq_handler, handler, on_link) ||
        handler->on_message == nullptr || out == nullptr ||
        (options->kind != SLUICE_ZMQ_SUB && options->kind != SLUICE_ZMQ_DEALER)) {
        return report(err, SLUICE_E_INVALID, "no options, no handler or an unknown kind of socket");
    }
    EventSide& side = context.event_side();
    const RuntimeOptions& limits = context.runtime().options();
    if (side.sockets.size() >= limits.max_sockets) {
        return report(err, SLUICE_E_LIMIT, "too many sockets");
    }
    ZmqSpec spec;
    spec.is_dealer = options->kind == SLUICE_ZMQ_DEALER;
    spec.address = copy(options->address, 512);
    spec.topic = copy(options->topic, 512);
    spec.hwm = options->hwm == 0 ? kDefaultHwm : options->hwm;
    spec.max_message_bytes =
        options->max_message_bytes == 0
            ? kDefaultMessage
            : std::min<std::size_t>(options->max_message_bytes, limits.zmq_queue_bytes);
    spec.queue_bytes = limits.zmq_queue_bytes;
    spec.plugin = context.plugin_id();
    spec.instance = context.instance();
    auto link = context.runtime().zmq().open(std::move(spec), handler_for(context, *handler));
    if (!link) {
        return report(err,
                      link.error().code == Code::Invalid ? SLUICE_E_INVALID : SLUICE_E_UNAVAILABLE,
                      link.error().what);
    }
    const std::uint64_t id = side.next_handle++;
    side.sockets.emplace(id, std::move(link).value());
    *out = to_handle<sluice_zmq_socket>(id);
    return SLUICE_OK;
}

sluice_status send(const sluice_host* host, sluice_zmq_socket* socket, const sluice_bytes* frames,
                   std::uint32_t count) noexcept {
    HostContext& context = HostContext::of(host);
    if (!context.may_use_event_service("zmq send off the event thread")) {
        return SLUICE_E_STATE;
    }
    const auto& sockets = context.event_side().sockets;
    const auto it = sockets.find(from_handle(socket));
    if (it == sockets.end() || !it->second->spec().is_dealer || frames == nullptr || count == 0 ||
        count > ZmqLink::kMaxFrames) {
        return SLUICE_E_INVALID;
    }
    ZmqFrames copies;
    copies.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        if (frames[i].len > ZmqLink::kMaxOutBytes ||
            (frames[i].len > 0 && frames[i].ptr == nullptr)) {
            return SLUICE_E_LIMIT;
        }
        copies.emplace_back(frames[i].ptr, frames[i].len);
    }
    return it->second->send(std::move(copies)) ? sluice_status{SLUICE_OK}
                                               : sluice_status{SLUICE_AGAIN};
}

void close(const sluice_host* host, sluice_zmq_socket* socket) noexcept {
    HostContext& context = HostContext::of(host);
    if (socket == nullptr || context.phase() == HostContext::Phase::Closed) {
        return;
    }
    context.on_event_thread([socket](HostContext& c) {
        auto& sockets = c.event_side().sockets;
        if (const auto it = sockets.find(from_handle(socket)); it != sockets.end()) {
            it->second->close();
            sockets.erase(it);
        }
    });
}

}  // namespace

const sluice_zmq_api& zmq_service() noexcept {
    static const sluice_zmq_api api{sizeof(sluice_zmq_api), 0, &open, &send, &close};
    return api;
}

}  // namespace sluice::plugin
