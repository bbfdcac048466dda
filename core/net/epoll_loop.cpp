#include "core/net/epoll_loop.hpp"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <climits>
#include <new>

namespace sluice::net {
namespace {

constexpr std::size_t kMaxFreeChannels = 4096;
constexpr std::size_t kMaxParts = IOV_MAX;

}  // namespace

Result<std::unique_ptr<Loop>> EpollLoop::create() {
    const int epoll_fd = ::epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0) {
        return error_for(errno, "epoll");
    }
    const int event_fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    epoll_event wake{EPOLLIN, {.ptr = nullptr}};
    if (event_fd < 0 || ::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, event_fd, &wake) != 0) {
        const int why = errno;
        ::close(epoll_fd);
        if (event_fd >= 0) {
            ::close(event_fd);
        }
        return error_for(why, "event descriptor");
    }
    return std::unique_ptr<Loop>(new EpollLoop(epoll_fd, event_fd));
}

EpollLoop::~EpollLoop() {
    drop_tasks();
    bury();
    while (free_ != nullptr) {
        delete std::exchange(free_, free_->next);
    }
    ::close(event_fd_);
    ::close(epoll_fd_);
}

Result<Channel*> EpollLoop::open_channel(int fd, ChannelRole role) {
    Channel* channel = free_;
    if (channel != nullptr) {
        free_ = channel->next;
        --free_count_;
        *channel = Channel{};
    } else {
        channel = new Channel;
    }
    channel->fd = fd;
    channel->writable = role == ChannelRole::Connected || role == ChannelRole::Datagram;
    channel->is_stream = role != ChannelRole::Datagram;
    epoll_event event{};
    event.events = role == ChannelRole::Listening ? EPOLLIN | EPOLLET
                                                  : EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.ptr = channel;
    if (::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
        const int why = errno;
        delete channel;
        return error_for(why, "register socket");
    }
    return channel;
}

void EpollLoop::close_channel(Channel& channel) noexcept {
    ::close(channel.fd);  // leaves the epoll set with it
    channel.fd = -1;
    channel.watcher = nullptr;
    if (IoOp* op = std::exchange(channel.reader, nullptr); op != nullptr) {
        op->finish(Op::kClosedHere);
    }
    if (IoOp* op = std::exchange(channel.writer, nullptr); op != nullptr) {
        op->finish(Op::kClosedHere);
    }
    channel.next = closed_;
    closed_ = &channel;
}

void EpollLoop::bury() noexcept {
    while (closed_ != nullptr) {
        Channel* channel = std::exchange(closed_, closed_->next);
        if (free_count_ < kMaxFreeChannels) {
            channel->next = free_;
            free_ = channel;
            ++free_count_;
        } else {
            delete channel;
        }
    }
}

bool EpollLoop::try_recv(IoOp& op, Channel& channel) noexcept {
    for (;;) {
        const ssize_t n = ::recv(channel.fd, op.into_.data(), op.into_.size(), 0);
        if (n >= 0) {
            op.moved_ = static_cast<std::size_t>(n);
            op.set_outcome(0);
            // A short read emptied the socket: what comes next makes a new edge. The end of the
            // data, once announced, makes none, so after a hang-up we go on until we read it.
            if (op.moved_ < op.into_.size() && channel.is_stream && !channel.hung_up) {
                channel.readable = false;
            }
            return true;
        }
        if (errno == EAGAIN) {
            channel.readable = false;
            return false;
        }
        if (errno != EINTR) {
            op.set_outcome(errno);
            return true;
        }
    }
}

bool EpollLoop::try_send(IoOp& op, Channel& channel) noexcept {
    while (!op.parts_.empty()) {
        msghdr message{};
        message.msg_iov = op.parts_.data();
        message.msg_iovlen = std::min(op.parts_.size(), kMaxParts);
        const ssize_t n = ::sendmsg(channel.fd, &message, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno == EAGAIN) {
                channel.writable = false;
                return false;
            }
            op.set_outcome(errno);
            return true;
        }
        auto left = static_cast<std::size_t>(n);
        op.moved_ += left;
        std::size_t offered = 0;
        for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
            offered += op.parts_[i].iov_len;
        }
        const bool is_full = left < offered;
        while (!op.parts_.empty() && left >= op.parts_.front().iov_len) {
            left -= op.parts_.front().iov_len;
            op.parts_.front().iov_len = 0;
            op.parts_ = op.parts_.subspan(1);
        }
        if (left != 0) {
            iovec& first = op.parts_.front();
            first.iov_base = static_cast<char*>(first.iov_base) + left;
            first.iov_len -= left;
        }
        if (is_full) {
            channel.writable = false;  // the kernel announces room again
            return false;
        }
    }
    op.set_outcome(0);
    return true;
}

