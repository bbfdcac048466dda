#include "plugins/trtllm/key_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace sluice::trtllm {

namespace {

class File {
public:
    // Non-blocking: the path of a pipe must not hold us up.
    explicit File(const std::string& path)
        : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) {}
    ~File() {
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    int fd() const noexcept { return fd_; }

private:
    int fd_;
};

std::int64_t nanoseconds(const timespec& t) noexcept {
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

std::string KeyFile::look() {
    if (path_.empty()) {
        return {};
    }
    const File file(path_);
    struct stat info{};
    if (file.fd() < 0 || ::fstat(file.fd(), &info) != 0) {
        const int why = errno;
        seen_.reset();
        return std::exchange(is_missing_told_, true)
                   ? std::string()
                   : std::string("it cannot be opened: ") + std::strerror(why);
    }
    is_missing_told_ = false;
    const Seen seen{info.st_dev, info.st_ino, info.st_size, nanoseconds(info.st_ctim),
                    nanoseconds(info.st_mtim)};
    if (seen_ == seen) {
        return {};
    }
    // Remembered before it is judged: a bad file is complained of once.
    seen_ = seen;
    if (!S_ISREG(info.st_mode)) {
        return "it is not a regular file";
    }
    if ((info.st_mode & 0177U) != 0) {
        return "it may be read or written by others";
    }
    std::array<char, kMaxKeyBytes + 2> buffer{};
    const ssize_t n = ::read(file.fd(), buffer.data(), buffer.size());
    if (n < 0) {
        return std::string("it cannot be read: ") + std::strerror(errno);
    }
    std::string_view key(buffer.data(), static_cast<std::size_t>(n));
    if (key.ends_with('\n')) {
        key.remove_suffix(1);
    }
    const bool is_visible =
        std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7F; });
    if (key.empty() || key.size() > kMaxKeyBytes || !is_visible) {
        buffer.fill(0);
        return "it does not hold one line of visible ASCII characters";
    }
    const std::lock_guard lock(mu_);
    if (key != key_->text) {
        key_ = std::make_shared<const Key>(Key{std::string(key), key_->serial + 1});
    }
    buffer.fill(0);
    return {};
}

}  // namespace sluice::trtllm
