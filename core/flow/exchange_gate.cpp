// The step of an exchange that finds its rule and asks whether the rule takes the request.
#include <algorithm>

#include "core/flow/exchange.hpp"
#include "core/route/path.hpp"

namespace sluice::flow {
namespace {

// Without a limit of the rule's own a response may go on for a day.
constexpr std::uint32_t kDaySec = 86'400;

}  // namespace

bool Exchange::find_service() {
    const http::RequestHead& head = client_.head();
    const Directory& directory = *worker_.directory;
    const rules::Lookup found =
        directory.table->find(listener_, head.authority, head.path, facts_.model);
    if (!found.rule) {
        switch (found.miss) {
            case rules::Miss::ModelUnavailable:
                return refuse({503, "model_unavailable", "no backend pool for this model", "model",
                               "api_error"});
            case rules::Miss::NoRules:
                client_.close_after();
                return refuse({503, "no_rules", "this listener has no rules", {}, "api_error"});
            default:
                return refuse({503, "no_route", "no rule matches host and path", {}, "api_error"});
        }
    }
    service_ = directory.services[*found.rule];
    scene_.service = service_.get();
    const rules::Rule& rule = *service_->rule;
    receipt_.rule = service_->names->rule;
    receipt_.rule_number = rule.number;
    receipt_.keep = service_->names;
    in_flight_ = route::InFlight(service_->totals.rule);
    client_.set_client_idle(std::chrono::milliseconds(rule.timeouts.client_idle_ms));
    cap_us_ = client_.started_us() +
              std::uint64_t{rule.max_stream_sec == 0 ? kDaySec : rule.max_stream_sec} * 1'000'000U;
    scene_.deadline_us = cap_us_;
    if (rule.timeouts.total_ms > 0) {
        scene_.deadline_us =
            std::min(scene_.deadline_us, client_.started_us() + rule.timeouts.total_ms * 1000U);
    }
    if (auto refusal = service_->gate.enter(rule, client_.peer(), place_)) {
        refuse(std::move(*refusal));
        receipt_.outcome = route::Outcome::Refused;  // no endpoint is to blame
        return false;
    }
    if (service_->key && service_->key->authorization()->empty()) {
        return refuse({503,
                       "backend_key_unavailable",
                       "the key for the rule's endpoints cannot be read",
                       {},
                       "api_error"});
    }
    if (body_.size() > rule.max_body_bytes) {
        return refuse({413,
                       "body_too_large",
                       "the body is larger than " + std::to_string(rule.max_body_bytes) + " bytes",
                       {}});
    }
    if (!service_->traits.reserved_paths.empty()) {
        const std::string path = route::canonical_path(head.path);
        for (const std::string& reserved : service_->traits.reserved_paths) {
            if (path == reserved) {
                return refuse(
                    {404, "path_not_forwarded", "this path is not served through the gateway", {}});
            }
        }
    }
    served_model_ = facts_.model;
    const auto alias = rule.model_aliases.find(facts_.model);
    if (alias != rule.model_aliases.end()) {
        served_model_ = alias->second;
    }
    return true;
}

}  // namespace sluice::flow
