// The error an adapter fills, and its words.
//
// Threads: any; values.
#pragma once
#include <sluice/sdk/base.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::flow {

inline sluice_error empty_error() noexcept {
    sluice_error err{};
    err.size = sizeof err;
    return err;
}

inline std::string words_of(const sluice_error& err, std::string_view otherwise) {
    return err.len == 0 ? std::string(otherwise)
                        : std::string(err.msg, std::min<std::size_t>(err.len, sizeof err.msg));
}

}  // namespace sluice::flow
