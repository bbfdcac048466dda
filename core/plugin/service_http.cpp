#include <algorithm>

#include "core/base/clock.hpp"
#include "core/http/head_writer.hpp"
#include "core/plugin/event_side.hpp"
#include "core/plugin/host_context.hpp"
#include "core/plugin/http_call.hpp"
#include "core/plugin/origin.hpp"
#include "core/plugin/runtime.hpp"
#include "core/plugin/sdk_text.hpp"
#include "core/plugin/services.hpp"

namespace sluice::plugin {
namespace {

constexpr std::size_t kMaxRequestBody = 16U << 20U;
constexpr std::size_t kMostBodyBytes = 256U << 20U;  // of a reply, whatever a call names
constexpr std::uint32_t kMaxHeaders = 64;
constexpr std::size_t kMaxTarget = 8192;

bool is_clean(std::string_view text, std::size_t max) noexcept {
    return !text.empty() && text.size() <= max && std::all_of(text.begin(), text.end(), [](char c) {
        const auto u = static_cast<unsigned char>(c);
        return u > 0x20 && u < 0x7F;
    });
}

// Where a request goes and what it looks like; Invalid, NotFound or Unsupported.
Result<HttpSpec> make_spec(HostContext& context, const sluice_http_request& req) {
    const RuntimeOptions& options = context.runtime().options();
    std::string url;
    std::string authorization;
    if (req.endpoint != 0) {
        const auto& endpoints = context.event_side().endpoints;
        const auto it = endpoints.find(req.endpoint);
        if (it == endpoints.end()) {
            return Error{Code::NotFound, "this instance is not attached to that endpoint"};
        }
        url = it->second.base_url;
        authorization = it->second.authorization;
        while (url.ends_with('/')) {
            url.pop_back();
        }
        if (!view(req.target).starts_with('/')) {
            return Error{Code::Invalid, "the target of an endpoint begins with /"};
        }
    }
    url += view(req.target);
    if (!is_clean(url, kMaxTarget) || !is_clean(view(req.method), 16)) {
        return Error{Code::Invalid, "unusable method or target"};
    }
    if (req.num_headers > kMaxHeaders || (req.num_headers > 0 && req.headers == nullptr) ||
        req.body.len > kMaxRequestBody || (req.body.len > 0 && req.body.ptr == nullptr)) {
        return Error{Code::Limit, "more headers or body than a call may have"};
    }
    auto origin = parse_origin(url);
    if (!origin) {
        return std::move(origin).error();
    }

    HttpSpec spec;
    spec.to = origin->address;
    http::RequestWriter writer(spec.head, view(req.method), origin->target, origin->host);
    bool has_agent = false;
    bool has_authorization = authorization.empty();
    for (std::uint32_t i = 0; i < req.num_headers; ++i) {
        const http::Header header{view(req.headers[i].key), view(req.headers[i].value)};
        if (http::RequestWriter::forwards(header, {})) {
            writer.header(header.name, header.value);
            has_agent = has_agent || http::equals_ignore_case(header.name, "user-agent");
            has_authorization =
                has_authorization || http::equals_ignore_case(header.name, "authorization");
        }
    }
    if (!has_agent) {
        writer.header("User-Agent", options.user_agent);
    }
    if (!has_authorization) {
        writer.header("Authorization", authorization);
    }
    if (req.body.len > 0) {
        spec.body.assign(reinterpret_cast<const char*>(req.body.ptr), req.body.len);
    }
    writer.finish(http::Framing::of_length(spec.body.size()));
    const std::uint64_t timeout = req.timeout_us == 0 ? options.http_timeout_us : req.timeout_us;
    spec.deadline_us = now_us() + std::min<std::uint64_t>(timeout, 3'600'000'000U);
    spec.max_body_bytes = req.max_body_bytes == 0
                              ? options.http_max_body_bytes
                              : std::min<std::size_t>(req.max_body_bytes, kMostBodyBytes);
    return spec;
}

void tell(HostContext& context, const HttpOutcome& outcome, sluice_http_fn done, void* user) {
    std::vector<sluice_pair> headers;
    headers.reserve(outcome.headers.size());
    for (const auto& [name, value] : outcome.headers) {
        headers.push_back({borrow(name), borrow(value)});
    }
    sluice_http_result result{};
    result.size = sizeof result;
    result.status = outcome.status;
    result.http_code = outcome.code;
    result.num_headers = static_cast<std::uint32_t>(headers.size());
    result.headers = headers.data();
    result.body = {reinterpret_cast<const std::uint8_t*>(outcome.body.data()), outcome.body.size()};
    result.elapsed_us = outcome.elapsed_us;
    context.enter_event(outcome.body.size(), [&] { done(user, &result); });
}

sluice_status start(const sluice_host* host, const sluice_http_request* req, sluice_http_fn done,
                    void* user, sluice_http_call** out, sluice_error* err) noexcept {
    HostContext& context = HostContext::of(host);
    if (!context.may_use_event_service("http start off the event thread")) {
        return report(err, SLUICE_E_STATE, "calls start on the event thread of an active instance");
    }
    if (req == nullptr || !SLUICE_HAS(sluice_http_request, req, max_body_bytes) ||
        done == nullptr || out == nullptr) {
        return report(err, SLUICE_E_INVALID, "no request, no function or no place for the handle");
    }
    EventSide& side = context.event_side();
    if (side.calls.size() >= context.runtime().options().http_max_calls) {
        return report(err, SLUICE_E_LIMIT, "too many calls at a time");
    }
    auto spec = make_spec(context, *req);
    if (!spec) {
        return report(err, to_status(spec.error()), spec.error().what);
    }
    const std::uint64_t id = side.next_handle++;
    auto call = std::make_shared<HttpCall>(
        std::move(spec).value(),
        [self = context.shared_from_this(), id, done, user](const HttpOutcome& outcome) {
            self->event_side().calls.erase(id);
            tell(*self, outcome, done, user);
        });
    side.calls.emplace(id, call);
    *out = to_handle<sluice_http_call>(id);
    context.runtime().http().start(std::move(call));
    return SLUICE_OK;
}

void cancel(const sluice_host* host, sluice_http_call* handle) noexcept {
    HostContext& context = HostContext::of(host);
    if (handle == nullptr || context.phase() == HostContext::Phase::Closed) {
        return;
    }
    context.on_event_thread([handle](HostContext& c) {
        auto& calls = c.event_side().calls;
        if (const auto it = calls.find(from_handle(handle)); it != calls.end()) {
            it->second->cancel();
            calls.erase(it);
        }
    });
}

}  // namespace

const sluice_http_api& http_service() noexcept {
    static const sluice_http_api api{sizeof(sluice_http_api), 0, &start, &cancel};
    return api;
}

}  // namespace sluice::plugin
