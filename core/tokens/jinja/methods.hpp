// The methods of str.
//
// Threads: one interpreter, one thread.
// Source:  CPython 3.11.
#pragma once
#include "core/tokens/jinja/interp.hpp"

namespace sluice::tokens::jinja {

Value text_method(Interp& in, const Value& self, Method method, const Args& args);

// methods_find.cpp: those that look for a text or look at every character.
Value has_affix(Interp& in, const Value& self, Method method, const Bound& args);
Value find_method(Interp& in, const Value& self, Method method, const Bound& args);
Value partition(Interp& in, const Value& self, Method method, const Bound& args);
Value is_all(const Value& self, Method method);
Value is_cased_as(const Value& self, Method method);

}  // namespace sluice::tokens::jinja
