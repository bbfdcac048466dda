#include "tests/sim/vllm/publisher.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>

#include "core/base/bytes.hpp"
#include "core/base/clock.hpp"
#include "core/base/log.hpp"

namespace sluice::sim::vllm {
namespace {

std::string be64(std::uint64_t v) {
    std::array<std::uint8_t, 8> out{};
    store_be64(v, out);
    return {out.begin(), out.end()};
}

bool contains(std::string_view s, std::string_view part) {
    return s.find(part) != std::string_view::npos;
}

// Data-parallel rank r: the port moves by r. Port 0 stays: every rank asks for a free one.
Result<std::string> with_rank(const std::string& endpoint, int rank) {
    if (rank == 0 || endpoint.empty()) {
        return endpoint;
    }
    if (endpoint.rfind("inproc://", 0) == 0) {
        return endpoint + "_dp" + std::to_string(rank);
    }
    const std::size_t colon = endpoint.rfind(':');
    if (endpoint.rfind("tcp://", 0) != 0) {
        return Error{Code::Invalid, "only tcp and inproc take a rank: " + endpoint};
    }
    const int port = std::atoi(endpoint.c_str() + colon + 1);
    return endpoint.substr(0, colon + 1) + std::to_string(port == 0 ? 0 : port + rank);
}

std::string replace_host(const std::string& endpoint, std::string_view from,
                         const std::string& to) {
    const std::size_t at = endpoint.find(from);
    return at == std::string::npos ? endpoint : std::string(endpoint).replace(at, from.size(), to);
}

// libzmq refuses a mapped IPv6 address unless told to use IPv6; both names are the same socket.
std::string bind_address(std::string endpoint, const std::string& host) {
    if (const std::size_t at = endpoint.find("[::ffff:"); at != std::string::npos) {
        const std::size_t end = endpoint.find(']', at);
        endpoint.replace(at, end - at + 1, endpoint.substr(at + 8, end - at - 8));
    }
    return replace_host(replace_host(endpoint, "//*", "//" + host), "//0.0.0.0", "//" + host);
}

bool asks_for_port(std::string_view endpoint) {
    return endpoint.substr(0, 6) == "tcp://" && endpoint.substr(endpoint.rfind(':')) == ":0";
}

}  // namespace

Publisher::Publisher(Options options)
    : options_(std::move(options)),
      shown_(options_.config),
      context_(1),
      wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

Publisher::~Publisher() {
    {
        const std::lock_guard lock(mu_);
        is_stopping_ = true;
    }
    room_.notify_all();
    wake();
    thread_ = std::jthread();
    ::close(wake_fd_);
}

void Publisher::wake() const noexcept {
    const std::uint64_t one = 1;
    (void)!::write(wake_fd_, &one, sizeof one);  // a full counter is a pending signal already
}

Status Publisher::start() {
    try {
        auto endpoint = with_rank(options_.config.endpoint, options_.rank);
        auto replay = with_rank(options_.config.replay_endpoint, options_.rank);
        if (!endpoint || !replay) {
            return endpoint ? std::move(replay).error() : std::move(endpoint).error();
        }
        shown_.endpoint = *endpoint;
        shown_.replay_endpoint = *replay;
        pub_ = zmq::socket_t(context_, zmq::socket_type::pub);
        pub_.set(zmq::sockopt::sndhwm, static_cast<int>(shown_.hwm));
        pub_.set(zmq::sockopt::linger, 0);
        const bool binds = contains(*endpoint, "*") || contains(*endpoint, "::") ||
                           endpoint->rfind("ipc://", 0) == 0 ||
                           endpoint->rfind("inproc://", 0) == 0;
        if (binds) {
            pub_.bind(bind_address(*endpoint, options_.host));
            reachable_ = pub_.get(zmq::sockopt::last_endpoint);
            if (asks_for_port(*endpoint)) {
                shown_.endpoint = reachable_;
            }
        } else {
            pub_.connect(*endpoint);
        }
        if (!replay->empty()) {
            router_ = zmq::socket_t(context_, zmq::socket_type::router);
            router_.set(zmq::sockopt::linger, 0);
            router_.bind(bind_address(*replay, options_.host));
            replay_reachable_ = router_.get(zmq::sockopt::last_endpoint);
            if (asks_for_port(*replay)) {
                shown_.replay_endpoint = replay_reachable_;
            }
        }
    } catch (const zmq::error_t& e) {
        return Error{Code::Io, "KV events at " + shown_.endpoint + ": " + e.what()};
    }
    thread_ = std::jthread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "kv-events");
    return {};
}

