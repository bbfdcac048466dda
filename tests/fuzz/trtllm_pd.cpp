// Any text as a context leg's reply: a hand-off comes back as it was packed, an answer is JSON of
// its own, whole or in events, and says nothing of engines.
#include <cstdlib>
#include <string>

#include "plugins/trtllm/accepts.hpp"
#include "plugins/trtllm/context_reply.hpp"
#include "plugins/trtllm/early_exit.hpp"
#include "plugins/trtllm/pd.hpp"

namespace {

using namespace sluice;
using namespace sluice::trtllm;

void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}

void check_events(std::string_view events) {
    while (true) {
        require(events.starts_with("data: "));
        events.remove_prefix(6);
        const std::size_t end = events.find("\n\n");
        require(end != std::string_view::npos);
        const std::string_view event = events.substr(0, end);
        events.remove_prefix(end + 2);
        if (event == "[DONE]") {
            require(events.empty());
            return;
        }
        require(spans::members_of(event).has_value());
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    (void)refused_members(text);
    (void)parse_schema(text);
    (void)accepted_by_release(text);
    (void)stream_wish(text);
    try {
        (void)read_handoff(borrow_bytes(text));
    } catch (const Failure&) {
        // Whoever packs is the adapter itself.
    }
    const auto reply = read_context_reply(text);
    if (!reply) {
        return 0;
    }
    (void)reply->cached_tokens();
    std::string_view fault;
    const std::string_view params = reply->params(fault);
    require(params.empty() != fault.empty());
    if (!params.empty()) {
        const std::string object = for_generation(params);
        require(spans::members_of(object).has_value());
        const std::string packed = pack({"id", object, reply->ids(), reply->usage()});
        const Handoff back = read_handoff(borrow_bytes(packed));
        require(back.params == object && back.ids == reply->ids() && back.usage == reply->usage());
        (void)signature_of(object, "key");
    }
    (void)token_ids(reply->ids());
    const std::string whole = whole_answer(*reply);
    const auto again = read_context_reply(whole);
    require(again.has_value());
    require(spans::value_of(again->members, "prompt_token_ids").empty());
    require(spans::value_of(again->choice_members, "disaggregated_params").empty());
    if (reply->is_complete()) {
        for (const bool is_chat : {true, false}) {
            check_events(streamed_answer(*reply, is_chat, {true, true}));
        }
    }
    return 0;
}
