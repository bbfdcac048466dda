#include "core/http/upstream_impl.hpp"

namespace sluice::http {

UpstreamPool::Impl::~Impl() {
    while (oldest != nullptr) {
        drop_idle(*oldest);
    }
}

void UpstreamPool::Impl::forget_if_unused(const net::Address& endpoint) noexcept {
    const auto found = buckets.find(endpoint);
    if (found != buckets.end() && found->second.idle == 0 && found->second.busy == 0) {
        buckets.erase(found);
    }
}

std::unique_ptr<UpstreamStream::Connection> UpstreamPool::Impl::unlink_idle(
    Connection& c) noexcept {
    c.socket.watch(nullptr);
    (c.newer != nullptr ? c.newer->older : c.bucket.newest) = c.older;
    if (c.older != nullptr) {
        c.older->newer = c.newer;
    }
    (c.idle_prev != nullptr ? c.idle_prev->idle_next : oldest) = c.idle_next;
    (c.idle_next != nullptr ? c.idle_next->idle_prev : latest) = c.idle_prev;
    c.newer = c.older = c.idle_next = c.idle_prev = nullptr;
    --c.bucket.idle;
    --stats.idle;
    return std::unique_ptr<Connection>(&c);
}

void UpstreamPool::Impl::drop_idle(Connection& c) noexcept {
    const auto gone = unlink_idle(c);
    forget_if_unused(gone->endpoint);
}

std::unique_ptr<UpstreamStream::Connection> UpstreamPool::Impl::take_idle(
    const net::Address& endpoint, std::uint64_t most_idle_us) noexcept {
    const auto found = buckets.find(endpoint);
    if (found == buckets.end() || found->second.newest == nullptr ||
        loop.now_us() - found->second.newest->idle_since_us >= most_idle_us) {
        return nullptr;
    }
    // What hung up was dropped when the loop saw it: all that are left are good as far as we know.
    auto connection = unlink_idle(*found->second.newest);
    ++found->second.busy;
    ++stats.active;
    ++stats.reuses;
    connection->is_reused = true;
    return connection;
}

void UpstreamPool::Impl::give_back(std::unique_ptr<Connection> connection) noexcept {
    Connection& c = *connection;
    c.in.release();
    --c.bucket.busy;
    --stats.active;
    if (!c.may_be_kept() || options.idle.count() <= 0 ||
        c.bucket.idle >= options.max_idle_per_endpoint || stats.idle >= options.max_idle) {
        const net::Address endpoint = c.endpoint;
        connection.reset();
        forget_if_unused(endpoint);
        return;
    }
    c.idle_since_us = loop.now_us();
    c.older = c.bucket.newest;
    if (c.older != nullptr) {
        c.older->newer = &c;
    }
    c.bucket.newest = &c;
    c.idle_prev = latest;
    (latest != nullptr ? latest->idle_next : oldest) = &c;
    latest = &c;
    ++c.bucket.idle;
    ++stats.idle;
    if (!is_armed()) {
        loop.timers().arm(*this, loop.after(options.idle));
    }
    c.socket.watch(connection.release());
}

void UpstreamPool::Impl::expired() noexcept {
    const auto idle_us = static_cast<std::uint64_t>(options.idle.count()) * 1000;
    while (oldest != nullptr && oldest->idle_since_us + idle_us <= loop.now_us()) {
        ++stats.idle_expired;
        drop_idle(*oldest);
    }
    if (oldest != nullptr) {
        loop.timers().arm(*this, oldest->idle_since_us + idle_us);
    }
}

namespace {

// Keeps an endpoint's bucket where it is while none of its connections may be left.
struct BucketHold {
    BucketHold(UpstreamPool::Impl& in, const net::Address& of)
        : impl(in), endpoint(of), bucket(in.bucket(of)) {
        ++bucket.busy;
    }
    BucketHold(const BucketHold&) = delete;
    BucketHold& operator=(const BucketHold&) = delete;
    ~BucketHold() {
        --bucket.busy;
        impl.forget_if_unused(endpoint);
    }
    UpstreamPool::Impl& impl;
    net::Address endpoint;
    UpstreamBucket& bucket;
};

}  // namespace

UpstreamPool::UpstreamPool(net::Loop& loop, const UpstreamOptions& options)
    : impl_(std::make_unique<Impl>(loop, options)) {}

UpstreamPool::~UpstreamPool() = default;

net::Task<Result<UpstreamStream>> UpstreamPool::acquire(net::Address to, net::Wait wait,
                                                        std::uint64_t most_idle_us) {
    if (wait.cancel != nullptr && wait.cancel->fired()) {
        co_return net::error_for(net::Op::kCancelled, "connect");
    }
    if (auto idle = impl_->take_idle(to, most_idle_us); idle != nullptr) {
        co_return UpstreamStream(std::move(idle));
    }
    co_return co_await acquire_fresh(to, wait);
}

net::Task<Result<UpstreamStream>> UpstreamPool::acquire_fresh(net::Address to, net::Wait wait) {
    Impl& impl = *impl_;
    ++impl.stats.connects;
    const BucketHold hold(impl, to);
    const std::uint64_t generation = hold.bucket.generation;
    auto socket = co_await net::connect(impl.loop, to, wait);
    if (!socket.ok()) {
        ++impl.stats.connect_failures;
        co_return std::move(socket).error();
    }
    auto connection = std::make_unique<UpstreamStream::Connection>(impl, to, hold.bucket,
                                                                   std::move(socket).value());
    connection->generation = generation;  // purged meanwhile: used once, not kept
    ++hold.bucket.busy;
    ++impl.stats.active;
    co_return UpstreamStream(std::move(connection));
}

void UpstreamPool::purge(const net::Address& endpoint) noexcept {
    const auto found = impl_->buckets.find(endpoint);
    if (found == impl_->buckets.end()) {
        return;
    }
    const BucketHold hold(*impl_, endpoint);
    ++hold.bucket.generation;
    while (hold.bucket.newest != nullptr) {
        impl_->drop_idle(*hold.bucket.newest);
    }
}

const UpstreamStats& UpstreamPool::stats() const noexcept {
    return impl_->stats;
}

net::Loop& UpstreamPool::loop() const noexcept {
    return impl_->loop;
}

}  // namespace sluice::http