void Publisher::publish(std::vector<KvEvent> events) {
    const double at = static_cast<double>(wall_us()) / 1e6;
    std::string payload = encode_batch(at, events, options_.rank, options_.encoding, options_.form);
    {
        std::unique_lock lock(mu_);
        room_.wait(lock, [this] {
            return is_stopping_ || queue_.size() < static_cast<std::size_t>(shown_.max_queue_size);
        });
        queue_.push_back(Batch{next_++, std::move(payload)});
    }
    wake();
}

bool Publisher::is_stopping() {
    const std::lock_guard lock(mu_);
    return is_stopping_;
}

void Publisher::run() {
    std::vector<zmq::pollitem_t> items{{nullptr, wake_fd_, ZMQ_POLLIN, 0}};
    if (router_) {
        items.push_back({router_.handle(), 0, ZMQ_POLLIN, 0});
    }
    try {
        while (!is_stopping()) {
            zmq::poll(items);
            std::uint64_t count = 0;
            (void)!::read(wake_fd_, &count, sizeof count);  // only clears the signal
            send_queued();
            serve_replay();
        }
    } catch (const zmq::error_t& e) {
        log::error("KV event publisher ended", {{"rank", options_.rank}, {"why", e.what()}});
    }
}

void Publisher::send_queued() {
    std::deque<Batch> batches;
    {
        const std::lock_guard lock(mu_);
        batches.swap(queue_);
    }
    room_.notify_all();
    for (Batch& b : batches) {
        send(std::move(b));
    }
}

void Publisher::send(Batch batch) {
    const std::string sequence = be64(batch.sequence);
    pub_.send(zmq::buffer(shown_.topic), zmq::send_flags::sndmore);
    pub_.send(zmq::buffer(sequence), zmq::send_flags::sndmore);
    pub_.send(zmq::buffer(batch.payload), zmq::send_flags::none);
    sent_.push_back(std::move(batch));
    while (sent_.size() >
           static_cast<std::size_t>(std::max<std::int64_t>(1, shown_.buffer_steps))) {
        sent_.pop_front();
    }
}

void Publisher::serve_replay() {
    if (!router_) {
        return;
    }
    zmq::message_t part;
    while (router_.recv(part, zmq::recv_flags::dontwait)) {
        std::vector<std::string> frames{part.to_string()};
        while (part.more()) {
            if (!router_.recv(part, zmq::recv_flags::none)) {
                return;
            }
            frames.push_back(part.to_string());
        }
        if (frames.size() != 3) {
            continue;  // dropped without a reply, as the engine does
        }
        // Whoever has seen a reply of the engine finds its events here.
        send_queued();
        std::uint64_t from = 0;
        for (const char c : frames[2]) {
            from = from << 8U | static_cast<unsigned char>(c);
        }
        const auto reply = [&](const std::string& topic, const std::string& sequence,
                               const std::string& payload) {
            // Up to 0.24 the topic frame is missing; an end marker's is empty even when one is set.
            std::vector<std::string> out{frames[0], ""};
            if (options_.encoding == EventEncoding::Map) {
                out.push_back(topic);
            }
            out.push_back(sequence);
            out.push_back(payload);
            for (std::size_t i = 0; i < out.size(); ++i) {
                router_.send(zmq::buffer(out[i]),
                             i + 1 < out.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
            }
        };
        for (const Batch& b : sent_) {
            if (b.sequence >= from) {
                reply(shown_.topic, be64(b.sequence), b.payload);
            }
        }
        reply("", be64(~std::uint64_t{0}), "");
    }
}

}  // namespace sluice::sim::vllm
