// Changes to a body as spans: what is not named stays byte for byte.
//
// Threads: any; a value.
// Errors:  none; edits are made from the fields of one Body and applied to that body's text.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/body.hpp"

namespace sluice::json {

class Edits {
public:
    explicit Edits(const Body& body) : body_(&body) {}

    // Replaces the value of the last member of that name; nothing where it does not stand.
    void set_existing(std::string_view name, std::string json);
    // Removes every member of that name, with the comma that belonged to it.
    void erase(std::string_view name);

    bool empty() const noexcept { return replacements_.empty() && erased_.empty(); }
    std::size_t size_after() const;
    // The edited body as pieces of the original text and of the replacements, in order. Valid
    // while the body's text and this object live.
    std::vector<std::string_view> pieces() const;

private:
    struct Replacement {
        std::size_t field = 0;
        std::string data;
    };
    bool is_erased(std::size_t field) const noexcept;

    const Body* body_;
    std::vector<Replacement> replacements_;
    std::vector<std::size_t> erased_;  // field indexes
};

}  // namespace sluice::json
