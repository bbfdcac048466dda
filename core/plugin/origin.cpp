#include "core/plugin/origin.hpp"

namespace sluice::plugin {

Result<Origin> parse_origin(std::string_view url) {
    constexpr std::string_view kScheme = "http://";
    if (!url.starts_with(kScheme)) {
        return Error{Code::Unsupported, "only http:// addresses can be called"};
    }
    url.remove_prefix(kScheme.size());
    const std::size_t slash = std::min(url.find('/'), url.size());
    const std::string_view authority = url.substr(0, slash);
    Origin out;
    out.host = authority;
    const bool has_port = authority.rfind(':') != std::string_view::npos &&
                          (authority.empty() || authority.back() != ']');
    auto address =
        net::Address::parse(has_port ? std::string(authority) : std::string(authority) + ":80");
    if (!address) {
        return Error{Code::Unsupported, "host names are not resolved here; give an IP address"};
    }
    out.address = *address;
    out.target = slash == url.size() ? "/" : std::string(url.substr(slash));
    return out;
}

}  // namespace sluice::plugin
