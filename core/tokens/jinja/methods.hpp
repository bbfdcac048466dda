// The methods of str.
//
// Threads: one interpreter, one thread.
// Source:  CPython 3.11.
#pragma once
#include "core/tokens/jinja/interp.hpp"

namespace sluice::tokens::jinja {

Value text_method(Interp& in, const Value& self, Method method, const Args& args);

}  // namespace sluice::tokens::jinja
