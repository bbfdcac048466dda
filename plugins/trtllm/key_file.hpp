// The key that signs generation legs, as its file holds it.
//
// The file is looked at again with each call of look(): a rotated key needs no edit of the rule.
// What cannot be used any more leaves the last good key in force. Neither path nor key is logged.
//
// Threads: look() event; key() any.
// Errors:  look() says what is wrong, once for each state of the file.
// Limits:  kMaxKeyBytes; one line of visible ASCII, a line end behind it is dropped. The file is
//          its owner's alone (mode 0600 or less).
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace sluice::trtllm {

class KeyFile {
public:
    static constexpr std::size_t kMaxKeyBytes = 4096;

    // An empty path: there is no key.
    explicit KeyFile(std::string path) : path_(std::move(path)) {}

    bool is_given() const noexcept { return !path_.empty(); }
    // Reads the file if it is not the one read before. Empty, or what is wrong with it now.
    std::string look();

    struct Key {
        std::string text;          // empty as long as none could be read
        std::uint64_t serial = 0;  // another one with each key
    };
    std::shared_ptr<const Key> key() const {
        const std::lock_guard lock(mu_);
        return key_;
    }

private:
    // Device, file, size, time of the last changes: enough to notice a new file or new content.
    using Seen = std::tuple<dev_t, ino_t, off_t, std::int64_t, std::int64_t>;

    const std::string path_;
    std::optional<Seen> seen_;
    bool is_missing_told_ = false;
    mutable std::mutex mu_;
    std::shared_ptr<const Key> key_ = std::make_shared<const Key>();  // guarded by mu_
};

}  // namespace sluice::trtllm
