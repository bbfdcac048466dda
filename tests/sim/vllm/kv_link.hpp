// The transfer agent of one engine core: lets other engines read its blocks, and reads theirs.
//
// Reading is one-sided, as over RDMA: whoever names a block gets what lies there now. Only the
// notice after it says which request was meant.
//
// Owns:    a listening port and a worker thread.
// Threads: calls from any; Store functions and Done on the link's own, without its lock.
// Errors:  start() says why it cannot listen. A pull that fails is done with nothing.
// Limits:  one transfer at a time, as the engine's own worker.
// Source:  vLLM NixlConnector, pull: handshake, read, notice, heartbeat (0.22 and later).
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/result.hpp"
#include "tests/sim/engine/kv_content.hpp"
#include "tests/sim/support/http_server.hpp"
#include "tests/sim/vllm/pd_rules.hpp"

namespace sluice::sim::vllm {

class KvLink {
public:
    struct Store {
        // Empty: a block that does not exist was named.
        std::function<std::optional<std::vector<BlockContent>>(const std::vector<BlockId>&)> read;
        std::function<void(const std::string& request_id)> notice;
        std::function<void(const std::string& request_id)> heartbeat;
        // Blocks held under a transfer id (Mooncake); empty: not yet.
        std::function<std::optional<std::vector<BlockId>>(const std::string&)> lookup;
    };
    struct Pulled {
        bool is_ok = false;
        std::vector<BlockContent> blocks;
    };
    using Done = std::function<void(Pulled)>;
    using Job = std::uint64_t;

    KvLink(const PdRules& rules, std::string host, std::uint16_t port, std::uint32_t block_size);
    ~KvLink();
    KvLink(const KvLink&) = delete;
    KvLink& operator=(const KvLink&) = delete;

    Status start(Store store);
    const std::string& engine_id() const noexcept { return engine_id_; }
    const std::string& host() const noexcept { return host_; }
    std::uint16_t port() const noexcept { return server_.port(); }

    // A request that will read there is queued: its lease is kept alive from now on.
    Job watch(RemotePrefill remote, std::string notice_id);
    // Reads the last `count` blocks of it. Mooncake: all of them, once they are known.
    void pull(Job job, std::size_t count, Done done);
    // The request is gone. Blocks it never read are given back.
    void drop(Job job);

private:
    struct Task {
        RemotePrefill remote;
        std::string notice_id;
        std::size_t count = 0;
        Done done;  // empty: not asked to read yet
        std::uint64_t due_us = 0;
        std::uint64_t fails_us = 0;  // when a peer that cannot be met is given up
        bool is_dropped = false;
    };
    enum class Outcome { Done, Failed, Later };

    void serve(http::Request& request, http::Exchange& exchange);
    void run(const std::stop_token& stop);
    void beat(const Task& task);
    Outcome attempt(Task& task, Pulled& out);
    Outcome find_mooncake(Task& task);
    Outcome shake_hands(const Task& task);
    void notice(const Task& task, const std::string& host, std::uint16_t port) const;

    const PdRules rules_;
    const std::string host_;
    const std::uint32_t block_size_;
    const std::string engine_id_;
    Store store_;
    http::Server server_;
    // Worker thread: engines met before, by id, and where. They are not asked who they are again.
    std::map<std::string, std::pair<std::string, std::uint16_t>> known_;

    mutable std::mutex mu_;
    std::condition_variable_any wake_;
    std::map<Job, Task> tasks_;  // guarded by mu_
    Job next_job_ = 1;           // guarded by mu_
    std::jthread worker_;
};

}  // namespace sluice::sim::vllm
