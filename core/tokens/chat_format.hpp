// How a template takes message content, found from its syntax tree.
//
// Threads: any.
// Source:  vLLM 0.32, content format "auto": "openai" if some `for` iterates over the content of an
//          item of a loop over `messages`; tests/vectors/chat/manifest.json has the answers.
#pragma once
#include "core/tokens/chat.hpp"
#include "core/tokens/jinja/ast.hpp"

namespace sluice::tokens {

ContentFormat detect_content_format(const jinja::Program& program);

}  // namespace sluice::tokens
