// The models under one root directory, by the name a request uses.
//
// A name becomes one directory below the root: '/' is written "__". Names that are empty, start
// with '.', hold NUL or exceed 255 bytes are misses and never reach the file system, so no name
// leads outside the root.
//
// Threads: any. A load runs on its caller's thread without the lock; others who ask for the same
//          name meanwhile wait for it, 10 s at most. On event loops use peek().
// Errors:  a miss is a null pointer; reason() says why.
// Limits:  Options. Past max_models the least recently used is let go (requests that hold it keep
//          it alive); past max_misses the oldest miss is forgotten. A miss is retried after
//          retry_first, doubling to retry_last.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "core/base/clock.hpp"
#include "core/tokens/model.hpp"

namespace sluice::tokens {

class Library {
public:
    struct Options {
        std::size_t max_models = 32;
        std::size_t max_misses = 1024;
        std::chrono::milliseconds retry_first{2'000};
        std::chrono::milliseconds retry_last{120'000};
        Tokenizer::Options tokenizer;
    };

    explicit Library(std::filesystem::path root);
    Library(std::filesystem::path root, const Options& options);

    // The model, loading it first if that is due. nullptr is a miss.
    std::shared_ptr<const Model> find(std::string_view model_name, std::uint64_t at_us = now_us());

    struct Peek {
        std::shared_ptr<const Model> model;  // null: not loaded
        bool is_load_due = false;            // find() would try the disk, or wait for who does
    };
    // What is known without touching the disk.
    Peek peek(std::string_view model_name, std::uint64_t at_us = now_us());

    // Why the name is a miss; empty for a loaded model, "not loaded" before the first find().
    std::string reason(std::string_view model_name) const;
    // Forgets everything, so that changed files are read again.
    void clear();

    struct Use {
        std::size_t models = 0;
        std::size_t misses = 0;
    };
    Use use() const;

    // The directory name of a model name; empty for one that is always a miss.
    static std::string directory_of(std::string_view model_name);

private:
    struct Entry {
        std::shared_ptr<const Model> model;
        std::string reason;
        bool is_loading = false;
        std::uint64_t used_us = 0;   // last asked for
        std::uint64_t retry_us = 0;  // a miss: not before
        std::uint64_t wait_us = 0;   // a miss: the current back-off
    };
    using Entries = std::map<std::string, Entry, std::less<>>;

    std::shared_ptr<const Model> make_room(bool of_models);

    const std::filesystem::path root_;
    const Options options_;
    mutable std::mutex mu_;
    std::condition_variable loaded_;
    Entries entries_;           // guarded by mu_
    std::uint64_t clears_ = 0;  // guarded by mu_; a load that began before a clear() is not kept
};

}  // namespace sluice::tokens
