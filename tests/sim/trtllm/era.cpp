#include "tests/sim/trtllm/era.hpp"

#include <array>
#include <utility>

namespace sluice::sim::trtllm {
namespace {

struct Row {
    std::string_view word;
    std::string_view version;
};
// In the order of Era.
constexpr std::array<Row, 7> kRows{{{"0.21", "0.21.0"},
                                    {"1.0", "1.0.0"},
                                    {"1.1", "1.1.0"},
                                    {"1.2", "1.2.0"},
                                    {"1.3-early", "1.3.0rc5"},
                                    {"1.3-late", "1.3.0rc24"},
                                    {"main", "1.4.0rc2"}}};

}  // namespace

std::optional<Era> era_from(std::string_view word) noexcept {
    for (std::size_t i = 0; i < kRows.size(); ++i) {
        if (kRows[i].word == word) {
            return static_cast<Era>(i);
        }
    }
    return std::nullopt;
}

std::string_view words_of_eras() noexcept {
    return "0.21, 1.0, 1.1, 1.2, 1.3-early, 1.3-late or main";
}

std::string_view version_of(Era e) noexcept {
    return kRows[static_cast<std::size_t>(e)].version;
}

}  // namespace sluice::sim::trtllm
