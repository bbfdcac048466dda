#include "core/admin/http_value.hpp"

namespace sluice::admin {
namespace {

int hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int status_of(Code code) {
    switch (code) {
        case Code::Invalid:
        case Code::Protocol:
            return 400;
        case Code::NotFound:
            return 404;
        case Code::Exists:
        case Code::Immutable:
            return 409;
        case Code::Limit:
            return 429;
        case Code::Unsupported:
            return 501;
        case Code::Unavailable:
        case Code::Timeout:
        case Code::Cancelled:
        case Code::Closed:
            return 503;
        case Code::Io:
        case Code::Internal:
            break;
    }
    return 500;
}

}  // namespace

const std::string& Request::param(std::string_view name) const {
    static const std::string kNone;
    const auto it = params.find(name);
    return it == params.end() ? kNone : it->second;
}

Response json_response(const rules::Json& body, int status) {
    Response out;
    out.status = status;
    out.body = body.dump();
    return out;
}

Response json_text(std::string body, int status) {
    Response out;
    out.status = status;
    out.body = std::move(body);
    return out;
}

Response success() {
    return json_response(rules::Json::Object{{"result", "Success"}});
}

Response refusal_response(const rules::Refusal& refusal) {
    return json_response(rules::Json::Object{{"code", refusal.code},
                                             {"field", refusal.field},
                                             {"message", refusal.message},
                                             {"allowed", refusal.allowed},
                                             {"result", refusal.message}},
                         refusal.status);
}

Response error_response(const Error& error) {
    return refusal_response(
        {status_of(error.code), std::string(to_string(error.code)), "", error.what, ""});
}

std::optional<std::string> unescape(std::string_view text, bool plus_is_space) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        char c = text[i];
        if (c == '%') {
            const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
            const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
            if (low < 0) {
                return std::nullopt;
            }
            c = static_cast<char>(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if (c == '\0') {
            return std::nullopt;
        }
        out += c;
    }
    return out;
}

std::optional<rules::Refusal> parse_query(std::string_view query,
                                          std::map<std::string, std::string, std::less<>>& out) {
    while (!query.empty()) {
        const std::size_t amp = query.find('&');
        const std::string_view pair = query.substr(0, amp);
        query.remove_prefix(amp == std::string_view::npos ? query.size() : amp + 1);
        if (pair.empty()) {
            continue;
        }
        const std::size_t equals = pair.find('=');
        const auto name = unescape(pair.substr(0, equals), true);
        const auto value = equals == std::string_view::npos
                               ? std::optional<std::string>("")
                               : unescape(pair.substr(equals + 1), true);
        if (!name || !value) {
            return rules::Refusal{400, "malformed_url", "", "the query has a broken escape", ""};
        }
        if (!out.emplace(*name, *value).second) {
            return rules::Refusal{400, "malformed_url", *name,
                                  "the parameter " + *name + " is given twice", ""};
        }
    }
    return std::nullopt;
}

}  // namespace sluice::admin
