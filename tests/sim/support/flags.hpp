// A command line of `--name value` and `--name=value`, declared flag by flag.
//
//   Flags f(args);
//   f.number("--port", port);
//   f.toggle("--dev-mode", dev);
//   if (auto s = f.read(); !s) ...
//
// Threads: none of its own; a value used once. What is declared must outlive read().
// Errors:  read() names the flag. Nothing is defaulted when a given value is wrong.
#pragma once
#include <charconv>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.hpp"

namespace sluice::sim {

Error bad_flag(std::string_view flag, std::string_view why);

class Flags {
public:
    using Take = std::function<Status(std::string_view flag)>;

    explicit Flags(std::span<const std::string_view> args) : args_(args) {}

    template <class N>
    void number(std::string_view name, N& out, std::uint64_t least = 0,
                std::uint64_t most = std::numeric_limits<N>::max()) {
        custom(name, [this, &out, least, most](std::string_view flag) -> Status {
            auto n = number_of(flag, least, most);
            if (!n) {
                return std::move(n).error();
            }
            out = static_cast<N>(*n);
            return {};
        });
    }
    void text(std::string_view name, std::string& out);
    // One of these words.
    template <class E>
    void choice(std::string_view name, E& out,
                std::initializer_list<std::pair<std::string_view, E>> words) {
        custom(name, [this, &out, list = std::vector(words)](std::string_view flag) -> Status {
            auto v = value(flag);
            if (!v) {
                return std::move(v).error();
            }
            std::string known;
            for (const auto& [word, meaning] : list) {
                if (word == *v) {
                    out = meaning;
                    return {};
                }
                known += (known.empty()                 ? ""
                          : &word == &list.back().first ? " or "
                                                        : ", ") +
                         std::string(word);
            }
            return bad_flag(flag, known + " expected");
        });
    }
    // A flag without a value.
    void toggle(std::string_view name, bool& out, bool meaning = true);
    void custom(std::string_view name, Take take) { values_[std::string(name)] = std::move(take); }

    Status read();

    // For custom flags, inside of read(): the flag's value, or all values up to the next flag.
    Result<std::string_view> value(std::string_view flag);
    std::vector<std::string_view> values();

private:
    Result<std::uint64_t> number_of(std::string_view flag, std::uint64_t least, std::uint64_t most);

    struct Toggle {
        bool* target;
        bool meaning;
    };
    std::span<const std::string_view> args_;
    std::size_t at_ = 0;
    std::optional<std::string_view> inline_value_;
    std::map<std::string, Toggle, std::less<>> toggles_;
    std::map<std::string, Take, std::less<>> values_;
};

}  // namespace sluice::sim
