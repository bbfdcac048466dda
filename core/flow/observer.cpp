#include "core/flow/observer.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/http/message.hpp"

namespace sluice::flow {
namespace {

constexpr std::string_view kDataField = "data:";
constexpr std::string_view kErrorEvent = "{\"error\"";

// The value of a stream's first line and what is behind it; empty when that is no data.
std::string_view leading_data(std::string_view stream) noexcept {
    if (!stream.starts_with(kDataField)) {
        return {};
    }
    stream.remove_prefix(kDataField.size());
    stream.remove_prefix(stream.starts_with(' ') ? 1 : 0);
    return stream;
}

// Where a quoted name stands in JSON text. Quotes are everywhere there, underscores are not: the
// name is looked for by its first one.
std::size_t find_name(std::string_view text, std::string_view quoted_name) {
    const std::size_t before = quoted_name.find('_');
    for (std::size_t from = before; from < text.size();) {
        const std::size_t mark = text.find('_', from);
        if (mark == std::string_view::npos) {
            break;
        }
        if (text.substr(mark - before, quoted_name.size()) == quoted_name) {
            return mark - before;
        }
        from = mark + 1;
    }
    return std::string_view::npos;
}

// The last place of a quoted name: usage ends a reply, so a few quotes are looked at.
std::size_t find_last_name(std::string_view text, std::string_view quoted_name) {
    for (std::size_t end = text.size(); end > 0;) {
        const void* found = ::memrchr(text.data(), '"', end);
        if (found == nullptr) {
            break;
        }
        end = static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
        if (text.substr(end, quoted_name.size()) == quoted_name) {
            return end;
        }
    }
    return std::string_view::npos;
}

// The number behind `"name":` in `text`; the first one.
std::optional<std::uint64_t> number_of(std::string_view text, std::string_view quoted_name) {
    const std::size_t at = find_name(text, quoted_name);
    if (at == std::string_view::npos) {
        return std::nullopt;
    }
    std::size_t i = at + quoted_name.size();
    while (i < text.size() && (text[i] == ' ' || text[i] == ':')) {
        ++i;
    }
    std::uint64_t n = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), n);
    if (error != std::errc() || end == text.data() + i) {
        return std::nullopt;
    }
    return n;
}

}  // namespace

std::string_view leading_error(std::string_view stream) noexcept {
    const std::string_view value = leading_data(stream);
    return value.starts_with(kErrorEvent) ? value.substr(0, value.find_first_of("\r\n"))
                                          : std::string_view();
}

bool may_become_error(std::string_view stream) noexcept {
    if (stream.size() < kDataField.size()) {
        return kDataField.starts_with(stream);
    }
    const std::string_view value = leading_data(stream);
    if (value.empty()) {
        return stream == kDataField || stream == "data: ";
    }
    return kErrorEvent.starts_with(value) ||
           (value.starts_with(kErrorEvent) &&
            value.find_first_of("\r\n") == std::string_view::npos);
}

Usage read_usage(std::string_view json) {
    // Inside a JSON string the quotes would be escaped, so this name is a member's.
    const std::size_t at = find_last_name(json, "\"usage\"");
    if (at == std::string_view::npos) {
        return {};
    }
    const std::string_view rest = json.substr(at);
    Usage out;
    out.prompt_tokens = number_of(rest, "\"prompt_tokens\"");
    if (!out.prompt_tokens) {
        return {};  // "usage":null of an event that carries none
    }
    out.completion_tokens = number_of(rest, "\"completion_tokens\"");
    out.cached_tokens = number_of(rest, "\"cached_tokens\"");
    return out;
}

Observer::Kind Observer::kind_of(std::string_view content_type) noexcept {
    const std::string_view type = content_type.substr(0, content_type.find(';'));
    if (type.starts_with("text/event-stream")) {
        return Kind::Events;
    }
    if (type.starts_with("application/json")) {
        return Kind::Json;
    }
    return Kind::Other;
}

void Observer::begin(Kind kind) {
    kind_ = kind;
    tail_.clear();
    if (tail_.capacity() > 4 * kTail) {
        tail_.shrink_to_fit();
    }
    usage_ = {};
    error_.clear();
    has_events_ = false;
    is_done_ = false;
    is_line_cut_ = false;
    is_between_events_ = true;
}

void Observer::see(std::string_view bytes) {
    if (kind_ == Kind::Events) {
        see_events(bytes);
    } else if (kind_ == Kind::Json) {
        keep_tail(bytes);
    }
}

// What a long body lets go of is looked through first: in a chat with its token ids the usage
// stands before them.
void Observer::keep_tail(std::string_view bytes) {
    tail_.append(bytes);
    if (tail_.size() <= 2 * kTail) {
        return;
    }
    const Usage usage = read_usage(tail_);
    if (usage.prompt_tokens) {
        usage_ = usage;
    }
    tail_.erase(0, tail_.size() - kTail);
}

// Lines end with LF, CR LF or CR; the two halves of a CR LF may come apart, which leaves an empty
// line that says nothing.
void Observer::see_events(std::string_view bytes) {
    while (!bytes.empty()) {
        const void* found = std::memchr(bytes.data(), '\n', bytes.size());
        const std::size_t end =
            found == nullptr
                ? bytes.find('\r')
                : static_cast<std::size_t>(static_cast<const char*>(found) - bytes.data());
        if (end == std::string_view::npos) {
            const std::size_t room = kTail - std::min(kTail, tail_.size());
            is_line_cut_ = is_line_cut_ || bytes.size() > room;
            tail_.append(bytes.substr(0, room));
            return;
        }
        is_between_events_ = tail_.empty() && (end == 0 || (end == 1 && bytes.front() == '\r'));
        if (tail_.empty()) {
            see_line(bytes.substr(0, end));
        } else {
            const std::size_t room = kTail - std::min(kTail, tail_.size());
            tail_.append(bytes.substr(0, std::min(end, room)));
            if (!is_line_cut_) {
                see_line(tail_);
            }
            tail_.clear();
        }
        is_line_cut_ = false;
        bytes.remove_prefix(end + 1);
    }
}

void Observer::see_line(std::string_view line) {
    // A lone CR inside: the lines before it were found too late to matter singly.
    for (std::size_t cr = line.find('\r'); cr != std::string_view::npos; cr = line.find('\r')) {
        see_line(line.substr(0, cr));
        line.remove_prefix(cr + 1);
    }
    if (!line.starts_with("data:")) {
        return;
    }
    line.remove_prefix(5);
    if (line.starts_with(' ')) {
        line.remove_prefix(1);
    }
    has_events_ = true;
    if (line == "[DONE]") {
        is_done_ = true;
        return;
    }
    if (line.starts_with(kErrorEvent)) {
        error_ = line.substr(0, kMaxError);
    }
    if (find_name(line, "\"prompt_tokens\"") != std::string_view::npos) {
        const Usage usage = read_usage(line);
        if (usage.prompt_tokens) {
            usage_ = usage;
        }
    }
}

Usage Observer::usage() const {
    if (kind_ != Kind::Json) {
        return usage_;
    }
    const Usage usage = read_usage(tail_);
    return usage.prompt_tokens ? usage : usage_;
}

}  // namespace sluice::flow
