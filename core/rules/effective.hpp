// The values in force: what the operator gave, else the process default, else the built-in one.
//
// Threads: any (values).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/rules/defaults.hpp"
#include "core/rules/json_value.hpp"

namespace sluice::rules {

class Effective {
public:
    // `given` is serviceArguments, already checked.
    Effective(const Json::Object& given, const Defaults& defaults);

    // Null when neither the operator nor a default says anything. "retry.connect" goes inside.
    const Json* find(std::string_view name) const;
    // What the operator wrote; null when nothing.
    const Json* given(std::string_view name) const;
    bool was_given(std::string_view name) const { return given(name) != nullptr; }
    // 0, false, "" when there is none: the checked table has the type.
    std::uint64_t u64(std::string_view name) const;
    std::uint32_t u32(std::string_view name) const;
    std::uint16_t u16(std::string_view name) const;
    bool boolean(std::string_view name) const;
    std::string text(std::string_view name) const;

    void set(std::string_view name, Json value);
    const Json::Object& values() const noexcept { return values_; }

private:
    const Json::Object& given_;
    Json::Object values_;
};

}  // namespace sluice::rules
