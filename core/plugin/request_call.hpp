// Instance::request_call, for the files that make such calls.
//
// Threads: request.
#pragma once
#include "core/base/clock.hpp"
#include "core/plugin/host_context.hpp"
#include "core/plugin/instance.hpp"
#include "core/plugin/sdk_text.hpp"

namespace sluice::plugin {

// True for one call in 64 of this thread.
inline bool is_sampled() noexcept {
    static thread_local std::uint32_t calls = 0;
    return (++calls & 63U) == 0;
}

template <class F>
sluice_status Instance::request_call(std::size_t bytes, sluice_error* err,
                                     const F& f) const noexcept {
    if (!host_->is_active()) {
        return report(err, SLUICE_E_STATE, "the plugin instance is not active");
    }
    // The plugin's words are wanted even where the caller does not ask for them.
    sluice_error own = empty_error();
    sluice_error* const words = err != nullptr ? err : &own;
    const Crossing crossing(Tag::Request);
    if (!is_sampled()) {
        return judge(f(words), words);
    }
    const std::uint64_t begin = now_us();
    const sluice_status status = f(words);
    host_->spent(Tag::Request, now_us() - begin, bytes);
    return judge(status, words);
}

}  // namespace sluice::plugin
