#include "core/rules/rule.hpp"

namespace sluice::rules {

std::string EndpointSpec::name() const {
    const bool is_v6 = ip.find(':') != std::string::npos;
    return (is_v6 ? "[" + ip + "]" : ip) + ":" + std::to_string(port);
}

std::string EndpointSpec::base_url() const {
    return "http://" + name();
}

}  // namespace sluice::rules
