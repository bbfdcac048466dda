#include "tests/sim/trtllm/block_tree.hpp"

#include <algorithm>

namespace sluice::sim::trtllm {

Node* BlockTree::find(const std::string& identity) const {
    const auto it = nodes_.find(identity);
    return it == nodes_.end() ? nullptr : it->second.get();
}

std::uint64_t BlockTree::available() const noexcept {
    return primary_ - taken_ - resident_ + idle_primary_.size();
}

std::uint64_t BlockTree::cost(const std::vector<Node*>& nodes) const {
    return static_cast<std::uint64_t>(
        std::count_if(nodes.begin(), nodes.end(), [](const Node* n) { return n->users == 0; }));
}

void BlockTree::evict_one() {
    Node* victim = idle_primary_.begin()->second;
    idle_primary_.erase(idle_primary_.begin());
    --resident_;
    if (host_ == 0) {
        return remove(victim);
    }
    if (on_host_ == host_) {
        Node* oldest = idle_host_.empty() ? nullptr : idle_host_.begin()->second;
        if (oldest == nullptr) {
            return remove(victim);
        }
        idle_host_.erase(idle_host_.begin());
        --on_host_;
        remove(oldest);
    }
    ++on_host_;
    victim->level = 1;
    idle_host_.insert({rank_of(*victim), victim});
    if (victim->is_told) {
        log_.updated(name_, victim->wire, 0, 1);
    }
}

void BlockTree::remove(Node* n) {
    if (n->is_told) {
        log_.removed(name_, n->wire);
    }
    auto& siblings = n->parent == nullptr ? roots_ : n->parent->children;
    siblings.erase(std::find(siblings.begin(), siblings.end(), n));
    nodes_.erase(std::string(n->identity));
}

void BlockTree::take(std::uint64_t n) {
    for (; n > 0; --n) {
        if (taken_ + resident_ == primary_) {
            evict_one();
        }
        ++taken_;
    }
}

void BlockTree::use(const std::vector<Node*>& nodes) {
    // Out of the eviction order first, all of them: bringing one back must not push out another.
    for (Node* n : nodes) {
        if (n->users++ == 0) {
            order(n->level).erase({rank_of(*n), n});
        }
    }
    for (Node* n : nodes) {
        if (n->level == 1) {
            take(1);
            --taken_;
            ++resident_;
            --on_host_;
            n->level = 0;
            if (n->is_told) {
                log_.updated(name_, n->wire, 1, 0);
            }
        }
    }
}

void BlockTree::drop(const std::vector<Node*>& nodes, std::uint64_t now) {
    for (Node* n : nodes) {
        n->used_at = now;
        if (--n->users == 0) {
            idle_primary_.insert({rank_of(*n), n});
        }
    }
}

Node* BlockTree::insert(Node* parent, Node node) {
    node.parent = parent;
    node.depth = parent == nullptr ? 0 : parent->depth + 1;
    node.users = 1;
    auto owned = std::make_unique<Node>(std::move(node));
    Node* out = owned.get();
    (parent == nullptr ? roots_ : parent->children).push_back(out);
    nodes_[out->identity] = std::move(owned);
    --taken_;
    ++resident_;
    return out;
}

std::pair<const Node*, std::size_t> BlockTree::closest(const Node* parent,
                                                       const std::vector<Element>& tokens) const {
    std::pair<const Node*, std::size_t> best{nullptr, 0};
    for (const Node* n : parent == nullptr ? roots_ : parent->children) {
        const auto at =
            std::mismatch(n->tokens.begin(), n->tokens.end(), tokens.begin(), tokens.end());
        const auto length = static_cast<std::size_t>(at.first - n->tokens.begin());
        if (length > best.second) {
            best = {n, length};
        }
    }
    return best;
}

double BlockTree::usage() const noexcept {
    return 1.0 - static_cast<double>(available()) / static_cast<double>(primary_);
}

std::vector<std::pair<std::string, int>> BlockTree::stored() const {
    std::vector<std::pair<std::string, int>> out;
    for (const auto& [identity, node] : nodes_) {
        if (node->is_full) {
            out.emplace_back(node->wire, node->level);
        }
    }
    return out;
}

bool BlockTree::reset() {
    if (taken_ != 0 || idle_primary_.size() != resident_) {
        return false;
    }
    for (Order* o : {&idle_primary_, &idle_host_}) {
        while (!o->empty()) {
            Node* n = o->begin()->second;
            o->erase(o->begin());
            remove(n);
        }
    }
    resident_ = 0;
    on_host_ = 0;
    return true;
}

}  // namespace sluice::sim::trtllm
