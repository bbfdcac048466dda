// Looks on while a response is relayed: counts events, notices [DONE], finds the usage numbers.
//
// It never holds a byte back and never changes one.
//
// Threads: one a response.
// Limits:  of an event that is longer, the first kTail bytes are kept; of a body the last 2 * kTail
//          and the part at hand.
// Source:  vLLM contract, generation (usage shape, one `data:` line an event; others send CRLF or
//          no space behind the colon); the usage object stands near the end of a JSON reply.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::flow {

struct Usage {
    std::optional<std::uint64_t> prompt_tokens;
    std::optional<std::uint64_t> completion_tokens;
    std::optional<std::uint64_t> cached_tokens;  // prompt_tokens_details.cached_tokens
};

// The numbers of the last usage object in a piece of JSON text; empty members where none stands.
Usage read_usage(std::string_view json);

// The first event of a stream when it is an error: its JSON text, else empty.
std::string_view leading_error(std::string_view stream) noexcept;
// Whether more of the stream may say that its first event is an error.
bool may_become_error(std::string_view stream) noexcept;

class Observer {
public:
    static constexpr std::size_t kTail = 8192;
    static constexpr std::size_t kMaxError = 1024;

    enum class Kind : std::uint8_t { Json, Events, Other };
    // By Content-Type.
    static Kind kind_of(std::string_view content_type) noexcept;

    void begin(Kind kind);
    void see(std::string_view bytes);

    // Valid at any time; complete when the body is.
    Usage usage() const;
    bool has_events() const noexcept { return has_events_; }
    // The last event that was an error, its first kMaxError bytes; empty: none was.
    const std::string& error() const noexcept { return error_; }
    bool is_done() const noexcept { return is_done_; }  // [DONE] came
    // What has to come first if an event is added here: what was relayed may end within one.
    std::string_view event_gap() const noexcept {
        // Two line ends: the first may turn out to be the second half of one that was cut.
        return tail_.empty() && !is_line_cut_ && is_between_events_ ? "" : "\n\n";
    }
    Kind kind() const noexcept { return kind_; }

private:
    void see_events(std::string_view bytes);
    void see_line(std::string_view line);
    void keep_tail(std::string_view bytes);

    Kind kind_ = Kind::Other;
    std::string tail_;  // Events: an unfinished line; Json: the end of the body so far
    std::string error_;
    Usage usage_;
    bool has_events_ = false;
    bool is_done_ = false;
    bool is_line_cut_ = false;
    bool is_between_events_ = true;  // the last line was empty, or there was none
};

}  // namespace sluice::flow
