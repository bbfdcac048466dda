#include "core/rules/host_states.hpp"

#include <optional>

#include "core/rules/json_value.hpp"

namespace sluice::rules {
namespace {

std::optional<HostState> state_of(std::string_view word) {
    for (const HostState state : {HostState::Green, HostState::Yellow, HostState::Red}) {
        if (word == to_string(state)) {
            return state;
        }
    }
    return std::nullopt;
}

const Json* member(const Json& object, std::string_view name) {
    if (object.object() == nullptr) {
        return nullptr;
    }
    const auto it = object.object()->find(name);
    return it == object.object()->end() ? nullptr : &it->second;
}

}  // namespace

std::string_view to_string(HostState state) noexcept {
    switch (state) {
        case HostState::Green:
            return "green";
        case HostState::Yellow:
            return "yellow";
        case HostState::Red:
            return "red";
    }
    return "green";
}

HostState HostStates::of(const std::string& ip, std::uint16_t port) const {
    const auto own = entries_.find({ip, port});
    if (own != entries_.end()) {
        return own->second;
    }
    const auto all = entries_.find({ip, 0});
    return all == entries_.end() ? HostState::Green : all->second;
}

Status HostStates::set(const std::string& ip, std::uint16_t port, HostState state) {
    if (port == 0) {
        std::erase_if(entries_, [&ip](const auto& entry) { return entry.first.first == ip; });
        if (state == HostState::Green) {
            return {};
        }
    } else if (of(ip, 0) == state) {
        entries_.erase({ip, port});
        return {};
    }
    if (entries_.size() >= kMaxHosts && !entries_.contains({ip, port})) {
        return Error{Code::Limit,
                     "at most " + std::to_string(kMaxHosts) + " addresses can have a state"};
    }
    entries_.insert_or_assign({ip, port}, state);
    return {};
}

bool HostStates::has(const std::string& ip, std::uint16_t port) const {
    if (port != 0) {
        return entries_.contains({ip, port});
    }
    const auto first = entries_.lower_bound({ip, 0});
    return first != entries_.end() && first->first.first == ip;
}

Result<HostStates> HostStates::parse(std::string_view json) {
    HostStates out;
    if (json.empty()) {
        return out;
    }
    const auto list = Json::parse(json);
    if (!list) {
        return list.error();
    }
    if (list->array() == nullptr) {
        return Error{Code::Invalid, "not a list of host states"};
    }
    for (const Json& one : *list->array()) {
        const Json* host = member(one, "hostName");
        const Json* port = member(one, "epPort");
        const Json* word = member(one, "state");
        const bool is_whole = host != nullptr && host->text() != nullptr && port != nullptr &&
                              port->unsigned_integer() != nullptr && word != nullptr &&
                              word->text() != nullptr;
        const auto state = is_whole ? state_of(*word->text()) : std::nullopt;
        if (!state || *port->unsigned_integer() > UINT16_MAX) {
            return Error{Code::Invalid, "not a host state"};
        }
        out.entries_.insert_or_assign(
            {*host->text(), static_cast<std::uint16_t>(*port->unsigned_integer())}, *state);
    }
    return out;
}

std::string HostStates::dump() const {
    Json::Array out;
    for (const auto& [key, state] : entries_) {
        out.emplace_back(Json::Object{
            {"hostName", key.first}, {"epPort", key.second}, {"state", to_string(state)}});
    }
    return Json(std::move(out)).dump();
}

}  // namespace sluice::rules
