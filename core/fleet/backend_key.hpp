// The key a rule sends to its engines in the place of the client's, as its file holds it.
//
// The file is looked at again from time to time, so that a rotated key needs no edit of the rule.
// What cannot be used any more leaves the last good key in force.
//
// Threads: refresh() control; authorization() any.
// Errors:  read() and refresh(): NotFound, Invalid with a reason that never shows the content.
// Limits:  kMaxKeyBytes; one line of visible ASCII, a line end behind it is dropped. The file is
//          its owner's alone (mode 0600 or less).
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "core/base/result.hpp"
#include "core/base/snapshot.hpp"

namespace sluice::fleet {

class BackendKey {
public:
    static constexpr std::size_t kMaxKeyBytes = 4096;

    explicit BackendKey(std::string path) : path_(std::move(path)) {}

    const std::string& path() const noexcept { return path_; }
    // Reads the file if it is not the one read before, or `is_forced`. True: the key is another one
    // now.
    Result<bool> refresh(bool is_forced = false);
    // "Bearer ..."; empty as long as no key could be read.
    std::shared_ptr<const std::string> authorization() const { return authorization_.get(); }

private:
    // Device, file, size, time of the last change: enough to notice a new file or new content.
    using Seen = std::tuple<dev_t, ino_t, off_t, std::int64_t, std::int64_t>;

    const std::string path_;
    std::optional<Seen> seen_;
    Snapshot<std::string> authorization_;
};

using BackendKeyPtr = std::shared_ptr<BackendKey>;

}  // namespace sluice::fleet
