#include "core/flow/shared.hpp"

namespace sluice::flow {

void Scratch::reset() {
    receipt.reset();
    prompt.reset();
    if (prompt.tokens.capacity() > kKeptTokens) {
        prompt.tokens = {};
    }
    observer.begin(Observer::Kind::Other);
    reply.clear();
    upstream_head.clear();
    first_part = {};
    pieces.clear();
    tried.clear();
}

}  // namespace sluice::flow
