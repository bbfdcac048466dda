// Admission, keys and sessions.
#include <algorithm>
#include <cctype>

#include "core/rules/parse_parts.hpp"

namespace sluice::rules {
namespace {

bool is_token(std::string_view text) {
    constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
    return !text.empty() && std::all_of(text.begin(), text.end(), [&](unsigned char c) {
        return std::isalnum(c) != 0 || kMarks.find(static_cast<char>(c)) != std::string_view::npos;
    });
}

bool is_session(std::string_view text) {
    for (const std::string_view kind : {"cookie:", "query:"}) {
        if (text.starts_with(kind)) {
            return is_token(text.substr(kind.size()));
        }
    }
    return is_token(text);
}

std::optional<Refusal> check_admission(Effective& in) {
    const Json* wait = in.given("fc_max_queue_wait_ms");
    if (in.u32("fc_max_queue_depth") > 0 && wait != nullptr && *wait == Json(0)) {
        return Refusal{400, "fc_queue_wait_required", "fc_max_queue_wait_ms",
                       "fc_max_queue_wait_ms is 0, but fc_max_queue_depth lets requests wait",
                       "1..3600000, or absent"};
    }
    // The process can say nothing else.
    for (const char* name : {"fc_mode", "fc_adaptive", "fc_expose_headers"}) {
        if (in.text(name) == "inherit") {
            in.set(name, "off");
        }
    }
    return std::nullopt;
}

std::optional<Refusal> check_access(const Effective& in) {
    const std::string auth = in.text("api_key_auth");
    const bool is_jwt = auth == "jwt" || auth == "apikey-or-jwt";
    const bool has_profile = !in.text("jwt_auth_profile").empty();
    if (is_jwt && !has_profile) {
        return Refusal{400, "jwt_profile_required", "jwt_auth_profile",
                       "api_key_auth " + auth + " needs a jwt_auth_profile", "a profile's name"};
    }
    if (has_profile && !is_jwt) {
        return Refusal{400, "jwt_profile_unused", "jwt_auth_profile",
                       "jwt_auth_profile is for api_key_auth jwt and apikey-or-jwt; it is " + auth,
                       "absent"};
    }
    return std::nullopt;
}

}  // namespace

std::optional<Refusal> check_guard(Effective& in) {
    if (auto refusal = check_admission(in)) {
        return refusal;
    }
    if (auto refusal = check_access(in)) {
        return refusal;
    }
    if (const std::string name = in.text("session_header_name");
        !name.empty() && !is_session(name)) {
        return Refusal{400, "malformed_session_header", "session_header_name",
                       "session_header_name names neither a header nor a cookie or query member",
                       "a header's name, cookie:NAME, query:NAME or basic-auth"};
    }
    return std::nullopt;
}

}  // namespace sluice::rules
