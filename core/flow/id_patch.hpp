// Puts the client's request id in the place of the one the engines were given for a split request:
// engines make the id of an answer of it, and it names their addresses.
//
// Bytes that may be the beginning of one wait for the next part, everything else goes on at once.
//
// Threads: one response's.
// Limits:  holds back less than the length of the engines' id.
// Source:  vLLM: `id` of an answer is a prefix and the request's X-Request-Id.
#pragma once
#include <string>
#include <string_view>

namespace sluice::flow {

class IdPatch {
public:
    // `theirs` is plain ASCII and not empty; `ours` stands within JSON text, and is escaped for it.
    IdPatch(std::string_view theirs, std::string_view ours);

    // What of the response may go on now; valid until the next call. `last`: nothing follows.
    std::string_view apply(std::string_view part, bool last);

private:
    const std::string theirs_;
    std::string ours_;
    std::string held_;  // the end of the last part
    std::string out_;
};

}  // namespace sluice::flow
