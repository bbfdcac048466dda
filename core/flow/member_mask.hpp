// Puts null in the place of what engines say to each other in an answer: the values of members that
// clients may not send either.
//
// Every member of such a name is meant: inside a JSON string the quote behind the name would be
// escaped. Bytes that may be the beginning of one wait for the next part, everything else goes on
// at once.
//
// Threads: one response's.
// Limits:  holds back less than 128 bytes, however long a value is.
// Source:  TensorRT-LLM: a generation worker's answer repeats the hand-off it was given, as
//          choices[].disaggregated_params.
#pragma once
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice::flow {

class MemberMask {
public:
    // Names of members; those of members of members ("a.b") are not looked for.
    explicit MemberMask(std::span<const std::string> names);

    // What of the response may go on now; valid until the next call. `last`: nothing follows.
    std::string_view apply(std::string_view part, bool last);

private:
    static constexpr std::size_t kMost = 127;

    // How `text`, which begins with a quote, goes on.
    struct Look {
        enum class Is : std::uint8_t { Member, Cut, Other } is = Is::Other;
        std::size_t value_at = 0;
    };
    Look look(std::string_view text) const noexcept;
    std::size_t next_quote(std::string_view text, std::size_t at) const noexcept;
    // Passes over the value, as far as it is here.
    std::size_t skip(std::string_view text) noexcept;

    const std::span<const std::string> names_;
    std::bitset<256> is_first_;  // letters that names begin with
    std::string held_;           // the end of the last part
    std::string out_;
    // Of the value that is passed over.
    bool is_skipping_ = false;
    bool has_begun_ = false;
    bool is_string_ = false;
    bool is_escaped_ = false;
    std::size_t depth_ = 0;
};

}  // namespace sluice::flow
