#include "core/flow/id_patch.hpp"

#include <algorithm>

namespace sluice::flow {
namespace {

// How many bytes at the end of `text` are a beginning of `word`, less than the whole of it.
std::size_t begun_at_end(std::string_view text, std::string_view word) noexcept {
    const std::string_view tail = text.substr(text.size() - std::min(text.size(), word.size() - 1));
    for (std::size_t at = tail.find(word.front()); at != std::string_view::npos;
         at = tail.find(word.front(), at + 1)) {
        if (word.starts_with(tail.substr(at))) {
            return tail.size() - at;
        }
    }
    return 0;
}

}  // namespace

IdPatch::IdPatch(std::string_view theirs, std::string_view ours) : theirs_(theirs) {
    for (const char c : ours) {
        // A header's value holds no control characters but the tab.
        if (c == '"' || c == '\\') {
            ours_ += '\\';
        }
        if (c == '\t') {
            ours_ += "\\t";
        } else {
            ours_ += c;
        }
    }
}

std::string_view IdPatch::apply(std::string_view part, bool last) {
    // The usual case copies nothing.
    if (held_.empty() && part.find(theirs_) == std::string_view::npos &&
        (last || begun_at_end(part, theirs_) == 0)) {
        return part;
    }
    const std::string joined = held_.empty() ? std::string() : std::move(held_) + std::string(part);
    const std::string_view text = joined.empty() ? part : std::string_view(joined);
    held_.clear();
    out_.clear();
    out_.reserve(text.size());
    std::size_t at = 0;
    for (std::size_t found = text.find(theirs_); found != std::string_view::npos;
         found = text.find(theirs_, at)) {
        out_.append(text, at, found - at);
        out_ += ours_;
        at = found + theirs_.size();
    }
    const std::string_view rest = text.substr(at);
    const std::size_t kept = last ? 0 : begun_at_end(rest, theirs_);
    out_ += rest.substr(0, rest.size() - kept);
    held_ = rest.substr(rest.size() - kept);
    return out_;
}

}  // namespace sluice::flow
