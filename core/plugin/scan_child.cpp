#include "core/plugin/scan_child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

namespace sluice::plugin {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMaxOutput = 1U << 20U;
constexpr std::size_t kMaxReason = 300;

struct Pipe {
    int read_end = -1, write_end = -1;
    ~Pipe() {
        close_read();
        close_write();
    }
    bool open() noexcept {
        std::array<int, 2> fds{};
        if (::pipe2(fds.data(), O_CLOEXEC) != 0) {
            return false;
        }
        read_end = fds[0];
        write_end = fds[1];
        return true;
    }
    void close_read() noexcept { close_one(read_end); }
    void close_write() noexcept { close_one(write_end); }

private:
    static void close_one(int& fd) noexcept {
        if (fd >= 0) {
            ::close(fd);
            fd = -1;
        }
    }
};

// Reads both pipes to their ends, the deadline or the limit; false when it is not the ends.
bool read_all(Pipe& out, Pipe& err, std::string& out_text, std::string& err_text,
              Clock::time_point deadline) {
    std::array<char, 16384> chunk{};
    while (out.read_end >= 0 || err.read_end >= 0) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (left <= 0) {
            return false;
        }
        std::array<pollfd, 2> fds{pollfd{out.read_end, POLLIN, 0}, pollfd{err.read_end, POLLIN, 0}};
        if (::poll(fds.data(), fds.size(), static_cast<int>(left) + 1) < 0 && errno != EINTR) {
            return false;
        }
        for (std::size_t i = 0; i < fds.size(); ++i) {
            if (fds[i].fd < 0 || fds[i].revents == 0) {
                continue;
            }
            std::string& text = i == 0 ? out_text : err_text;
            const ssize_t n = ::read(fds[i].fd, chunk.data(), chunk.size());
            if (n > 0) {
                text.append(chunk.data(), static_cast<std::size_t>(n));
                if (text.size() > kMaxOutput) {
                    return false;
                }
            } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
                (i == 0 ? out : err).close_read();
            }
        }
    }
    return true;
}

// Waits for the end of a child that has closed its outputs.
bool has_ended(pid_t pid, Clock::time_point deadline) {
    // By number: glibc 2.36 declares pidfd_open without C linkage.
    const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (fd < 0) {
        return false;
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{fd, POLLIN, 0};
    const bool ended = ::poll(&wait, 1, static_cast<int>(std::max<long>(left, 0)) + 1) == 1;
    ::close(fd);
    return ended;
}

std::string first_line(std::string_view text) {
    text = text.substr(0, std::min({text.find('\n'), text.size(), kMaxReason}));
    std::string out(text);
    std::replace_if(
        out.begin(), out.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
    return out;
}

}  // namespace

Result<std::string> describe_in_child(const std::string& checker, const std::string& path,
                                      std::chrono::milliseconds limit) {
    Pipe out;
    Pipe err;
    if (!out.open() || !err.open()) {
        return Error{Code::Io, std::string("pipe: ") + std::strerror(errno)};
    }
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, out.write_end, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, err.write_end, STDERR_FILENO);
    // A group of its own, so that whatever the file starts is ended with it.
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    std::string program = checker;
    std::string flag = "--describe";
    std::string file = path;
    std::array<char*, 4> argv{program.data(), flag.data(), file.data(), nullptr};
    // A service must not change its code because of its environment; neither must the scan.
    std::array<char*, 1> env{nullptr};
    pid_t pid = -1;
    const int spawned =
        ::posix_spawn(&pid, checker.c_str(), &actions, &attributes, argv.data(), env.data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    if (spawned != 0) {
        return Error{Code::Io, checker + ": " + std::strerror(spawned)};
    }
    out.close_write();
    err.close_write();

    const auto deadline = Clock::now() + limit;
    std::string out_text;
    std::string err_text;
    const bool is_complete =
        read_all(out, err, out_text, err_text, deadline) && has_ended(pid, deadline);
    if (!is_complete) {
        ::kill(-pid, SIGKILL);
        ::kill(pid, SIGKILL);
    }
    int status = 0;
    pid_t reaped = 0;
    while ((reaped = ::waitpid(pid, &status, 0)) < 0 && errno == EINTR) {
    }
    if (reaped < 0) {
        return Error{Code::Io, std::string("waitpid: ") + std::strerror(errno)};
    }
    if (!is_complete && Clock::now() < deadline) {
        return Error{Code::Invalid, "wrote more than a description while it was scanned"};
    }
    if (!is_complete) {
        return Error{Code::Timeout,
                     "not described within " + std::to_string(limit.count()) + " ms"};
    }
    if (WIFSIGNALED(status)) {
        return Error{Code::Invalid,
                     std::string("died while it was scanned: ") + ::strsignal(WTERMSIG(status))};
    }
    if (WEXITSTATUS(status) != 0) {
        std::string why = first_line(err_text);
        return Error{Code::Invalid, why.empty() ? "refused by the scan" : why};
    }
    return out_text;
}

std::string find_checker() {
    std::array<char, PATH_MAX> self{};
    const ssize_t n = ::readlink("/proc/self/exe", self.data(), self.size() - 1);
    if (n <= 0) {
        return {};
    }
    std::string path(self.data(), static_cast<std::size_t>(n));
    path.erase(path.rfind('/') + 1);
    path += "sluice-plugin-check";
    return ::access(path.c_str(), X_OK) == 0 ? path : std::string();
}

}  // namespace sluice::plugin
