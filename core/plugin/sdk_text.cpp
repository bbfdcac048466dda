#include "core/plugin/sdk_text.hpp"

namespace sluice::plugin {

std::string_view status_text(sluice_status status) noexcept {
    switch (status) {
        case SLUICE_OK:
            return "ok";
        case SLUICE_AGAIN:
            return "not ready";
        case SLUICE_PASS:
            return "no opinion";
        case SLUICE_E_INTERNAL:
            return "internal error";
        case SLUICE_E_INVALID:
            return "contract broken by the caller";
        case SLUICE_E_CONFIG:
            return "configuration rejected";
        case SLUICE_E_VERSION:
            return "version not available";
        case SLUICE_E_UNSUPPORTED:
            return "not supported";
        case SLUICE_E_NOT_FOUND:
            return "not found";
        case SLUICE_E_STATE:
            return "wrong state or thread";
        case SLUICE_E_LIMIT:
            return "limit reached";
        case SLUICE_E_TIMEOUT:
            return "timed out";
        case SLUICE_E_CANCELLED:
            return "cancelled";
        case SLUICE_E_UNAVAILABLE:
            return "unavailable";
        case SLUICE_E_PROTOCOL:
            return "protocol error";
        case SLUICE_E_NO_MEMORY:
            return "out of memory";
        case SLUICE_E_IMMUTABLE:
            return "immutable";
        default:
            return "unknown status";
    }
}

sluice_status known_status(sluice_status status) noexcept {
    return status >= SLUICE_E_IMMUTABLE && status <= SLUICE_PASS ? status
                                                                 : sluice_status{SLUICE_E_INTERNAL};
}

std::string message(sluice_status status, const sluice_error& err) {
    const std::string_view text = text_of(err);
    return std::string(text.empty() ? status_text(status) : text);
}

Error to_error(sluice_status status, const sluice_error& err) {
    Code code = Code::Internal;
    switch (known_status(status)) {
        case SLUICE_E_INVALID:
        case SLUICE_E_CONFIG:
            code = Code::Invalid;
            break;
        case SLUICE_E_VERSION:
        case SLUICE_E_UNSUPPORTED:
            code = Code::Unsupported;
            break;
        case SLUICE_E_NOT_FOUND:
            code = Code::NotFound;
            break;
        case SLUICE_E_STATE:
        case SLUICE_E_UNAVAILABLE:
        case SLUICE_AGAIN:
            code = Code::Unavailable;
            break;
        case SLUICE_E_LIMIT:
            code = Code::Limit;
            break;
        case SLUICE_E_TIMEOUT:
            code = Code::Timeout;
            break;
        case SLUICE_E_CANCELLED:
            code = Code::Cancelled;
            break;
        case SLUICE_E_PROTOCOL:
            code = Code::Protocol;
            break;
        case SLUICE_E_IMMUTABLE:
            code = Code::Immutable;
            break;
        default:
            break;
    }
    return Error{code, message(status, err)};
}

}  // namespace sluice::plugin
