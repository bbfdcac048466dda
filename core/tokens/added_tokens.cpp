#include "core/tokens/added_tokens.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "core/tokens/unicode.hpp"

namespace sluice::tokens {
namespace {

unsigned byte_at(std::string_view text, std::size_t i) noexcept {
    return static_cast<unsigned char>(text[i]);
}

bool is_word_before(std::string_view text, std::size_t at) noexcept {
    return at != 0 &&
           unicode::is_word(unicode::class_of(unicode::decode_before(text.data() + at).value));
}
bool is_word_after(std::string_view text, std::size_t at) noexcept {
    return at != text.size() &&
           unicode::is_word(unicode::class_of(unicode::decode(text.data() + at).value));
}

// The start of the white space that ends at `at`, not looking before `floor`.
std::size_t white_before(std::string_view text, std::size_t at, std::size_t floor) noexcept {
    while (at > floor) {
        const unicode::Decoded c = unicode::decode_before(text.data() + at);
        if (!unicode::is_white(unicode::class_of(c.value))) {
            break;
        }
        at -= c.length;
    }
    return at;
}
std::size_t white_after(std::string_view text, std::size_t at) noexcept {
    while (at != text.size()) {
        const unicode::Decoded c = unicode::decode(text.data() + at);
        if (!unicode::is_white(unicode::class_of(c.value))) {
            break;
        }
        at += c.length;
    }
    return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) {
    std::map<std::string, AddedToken> by_content;
    for (AddedToken& token : tokens) {
        if (!token.content.empty()) {
            const std::string content = token.content;
            by_content.insert_or_assign(content, std::move(token));
        }
    }
    for (auto& entry : by_content) {
        tokens_.push_back(std::move(entry.second));
    }
    root_.fill(kNone);
    if (tokens_.empty()) {
        return;
    }
    build(0, tokens_.size(), 0);
    const Node& root = nodes_[0];
    for (std::uint32_t i = 0; i < root.edge_count; ++i) {
        const Edge& edge = edges_[root.first_edge + i];
        root_[edge.byte] = edge.node;
        singles_.set(edge.byte);
    }
    only_first_ = root.edge_count == 1 ? edges_[root.first_edge].byte : -1;
    for (const AddedToken& token : tokens_) {
        const std::size_t first = byte_at(token.content, 0) << 8U;
        if (token.content.size() == 1) {
            for (std::size_t second = 0; second < 256; ++second) {
                pairs_.set(first | second);
            }
        } else {
            pairs_.set(first | byte_at(token.content, 1));
        }
    }
}

// The node for tokens_[from, to), which agree in their first `depth` bytes.
std::uint32_t AddedTokens::build(std::size_t from, std::size_t to, std::size_t depth) {
    const auto node = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
    if (tokens_[from].content.size() == depth) {
        nodes_[node].token = static_cast<std::uint32_t>(from);
        ++from;
    }
    const auto first_edge = static_cast<std::uint32_t>(edges_.size());
    std::vector<std::size_t> begins;
    for (std::size_t i = from; i < to; ++i) {
        const unsigned byte = byte_at(tokens_[i].content, depth);
        if (i == from || byte != byte_at(tokens_[i - 1].content, depth)) {
            begins.push_back(i);
            edges_.push_back({static_cast<unsigned char>(byte), 0});
        }
    }
    nodes_[node].first_edge = first_edge;
    nodes_[node].edge_count = static_cast<std::uint32_t>(begins.size());
    for (std::size_t k = 0; k < begins.size(); ++k) {
        const std::size_t stop = k + 1 < begins.size() ? begins[k + 1] : to;
        const std::uint32_t child = build(begins[k], stop, depth + 1);
        edges_[first_edge + k].node = child;
    }
    return node;
}

bool AddedTokens::longest_at(std::string_view text, std::size_t at, Raw& raw) const noexcept {
    std::uint32_t node = root_[byte_at(text, at)];
    std::size_t i = at + 1;
    bool found = false;
    while (node != kNone) {
        if (nodes_[node].token != kNone) {
            raw = {at, i, nodes_[node].token};
            found = true;
        }
        if (i == text.size()) {
            break;
        }
        const Edge* const edges = edges_.data() + nodes_[node].first_edge;
        const Edge* const end = edges + nodes_[node].edge_count;
        const Edge* const edge = std::find_if(
            edges, end, [byte = byte_at(text, i)](const Edge& e) { return e.byte == byte; });
        node = edge != end ? edge->node : kNone;
        ++i;
    }
    return found;
}

bool AddedTokens::find(std::string_view text, std::size_t from, Raw& raw) const noexcept {
    for (std::size_t at = from; at < text.size(); ++at) {
        if (only_first_ >= 0) {
            const void* const hit = std::memchr(text.data() + at, only_first_, text.size() - at);
            if (hit == nullptr) {
                return false;
            }
            at = static_cast<std::size_t>(static_cast<const char*>(hit) - text.data());
        } else if (!singles_[byte_at(text, at)]) {
            continue;
        }
        const bool may_match =
            at + 1 == text.size() || pairs_[byte_at(text, at) << 8U | byte_at(text, at + 1)];
        if (may_match && longest_at(text, at, raw)) {
            return true;
        }
    }
    return false;
}

bool AddedTokens::Cursor::next(Match& match) {
    if (tokens_.empty()) {
        return false;
    }
    Raw raw{};
    while (tokens_.find(text_, from_, raw)) {
        from_ = raw.end;
        const AddedToken& token = tokens_.tokens_[raw.token];
        if (token.is_single_word &&
            (is_word_before(text_, raw.begin) || is_word_after(text_, raw.end))) {
            continue;
        }
        match = {raw.begin, raw.end, token.id};
        if (token.strips_left) {
            match.begin = std::max(white_before(text_, raw.begin, last_end_), last_end_);
        }
        if (token.strips_right) {
            match.end = white_after(text_, raw.end);
        }
        last_end_ = match.end;
        return true;
    }
    return false;
}

}  // namespace sluice::tokens