bool EpollLoop::try_accept(IoOp& op, Channel& channel) noexcept {
    for (;;) {
        auto size = static_cast<socklen_t>(op.into_.size());
        const int fd = ::accept4(channel.fd, reinterpret_cast<sockaddr*>(op.into_.data()), &size,
                                 SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            op.moved_ = static_cast<std::size_t>(fd);
            op.set_outcome(0);
            return true;
        }
        switch (errno) {
            case EAGAIN:
                channel.readable = false;
                return false;
            case EMFILE:
            case ENFILE:
            case ENOBUFS:
            case ENOMEM:
            case EBADF:
            case EINVAL:
            case ENOTSOCK:
                op.set_outcome(errno);
                return true;
            default:  // the connection died in the queue: the next one
                break;
        }
    }
}

bool EpollLoop::try_connect(IoOp& op, Channel& channel) noexcept {
    int why = 0;
    socklen_t size = sizeof why;
    if (::getsockopt(channel.fd, SOL_SOCKET, SO_ERROR, &why, &size) != 0) {
        why = errno;
    }
    op.set_outcome(why);
    return true;
}

bool EpollLoop::try_io(IoOp& op) noexcept {
    if (op.channel_ == nullptr) {
        op.set_outcome(Op::kClosedHere);
        return true;
    }
    Channel& channel = *op.channel_;
    switch (op.kind_) {
        case IoOp::Kind::Recv:
            return channel.readable && try_recv(op, channel);
        case IoOp::Kind::Readable:
            return channel.readable;
        case IoOp::Kind::Accept:
            return channel.readable && try_accept(op, channel);
        case IoOp::Kind::Send:
            return channel.writable && try_send(op, channel);
        case IoOp::Kind::Connect:
            return channel.writable && try_connect(op, channel);
    }
    return false;
}

void EpollLoop::begin_io(IoOp& op) noexcept {
    const bool sends = op.kind_ == IoOp::Kind::Send || op.kind_ == IoOp::Kind::Connect;
    IoOp*& slot = sends ? op.channel_->writer : op.channel_->reader;
    assert(slot == nullptr);  // one receiving and one sending operation at a time
    slot = &op;
    if (op.until_readable_ && op.channel_->readable) {
        withdraw_io(op, 0);
    }
}

void EpollLoop::forget(IoOp& op) noexcept {
    if (op.channel_->reader == &op) {
        op.channel_->reader = nullptr;
    } else if (op.channel_->writer == &op) {
        op.channel_->writer = nullptr;
    }
}

void EpollLoop::withdraw_io(IoOp& op, int outcome) noexcept {
    forget(op);
    op.finish(outcome);
}

void EpollLoop::abandon_io(IoOp& op) noexcept {
    forget(op);
}

void EpollLoop::dispatch(Channel& channel, std::uint32_t events) noexcept {
    constexpr std::uint32_t gone = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    const bool hangs_up = (events & gone) != 0 && !channel.hung_up;
    if (hangs_up) {
        channel.hung_up = true;
    }
    if ((events & (EPOLLIN | gone)) != 0) {
        channel.readable = true;
        if (IoOp* op = channel.reader; op != nullptr && try_io(*op)) {
            withdraw_io(*op, op->outcome());
        }
        if (IoOp* op = channel.writer; op != nullptr && op->until_readable_) {
            withdraw_io(*op, 0);
        }
    }
    if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) {
        channel.writable = true;
        if (IoOp* op = channel.writer; op != nullptr && try_io(*op)) {
            withdraw_io(*op, op->outcome());
        }
    }
    if (channel.watcher != nullptr && channel.readable && (events & EPOLLIN) != 0) {
        channel.watcher->on_readable();
    }
    // The watcher may have closed the socket in the call before.
    if (channel.watcher != nullptr && hangs_up) {
        channel.watcher->on_hangup();
    }
}

void EpollLoop::poll(std::uint64_t until_us) noexcept {
    bury();
    int wait_ms = -1;
    if (until_us != kNever) {
        const std::uint64_t left = until_us > now_us() ? until_us - now_us() : 0;
        wait_ms = static_cast<int>(std::min<std::uint64_t>((left + 999) / 1000, 60000));
    }
    const int n = ::epoll_wait(epoll_fd_, events_.data(), static_cast<int>(kEvents), wait_ms);
    read_clock();
    for (int i = 0; i < n; ++i) {
        const epoll_event& event = events_[static_cast<std::size_t>(i)];
        auto* channel = static_cast<Channel*>(event.data.ptr);
        if (channel == nullptr) {
            std::uint64_t count = 0;
            // Only there to be emptied; a second reader does not exist.
            (void)!::read(event_fd_, &count, sizeof count);
        } else if (channel->fd >= 0) {
            dispatch(*channel, event.events);
        }
    }
}

void EpollLoop::wake() noexcept {
    const std::uint64_t one = 1;
    // A full counter wakes as well.
    (void)!::write(event_fd_, &one, sizeof one);
}

}  // namespace sluice::net
