#include "plugins/vllm/replies.hpp"

namespace sluice::vllm {

ReplyMeaning meaning_of(std::uint32_t http_code, std::string_view body) noexcept {
    const auto says = [&](std::string_view phrase) {
        return body.find(phrase) != std::string_view::npos;
    };
    switch (http_code) {
        case 429:
            return ReplyMeaning::Busy;
        case 500:
            if (says("cannot schedule new futures after shutdown")) {
                return ReplyMeaning::Draining;
            }
            return says("EngineCore encountered an issue") ? ReplyMeaning::Dead
                                                           : ReplyMeaning::Relay;
        case 503:
            // A queue that is full says so; anything else is a proxy that finds no engine.
            return says("busy") || says("overloaded") || says("Too many requests")
                       ? ReplyMeaning::Busy
                       : ReplyMeaning::Elsewhere;
        default:
            return ReplyMeaning::Relay;
    }
}

}  // namespace sluice::vllm
