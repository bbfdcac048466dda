#include "core/route/prompt_chain.hpp"

namespace sluice::route {
namespace {

std::string_view text_of(const json::Body& body, std::string_view name) {
    const json::Field* field = body.find(name);
    return field == nullptr ? std::string_view() : body.value(*field);
}

}  // namespace

void assign_chain(Chain& out, const json::Body& body, const Facts& facts,
                  std::string_view served_model, const Prompt* prompt) {
    if (prompt != nullptr && prompt->miss.empty() && !prompt->tokens.empty()) {
        out.assign(chain_root('t', served_model, facts.salt, {}), prompt->tokens);
        return;
    }
    // Tools stand before the messages in a prompt.
    const bool is_chat = facts.api == Api::Chat;
    out.assign(chain_root('j', served_model, facts.salt, text_of(body, "tools")),
               text_of(body, is_chat ? "messages" : "prompt"));
}

}  // namespace sluice::route
