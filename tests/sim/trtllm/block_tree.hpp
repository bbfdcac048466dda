// One pool of KV blocks: the tree of stored blocks, which of them are in use, and what is evicted.
//
// Blocks that are written to count as taken; stored ones are nodes of the tree. A node that nobody
// uses stays findable until its block is needed: then the one unused for the longest goes, leaves
// before what they hang on, to the host level if there is one.
//
// Owns:    its nodes.
// Threads: none of its own; the engine's lock.
// Units:   blocks.
// Source:  TensorRT-LLM's WindowBlockManager and LRU eviction policy; contract sections 2.4
// and 2.5.
#pragma once
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/sim/engine/kv_content.hpp"
#include "tests/sim/trtllm/block_key.hpp"
#include "tests/sim/trtllm/event_log.hpp"

namespace sluice::sim::trtllm {

struct Node {
    BlockKey key;
    std::string identity;
    std::string wire;
    Node* parent = nullptr;  // null: a child of the root
    std::vector<Node*> children;
    std::vector<Element> tokens;
    BlockContent content;  // of these tokens, where it is kept
    std::uint32_t depth = 0;
    bool is_full = true;
    bool is_told = true;  // in events
    int level = 0;        // 0 GPU, 1 host
    std::uint32_t users = 0;
    std::uint64_t used_at = 0;
};

class BlockTree {
public:
    BlockTree(PoolName name, std::uint64_t primary, std::uint64_t host, EventLog& log)
        : name_(name), primary_(primary), host_(host), log_(log) {}

    const PoolName& name() const noexcept { return name_; }
    Node* find(const std::string& identity) const;
    // Blocks that can be taken, evictions included.
    std::uint64_t available() const noexcept;
    // How many blocks of available() it costs to use these nodes.
    std::uint64_t cost(const std::vector<Node*>& nodes) const;
    // Precondition: n <= available().
    void take(std::uint64_t n);
    void give_back(std::uint64_t n) { taken_ -= n; }
    // One more user of each; those on the host come back. Precondition: cost() <= available().
    void use(const std::vector<Node*>& nodes);
    // One user less; `now` orders evictions.
    void drop(const std::vector<Node*>& nodes, std::uint64_t now);
    // Makes one taken block a node with one user.
    Node* insert(Node* parent, Node node);
    // The child of `parent` (null: the root) with the longest common beginning, and its length.
    std::pair<const Node*, std::size_t> closest(const Node* parent,
                                                const std::vector<Element>& tokens) const;

    double usage() const noexcept;
    // Full blocks by wire hash, and the level each is on.
    std::vector<std::pair<std::string, int>> stored() const;
    // Forgets everything. False while anything is in use.
    bool reset();

private:
    using Order = std::set<std::pair<std::pair<std::uint64_t, std::int64_t>, Node*>>;
    static std::pair<std::uint64_t, std::int64_t> rank_of(const Node& n) {
        return {n.used_at, -static_cast<std::int64_t>(n.depth)};
    }
    Order& order(int level) { return level == 0 ? idle_primary_ : idle_host_; }
    void evict_one();
    void remove(Node* n);

    const PoolName name_;
    const std::uint64_t primary_;
    const std::uint64_t host_;
    EventLog& log_;
    std::unordered_map<std::string, std::unique_ptr<Node>> nodes_;  // by identity
    std::vector<Node*> roots_;
    Order idle_primary_;  // nodes without users, the next to go first
    Order idle_host_;
    std::uint64_t taken_ = 0;
    std::uint64_t resident_ = 0;  // nodes on level 0
    std::uint64_t on_host_ = 0;   // nodes on level 1
};

}  // namespace sluice::sim::trtllm
