// The C++20 layer over the C headers: what a plugin written in C++ includes.
//
// Everything is inline and compiled into the plugin, so it can never drift from it and never adds
// a capability the C tables do not have: the exception barrier and views (cxx/core.hpp), typed
// wrappers of the host's services (cxx/host.hpp, cxx/io.hpp), base classes for instances
// (cxx/engine.hpp, cxx/selector.hpp), span edits of a body (cxx/edits.hpp), JSON text cut into its
// members (cxx/spans.hpp) and the entry symbol (cxx/plugin.hpp).
//
// Threads: as the wrapped C functions say; the wrappers add none and hold no lock.
// Errors:  inside a plugin a Failure may be thrown; no exception passes the thunks.
#pragma once
#include "sluice/sdk/cxx/core.hpp"
#include "sluice/sdk/cxx/edits.hpp"
#include "sluice/sdk/cxx/engine.hpp"
#include "sluice/sdk/cxx/host.hpp"
#include "sluice/sdk/cxx/io.hpp"
#include "sluice/sdk/cxx/plugin.hpp"
#include "sluice/sdk/cxx/selector.hpp"
#include "sluice/sdk/cxx/spans.hpp"
