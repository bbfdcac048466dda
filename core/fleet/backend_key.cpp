#include "core/fleet/backend_key.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace sluice::fleet {
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

Error unusable(Code code, const std::string& why) {
    return Error{code, "the key file " + why};
}

}  // namespace

Result<bool> BackendKey::refresh(bool is_forced) {
    const File file(path_);
    struct stat info{};
    if (file.fd() < 0 || ::fstat(file.fd(), &info) != 0) {
        seen_.reset();
        return unusable(Code::NotFound, std::string("cannot be opened: ") + std::strerror(errno));
    }
    const Seen seen{info.st_dev, info.st_ino, info.st_size,
                    std::int64_t{info.st_ctim.tv_sec} * 1'000'000'000 + info.st_ctim.tv_nsec,
                    std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
    if (seen_ == seen && !is_forced) {
        return false;
    }
    // Remembered before it is judged: a bad file is complained of once.
    seen_ = seen;
    if (!S_ISREG(info.st_mode)) {
        return unusable(Code::Invalid, "is not a regular file");
    }
    if ((info.st_mode & 0177U) != 0) {
        return unusable(Code::Invalid, "may be read or written by others");
    }
    std::array<char, kMaxKeyBytes + 2> buffer{};
    const ssize_t n = ::read(file.fd(), buffer.data(), buffer.size());
    if (n < 0) {
        return unusable(Code::NotFound, std::string("cannot be read: ") + std::strerror(errno));
    }
    std::string_view key(buffer.data(), static_cast<std::size_t>(n));
    if (key.ends_with('\n')) {
        key.remove_suffix(1);
    }
    const bool is_visible =
        std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7F; });
    if (key.empty() || key.size() > kMaxKeyBytes || !is_visible) {
        return unusable(Code::Invalid, "must hold one line of 1.." + std::to_string(kMaxKeyBytes) +
                                           " visible ASCII characters");
    }
    auto next = std::make_shared<const std::string>("Bearer " + std::string(key));
    buffer.fill(0);
    if (*next == *authorization()) {
        return false;
    }
    authorization_.set(std::move(next));
    return true;
}

}  // namespace sluice::fleet
