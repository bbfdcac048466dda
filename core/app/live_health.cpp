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
        admin::HealthRow row;
        row.host = watched.object.host;
        row.name = watched.object.name;
        row.probe = watched.object.probe;
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
        admin::HealthRow row;
        row.probe = probe->spec();
        row.host = row.probe.address;
        row.name = rules::default_probe_name(row.host, row.probe.kind, row.probe.port);
        row.rules = std::move(numbers);
        describe(row, *probe);
        out.push_back(std::move(row));
    }
    // By address, so that two looks can be compared.
    std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
        return std::tie(a.host, a.probe.port, a.name, a.probe) <
               std::tie(b.host, b.probe.port, b.name, b.probe);
    });
    return out;
}

Status Live::can_probe(const rules::ProbeSpec& probe) {
    return fleet::can_probe(probe);
}

}  // namespace sluice::app
