// Probes in force, as the management interface asks for them.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/app/live.hpp"

namespace sluice::app {
namespace {

void describe(admin::HealthRow& row, const fleet::ProbeState& probe) {
    const fleet::ProbeDelays delays = probe.delays();
    row.is_up = probe.is_up();
    row.reason = probe.reason();
    row.tries = delays.tries;
    row.min_us = delays.min_us;
    row.avg_us = delays.avg_us;
    row.max_us = delays.max_us;
}

admin::HealthRow row_of(const std::string& host, std::uint16_t port, const rules::ProbeSpec& spec) {
    admin::HealthRow row;
    row.host = host;
    row.type = rules::probe_type(spec.kind);
    row.path = spec.kind == rules::ProbeSpec::Kind::Http ? spec.path : "";
    row.port = port;
    row.retries = spec.retries;
    row.interval_sec = spec.interval_sec;
    return row;
}

}  // namespace

std::vector<admin::HealthRow> Live::health() {
    // Which rules share which probe.
    std::map<fleet::ProbeStatePtr, std::vector<std::uint32_t>> users;
    const auto directory = shared_.directory.get();
    for (const route::ServicePtr& service : directory->services) {
        for (const fleet::Member& member : service->pool->members()) {
            if (!member.probe) {
                continue;
            }
            std::vector<std::uint32_t>& numbers = users[member.probe];
            if (numbers.empty() || numbers.back() != service->rule->number) {
                numbers.push_back(service->rule->number);
            }
        }
    }
    std::vector<admin::HealthRow> out;
    std::set<fleet::ProbeStatePtr> listed;
    for (const flow::Conductor::Watched& watched : conductor_.health_objects()) {
        const rules::ProbeSpec& spec = watched.object.probe;
        admin::HealthRow row = row_of(watched.object.host, spec.port, spec);
        row.name = watched.object.name;
        row.is_object = true;
        if (watched.probe) {
            describe(row, *watched.probe);
            listed.insert(watched.probe);
            if (const auto used = users.find(watched.probe); used != users.end()) {
                row.rules = used->second;
            }
        }
        out.push_back(std::move(row));
    }
    for (auto& [probe, numbers] : users) {
        if (listed.contains(probe)) {
            continue;
        }
        const fleet::ProbeTarget& target = probe->target();
        admin::HealthRow row = row_of(target.host, target.port, target.spec);
        row.name = rules::default_probe_name(target.host, target.spec.kind, target.port);
        row.rules = std::move(numbers);
        describe(row, *probe);
        out.push_back(std::move(row));
    }
    // By address, so that two looks can be compared.
    std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
        return std::tie(a.host, a.port, a.name, a.type, a.path, a.interval_sec, a.retries) <
               std::tie(b.host, b.port, b.name, b.type, b.path, b.interval_sec, b.retries);
    });
    return out;
}

}  // namespace sluice::app
