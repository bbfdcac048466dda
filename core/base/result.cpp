#include "core/base/result.hpp"

namespace sluice {

std::string_view to_string(Code code) noexcept {
    switch (code) {
        case Code::Invalid:
            return "invalid";
        case Code::NotFound:
            return "not_found";
        case Code::Exists:
            return "exists";
        case Code::Immutable:
            return "immutable";
        case Code::Limit:
            return "limit";
        case Code::Unsupported:
            return "unsupported";
        case Code::Unavailable:
            return "unavailable";
        case Code::Timeout:
            return "timeout";
        case Code::Cancelled:
            return "cancelled";
        case Code::Closed:
            return "closed";
        case Code::Protocol:
            return "protocol";
        case Code::Io:
            return "io";
        case Code::Internal:
            return "internal";
    }
    return "unknown";
}

}  // namespace sluice
