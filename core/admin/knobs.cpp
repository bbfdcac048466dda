#include "core/admin/knobs.hpp"

#include <algorithm>

#include "core/http/message.hpp"
#include "core/rules/key.hpp"

namespace sluice::admin {
namespace {

// "a.example:1" and "[::1]:1" without port and brackets.
std::string_view name_of(std::string_view host) {
    if (host.starts_with('[')) {
        const std::size_t end = host.find(']');
        const bool is_whole =
            end != std::string_view::npos && (end + 1 == host.size() || host[end + 1] == ':');
        return is_whole ? host.substr(1, end - 1) : host;
    }
    return host.substr(0, host.find(':'));
}

}  // namespace

bool Knobs::is_our_name(std::string_view host) const {
    std::string_view name = name_of(host);
    if (name.ends_with('.')) {
        name.remove_suffix(1);
    }
    if (host.empty() || http::equals_ignore_case(name, "localhost") || rules::canonical_ip(name)) {
        return true;
    }
    const auto values = values_.get();
    return std::any_of(values->names.begin(), values->names.end(), [&](const std::string& ours) {
        return http::equals_ignore_case(ours, name);
    });
}

}  // namespace sluice::admin
