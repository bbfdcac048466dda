#include "core/tokens/library.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace sluice::tokens {
namespace {

constexpr std::size_t kMaxNameBytes = 255;
constexpr std::chrono::seconds kMaxWait{10};

std::uint64_t to_us(std::chrono::milliseconds t) {
    return static_cast<std::uint64_t>(std::chrono::microseconds(t).count());
}

}  // namespace

Library::Library(std::filesystem::path root) : Library(std::move(root), Options()) {}

Library::Library(std::filesystem::path root, const Options& options)
    : root_(std::move(root)), options_(options) {}

std::string Library::directory_of(std::string_view model_name) {
    if (model_name.empty() || model_name.front() == '.' || model_name.size() > kMaxNameBytes ||
        model_name.find('\0') != std::string_view::npos) {
        return {};
    }
    std::string out;
    for (const char c : model_name) {
        if (c == '/') {
            out += "__";
        } else {
            out.push_back(c);
        }
    }
    return out.size() > kMaxNameBytes ? std::string() : out;
}

Library::Peek Library::peek(std::string_view model_name, std::uint64_t at_us) {
    const std::string dir = directory_of(model_name);
    if (dir.empty()) {
        return {};
    }
    const std::lock_guard lock(mu_);
    const auto at = entries_.find(dir);
    if (at == entries_.end()) {
        return {nullptr, true};
    }
    Entry& entry = at->second;
    entry.used_us = at_us;
    const bool is_due = entry.is_loading || at_us >= entry.retry_us;
    return {entry.model, entry.model == nullptr && is_due};
}

std::shared_ptr<const Model> Library::find(std::string_view model_name, std::uint64_t at_us) {
    const std::string dir = directory_of(model_name);
    if (dir.empty()) {
        return nullptr;
    }
    std::uint64_t clears = 0;
    {
        std::unique_lock lock(mu_);
        const auto is_loaded = [&] {
            const auto at = entries_.find(dir);
            return at == entries_.end() || !at->second.is_loading;
        };
        // Whoever comes while another loads the model waits for it: a miss now would send the first
        // requests astray.
        if (!loaded_.wait_for(lock, kMaxWait, is_loaded)) {
            return nullptr;
        }
        Entry& entry = entries_[dir];
        entry.used_us = at_us;
        if (entry.model != nullptr || at_us < entry.retry_us) {
            return entry.model;
        }
        entry.is_loading = true;
        entry.reason = "loading";
        clears = clears_;
        make_room(false);
    }
    auto loaded = Model::load(root_ / dir, options_.tokenizer);

    std::vector<std::shared_ptr<const Model>> dropped;  // destroyed after the lock
    const std::lock_guard lock(mu_);
    loaded_.notify_all();
    if (clears != clears_) {
        return loaded ? *loaded : nullptr;
    }
    Entry& entry = entries_[dir];
    entry.is_loading = false;
    if (loaded) {
        entry.model = *loaded;
        entry.reason.clear();
        entry.wait_us = 0;
        while (auto old = make_room(true)) {
            dropped.push_back(std::move(old));
        }
        return *loaded;
    }
    entry.reason = loaded.error().what;
    entry.wait_us = std::min(entry.wait_us == 0 ? to_us(options_.retry_first) : entry.wait_us * 2,
                             to_us(options_.retry_last));
    entry.retry_us = at_us + entry.wait_us;
    return nullptr;
}

// Lets the least recently used go, of the models or of the misses, if there are too many. What is
// being loaded stays: it is bounded by the number of threads.
std::shared_ptr<const Model> Library::make_room(bool of_models) {
    std::size_t count = 0;
    auto oldest = entries_.end();
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
        if (at->second.is_loading || (at->second.model != nullptr) != of_models) {
            continue;
        }
        ++count;
        if (oldest == entries_.end() || at->second.used_us < oldest->second.used_us) {
            oldest = at;
        }
    }
    if (count <= (of_models ? options_.max_models : options_.max_misses)) {
        return nullptr;
    }
    auto old = std::move(oldest->second.model);
    entries_.erase(oldest);
    return old;
}

std::string Library::reason(std::string_view model_name) const {
    const std::string dir = directory_of(model_name);
    if (dir.empty()) {
        return "not a usable model name";
    }
    const std::lock_guard lock(mu_);
    const auto at = entries_.find(dir);
    return at == entries_.end() ? "not loaded" : at->second.reason;
}

void Library::clear() {
    Entries old;
    const std::lock_guard lock(mu_);
    ++clears_;
    entries_.swap(old);
}

Library::Use Library::use() const {
    const std::lock_guard lock(mu_);
    const auto models = std::ranges::count_if(
        entries_, [](const auto& entry) { return entry.second.model != nullptr; });
    return {static_cast<std::size_t>(models), entries_.size() - static_cast<std::size_t>(models)};
}

}  // namespace sluice::tokens
