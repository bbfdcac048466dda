#include "core/fleet/pool.hpp"

#include <algorithm>

namespace sluice::fleet {

std::string_view to_string(Excluded why) noexcept {
    switch (why) {
        case Excluded::No:
            return "";
        case Excluded::Down:
        case Excluded::Disabled:
            return "down";
        case Excluded::Draining:
            return "draining";
        case Excluded::Open:
            return "open";
        case Excluded::Standby:
            return "standby";
        case Excluded::Model:
            return "model";
    }
    return "";
}

Pool::Pool(std::vector<Member> members)
    : members_(std::move(members)),
      has_backups_(std::any_of(members_.begin(), members_.end(),
                               [](const Member& m) { return m.spec.backup; })) {}

Excluded Pool::excluded(std::size_t i, std::string_view served_model, std::uint64_t now) const {
    const Member& m = members_[i];
    const rules::HostState host = m.endpoint->host_state();
    if (host == rules::HostState::Red) {
        return Excluded::Disabled;
    }
    if (m.spec.weight == 0 || host == rules::HostState::Yellow) {
        return Excluded::Draining;
    }
    if (m.probe && !m.probe->is_up()) {
        return Excluded::Down;
    }
    const Health health = m.endpoint->health();
    if (health == Health::Down || health == Health::Asleep) {
        return Excluded::Down;
    }
    if (m.breaker && !m.breaker->admits(now)) {
        return Excluded::Open;
    }
    if (!served_model.empty() && m.endpoint->has_models()) {
        const auto models = m.endpoint->models();
        const auto serves = [&](const Model& model) {
            return model.name == served_model;
        };
        if (std::none_of(models->begin(), models->end(), serves)) {
            return Excluded::Model;
        }
    }
    return Excluded::No;
}

std::string Pool::reason(std::size_t i, std::uint64_t now) const {
    const Member& m = members_[i];
    const rules::HostState host = m.endpoint->host_state();
    if (host != rules::HostState::Green) {
        return "host state " + std::string(to_string(host));
    }
    if (m.spec.weight == 0) {
        return "weight 0";
    }
    if (m.probe && !m.probe->is_up()) {
        return m.probe->reason();
    }
    const Health health = m.endpoint->health();
    if (health == Health::Down || health == Health::Asleep) {
        return m.endpoint->health_reason();
    }
    if (m.breaker && !m.breaker->admits(now)) {
        return "breaker " + std::string(to_string(m.breaker->state(now)));
    }
    return std::string(to_string(m.endpoint->mark(now)));
}

std::uint32_t Pool::retry_after_sec(std::uint64_t now) const {
    constexpr std::uint64_t kMost = 60;
    std::uint64_t least = UINT64_MAX;
    for (const Member& m : members_) {
        if (m.breaker && m.breaker->state(now) == BreakerState::Open) {
            least = std::min(least, m.breaker->open_for_us(now) / 1'000'000U + 1);
        }
    }
    return static_cast<std::uint32_t>(least == UINT64_MAX ? 1 : std::min(least, kMost));
}

}  // namespace sluice::fleet
