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

constexpr KeyFileField kFields[] = {{"backend_auth_file", &Rule::auth_file},
                                    {"trt_disagg_key_file", &Rule::trt_key_file}};

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

std::span<const KeyFileField> key_file_fields() noexcept {
    return kFields;
}

std::optional<Refusal> check_key_file(std::string_view field, const std::string& path) {
    const auto unusable = [field](const std::string& why) {
        return Refusal{400, "auth_file_unusable", std::string(field),
                       std::string(field) + " " + why,
                       "a file of mode 0600 or less that holds one line"};
    };
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

std::optional<Refusal> check_key_files(const Rule& rule, const Rule* previous) {
    for (const KeyFileField& field : kFields) {
        const std::string& path = rule.*field.path;
        if (path.empty() || (previous != nullptr && path == previous->*field.path)) {
            continue;
        }
        if (auto refusal = check_key_file(field.name, path)) {
            return refusal;
        }
    }
    return std::nullopt;
}

Refusal hidden_path_unknown(std::string_view field) {
    return {400, "auth_file_hidden", std::string(field),
            "*** stands for a path that is not shown, and the rule has none",
            "a path that starts with /, or absent"};
}

}  // namespace sluice::rules
