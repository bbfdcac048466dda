// What one check found.
//
// Threads: any.
#pragma once
#include <string>
#include <utility>

namespace sluice::check {

struct Outcome {
    enum class Kind : char { Passed = 'P', Failed = 'F', Skipped = 'S' };
    Kind kind = Kind::Passed;
    std::string text;  // why; of a pass something worth knowing, or empty

    bool is_failed() const noexcept { return kind == Kind::Failed; }
};

inline Outcome passed(std::string text = {}) {
    return {Outcome::Kind::Passed, std::move(text)};
}
inline Outcome failed(std::string text) {
    return {Outcome::Kind::Failed, std::move(text)};
}
inline Outcome skipped(std::string text) {
    return {Outcome::Kind::Skipped, std::move(text)};
}

}  // namespace sluice::check
