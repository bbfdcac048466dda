#include "sdk/check/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>

namespace sluice::check {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMaxText = 8192;
constexpr std::size_t kMaxShown = 600;

void write_all(int fd, const std::string& text) noexcept {
    std::size_t done = 0;
    while (done < text.size()) {
        const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
        if (n <= 0 && errno != EINTR) {
            return;
        }
        done += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
}

[[noreturn]] void be_child(const std::function<Outcome()>& check, int result_fd, int output_fd) {
    ::setpgid(0, 0);
    ::dup2(output_fd, STDOUT_FILENO);
    ::dup2(output_fd, STDERR_FILENO);
    Outcome outcome;
    try {
        outcome = check();
    } catch (const std::exception& e) {
        outcome = failed(std::string("an exception came out of the plugin: ") + e.what());
    }
    write_all(result_fd, static_cast<char>(outcome.kind) + outcome.text.substr(0, kMaxText));
    // Static objects of the plugin are not this check's business.
    ::_exit(0);
}

// What the child wrote to its own outputs; sanitizers report there.
std::string output_of(int fd) {
    std::string out(kMaxShown, '\0');
    const ssize_t n = ::pread(fd, out.data(), out.size(), 0);
    out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    while (!out.empty() && out.back() == '\n') {
        out.pop_back();
    }
    return out;
}

// Reads to the end or the deadline; false at the deadline.
bool read_result(int fd, Clock::time_point deadline, std::string& out) {
    std::array<char, 4096> chunk{};
    for (;;) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (left <= 0) {
            return false;
        }
        pollfd wait{fd, POLLIN, 0};
        if (::poll(&wait, 1, static_cast<int>(left) + 1) <= 0) {
            continue;
        }
        const ssize_t n = ::read(fd, chunk.data(), chunk.size());
        if (n == 0) {
            return true;
        }
        if (n > 0) {
            out.append(chunk.data(), static_cast<std::size_t>(n));
        }
    }
}

}  // namespace

Outcome run_in_child(const std::function<Outcome()>& check, std::chrono::milliseconds limit) {
    std::array<int, 2> ends{};
    const int output = ::memfd_create("plugin-output", MFD_CLOEXEC);
    if (output < 0 || ::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return failed(std::string("cannot run a child: ") + std::strerror(errno));
    }
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::close(ends[0]);
        be_child(check, ends[1], output);
    }
    ::close(ends[1]);
    std::string result;
    const bool is_over = pid > 0 && read_result(ends[0], Clock::now() + limit, result);
    ::close(ends[0]);
    int status = 0;
    if (pid > 0) {
        if (!is_over) {
            ::kill(-pid, SIGKILL);
            ::kill(pid, SIGKILL);
        }
        while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
    }
    const std::string wrote = output_of(output);
    ::close(output);
    const std::string also = wrote.empty() ? "" : "; it wrote: " + wrote;

    if (pid < 0) {
        return failed("cannot run a child");
    }
    if (!is_over) {
        return failed("not over after " + std::to_string(limit.count()) + " ms" + also);
    }
    if (WIFSIGNALED(status)) {
        return failed(std::string("crashed: ") + ::strsignal(WTERMSIG(status)) + also);
    }
    if (result.empty() || WEXITSTATUS(status) != 0) {
        return failed("the process was ended from inside, status " +
                      std::to_string(WEXITSTATUS(status)) + also);
    }
    Outcome outcome{static_cast<Outcome::Kind>(result.front()), result.substr(1)};
    if (!outcome.is_failed() && !wrote.empty()) {
        return failed("it wrote to its standard output or error: " + wrote);
    }
    return outcome;
}

}  // namespace sluice::check
