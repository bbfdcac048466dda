#include "core/rules/auth_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace sluice::rules {
namespace {

constexpr std::string_view kField = "backend_auth_file";

Refusal unusable(const std::string& why) {
    return {400, "auth_file_unusable", std::string(kField), "backend_auth_file " + why,
            "a file of mode 0600 or less that holds one line"};
}

class Fd {
public:
    explicit Fd(int raw) : fd_(raw) {}
    ~Fd() {
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    int get() const noexcept { return fd_; }

private:
    int fd_;
};

bool is_one_line(std::string_view text) {
    if (!text.empty() && text.back() == '\n') {
        text.remove_suffix(1);
    }
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

}  // namespace

std::optional<Refusal> check_auth_file(const std::string& path) {
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (file.get() < 0) {
        return unusable(std::string("cannot be opened: ") + std::strerror(errno));
    }
    struct stat info{};
    if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
        return unusable("is not a regular file");
    }
    if ((info.st_mode & 0177U) != 0) {
        return unusable("may be read or written by others");
    }
    std::array<char, kMaxKeyBytes + 2> buffer{};
    const ssize_t n = ::read(file.get(), buffer.data(), buffer.size());
    if (n < 0) {
        return unusable(std::string("cannot be read: ") + std::strerror(errno));
    }
    const bool is_good = static_cast<std::size_t>(n) < buffer.size() &&
                         is_one_line({buffer.data(), static_cast<std::size_t>(n)});
    buffer.fill(0);
    if (!is_good) {
        return unusable("must hold one line of at most " + std::to_string(kMaxKeyBytes) +
                        " printable characters");
    }
    return std::nullopt;
}

Refusal hidden_path_unknown() {
    return {400, "auth_file_hidden", std::string(kField),
            "*** stands for a path that is not shown, and the rule has none",
            "a path that starts with /, or absent"};
}

}  // namespace sluice::rules
