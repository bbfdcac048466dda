// The epoll back end of Loop. Private to core/net.
//
// Each descriptor is registered once, edge-triggered, for everything; nothing is changed per
// operation. The edges are remembered in the channel, so an operation costs the one system call
// that moves the bytes, and none at all when nothing is there.
//
// Threads: as Loop.
// Owns:    the epoll and event descriptors and all channels.
#pragma once
#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <memory>

#include "core/net/channel.hpp"
#include "core/net/loop.hpp"

namespace sluice::net {

class EpollLoop final : public Loop {
public:
    static Result<std::unique_ptr<Loop>> create();
    ~EpollLoop() override;
    Backend backend() const noexcept override { return Backend::Epoll; }

private:
    static constexpr std::size_t kEvents = 256;

    EpollLoop(int epoll_fd, int event_fd) noexcept : epoll_fd_(epoll_fd), event_fd_(event_fd) {}

    Result<Channel*> open_channel(int fd, ChannelRole role) override;
    void close_channel(Channel& channel) noexcept override;
    bool try_io(IoOp& op) noexcept override;
    void begin_io(IoOp& op) noexcept override;
    void withdraw_io(IoOp& op, int outcome) noexcept override;
    void abandon_io(IoOp& op) noexcept override;
    void poll(std::uint64_t until_us) noexcept override;
    void wake() noexcept override;

    void dispatch(Channel& channel, std::uint32_t events) noexcept;
    static void forget(IoOp& op) noexcept;
    bool try_recv(IoOp& op, Channel& channel) noexcept;
    bool try_send(IoOp& op, Channel& channel) noexcept;
    bool try_accept(IoOp& op, Channel& channel) noexcept;
    bool try_connect(IoOp& op, Channel& channel) noexcept;
    void bury() noexcept;

    int epoll_fd_;
    int event_fd_;
    Channel* closed_ = nullptr;  // freed at the next turn
    Channel* free_ = nullptr;
    std::size_t free_count_ = 0;
    std::array<epoll_event, kEvents> events_{};
};

}  // namespace sluice::net
