// Schema and configuration of a plugin, separated by a NUL byte: no text may break the reader, and
// what a schema accepts it must still accept once it is complete.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sdk/check/schema.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const std::size_t cut = std::min(input.find('\0'), input.size());
    std::string error;
    const auto schema = sluice::schema::Schema::parse(input.substr(0, cut), error);
    if (!schema) {
        if (error.empty()) {
            std::abort();
        }
        return 0;
    }
    const std::string_view config = cut == input.size() ? "{}" : input.substr(cut + 1);
    if (!schema->check(config).empty()) {
        return 0;
    }
    const auto complete = schema->complete(config, error);
    // A required field with a default is the one thing that completing adds to a refused text, and
    // that was refused above.
    if (!complete || !schema->check(*complete).empty() ||
        !schema->immutable_changes(config, *complete).empty() ||
        schema->complete(*complete, error) != complete || !schema->masked(config, error)) {
        std::abort();
    }
    return 0;
}
