// The rest of the daemon, as the management interface sees it, for tests.
#pragma once
#include "core/admin/providers.hpp"

namespace sluice::test {

class FakeProviders final : public admin::Providers {
public:
    admin::Readiness ready() override { return readiness; }
    std::string plugins_json() override { return R"([{"id":"p"}])"; }
    std::vector<admin::Capability> capabilities() override {
        return {{"engine_vllm", true, ""}, {"io_uring", false, "NOT_BUILT"}};
    }
    std::string diagnostics_json() override { return R"({"settings":{"workers":2}})"; }
    std::string state_file() override { return "/"; }
    std::uint64_t in_flight() override { return running; }
    void refuse_new_requests(bool is_refusing) override { refuses = is_refusing; }
    std::string flows_json(const admin::FlowFilter& filter) override {
        asked = filter;
        return "[]";
    }
    Result<std::string> explain(std::string_view json) override {
        explained = json;
        if (fail_with) {
            return *fail_with;
        }
        return std::string(R"({"id":"r"})");
    }
    Result<admin::Inventory> inventory(const rules::RulePtr& rule,
                                       const rules::EndpointSpec& endpoint,
                                       std::size_t limit) override {
        if (fail_with) {
            return *fail_with;
        }
        inventory_of = std::to_string(rule->number) + " " + endpoint.name();
        admin::Inventory out{"sha256", "", {1, 18446744073709551615ULL, 3}, 3};
        out.blocks.resize(std::min(limit, out.blocks.size()));
        return out;
    }
    std::string event_sources(const rules::RulePtr& rule,
                              const rules::EndpointSpec& endpoint) override {
        return republishes == rule->id ? R"({"0":{"endpoint":")" + endpoint.name() + R"("}})"
                                       : "{}";
    }
    admin::RuleLive rule_status(const rules::RulePtr& rule) override {
        admin::RuleLive out = live;
        if (endpoint_state) {
            out.endpoints[rule->endpoints.front().id] = *endpoint_state;
        }
        return out;
    }
    std::vector<admin::HealthRow> health() override { return probes; }
    Status can_probe(const rules::ProbeSpec& probe) override {
        if (probe.kind == rules::ProbeSpec::Kind::Sctp) {
            return Error{Code::Unsupported, "this kernel has no SCTP"};
        }
        return {};
    }
    std::vector<admin::AddressLoad> address_loads() override { return loads; }
    std::shared_ptr<admin::StreamSource> flow_stream(const admin::FlowFilter& filter,
                                                     std::uint64_t every) override {
        asked = filter;
        asked_every = every;
        return stream;
    }

    admin::Readiness readiness;
    std::vector<admin::AddressLoad> loads;
    std::uint64_t running = 0;
    bool refuses = false;
    admin::FlowFilter asked;
    std::string explained;
    std::string inventory_of;
    std::string republishes;  // a rule's id
    admin::RuleLive live;
    std::optional<admin::EndpointLive> endpoint_state;
    std::optional<Error> fail_with;
    std::vector<admin::HealthRow> probes;
    std::shared_ptr<admin::StreamSource> stream;
    std::uint64_t asked_every = 0;
};

}  // namespace sluice::test
