#include "core/flow/worker.hpp"

#include <pthread.h>

#include <future>
#include <string>
#include <vector>

#include "core/flow/exchange.hpp"

namespace sluice::flow {

// The server of one VIP:port on this loop.
struct Worker::Vip final : http::Handler {
    Vip(WorkerState& worker, rules::ListenAddress at) : worker_(worker), at_(std::move(at)) {}

    net::Task<void> handle(http::ServerStream& stream) override {
        Exchange exchange(worker_, at_, stream);
        co_await exchange.run();
    }
    void connection_opened() noexcept override { connections_.add(1); }
    void connection_closed() noexcept override { connections_.add(-1); }

    WorkerState& worker_;
    const rules::ListenAddress at_;
    metrics::Gauge& connections_ = metrics::registry().gauge(
        "loxilb_proxy_active_connections", "Connections of clients that are open.");
    std::unique_ptr<http::Server> server_;
};

struct Worker::State {
    State(net::Loop& loop, Shared& shared) : worker(loop, shared) {}

    WorkerState worker;
    std::map<rules::ListenAddress, std::unique_ptr<Vip>> vips;
    std::vector<std::unique_ptr<Vip>> closing;  // not listening any more, connections left

    void forget_closed() {
        std::erase_if(closing, [](const std::unique_ptr<Vip>& vip) {
            return vip->server_->counters().connections.load(std::memory_order_relaxed) == 0;
        });
    }
};

Worker::Worker(unsigned number, Shared& shared) : number_(number), shared_(shared) {}

Worker::~Worker() {
    stop();
}

Status Worker::start() {
    auto loop = net::Loop::create();
    if (!loop) {
        return std::move(loop).error();
    }
    loop_ = std::move(*loop);
    state_ = std::make_unique<State>(*loop_, shared_);
    thread_ = std::jthread([this] { loop_->run(); });
    const std::string name = "sluice-work-" + std::to_string(number_);
    ::pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
    return {};
}

void Worker::run(const std::function<void(State&)>& job) {
    if (!thread_.joinable()) {
        return;
    }
    std::promise<void> done;
    auto finished = done.get_future();
    loop_->post([&] {
        job(*state_);
        done.set_value();
    });
    finished.wait();
}

void Worker::set_directory(const std::shared_ptr<const Directory>& directory) {
    run([&](State& state) { state.worker.directory = directory; });
}

Status Worker::open(const rules::ListenAddress& at, const http::ServerLimits& limits) {
    auto address = net::Address::parse_ip(at.ip, at.port);
    if (!address) {
        return std::move(address).error();
    }
    Status result;
    run([&](State& state) {
        state.forget_closed();
        if (state.vips.contains(at)) {
            return;
        }
        auto vip = std::make_unique<Vip>(state.worker, at);
        auto server = http::Server::listen(state.worker.loop, *address, *vip, limits);
        if (!server) {
            result = std::move(server).error();
            return;
        }
        vip->server_ = std::move(*server);
        state.vips.emplace(at, std::move(vip));
    });
    return result;
}

void Worker::set_limits(const rules::ListenAddress& at, const http::ServerLimits& limits) {
    run([&](State& state) {
        if (const auto it = state.vips.find(at); it != state.vips.end()) {
            it->second->server_->set_limits(limits);
        }
    });
}

void Worker::close(const rules::ListenAddress& at) {
    run([&](State& state) {
        const auto it = state.vips.find(at);
        if (it != state.vips.end()) {
            it->second->server_->drain();
            state.closing.push_back(std::move(it->second));
            state.vips.erase(it);
        }
        state.forget_closed();
    });
}

void Worker::drain() {
    run([](State& state) {
        for (const auto& [at, vip] : state.vips) {
            vip->server_->drain();
        }
    });
}

void Worker::speak_last_words() {
    run([](State& state) { state.worker.last_words.fire(); });
}

WorkerCounts Worker::counts() {
    WorkerCounts out;
    run([&](State& state) {
        const auto add = [&](const Vip& vip) {
            const http::ServerCounters& c = vip.server_->counters();
            out.connections += c.connections.load(std::memory_order_relaxed);
            out.exchanges += c.exchanges.load(std::memory_order_relaxed);
            out.accept_pauses += c.accept_pauses.load(std::memory_order_relaxed);
        };
        for (const auto& [at, vip] : state.vips) {
            add(*vip);
        }
        for (const auto& vip : state.closing) {
            add(*vip);
        }
    });
    return out;
}

void Worker::stop() {
    if (!thread_.joinable()) {
        return;
    }
    run([](State& state) {
        for (const auto& [at, vip] : state.vips) {
            vip->server_->abort_all();
        }
        for (const auto& vip : state.closing) {
            vip->server_->abort_all();
        }
    });
    loop_->stop();
    thread_.join();
    // Servers before the state they point to, all of it before the loop.
    state_->vips.clear();
    state_->closing.clear();
    state_.reset();
    loop_.reset();
}

}  // namespace sluice::flow
