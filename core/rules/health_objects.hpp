// Health objects: probes that an operator asked for, whether a rule names the address or not.
//
// An object is known by its host and name. It shares a running probe with the rules and objects
// that probe the same address in the same way and times; it never changes how a rule probes.
//
// Threads: none (values).
// Errors:  refusals name the field.
// Limits:  kMaxObjects; all of them fit in one JSON document.
// Units:   probeDuration seconds, inactiveReTries consecutive failures.
// Source:  the management contract's health objects (/config/endpoint).
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/result.hpp"
#include "core/rules/refusal.hpp"
#include "core/rules/rule.hpp"

namespace sluice::rules {

struct HealthObject {
    std::string host;  // numeric
    std::string name;  // given, or default_probe_name()
    ProbeSpec probe;
    std::string json;  // as accepted, with what was not given filled in
};

// "10.0.0.7_http_8000"
std::string default_probe_name(const std::string& host, ProbeSpec::Kind kind, std::uint16_t port);

std::optional<Refusal> parse_health_object(std::string_view json, HealthObject& out);

class HealthObjects {
public:
    static constexpr std::size_t kMaxObjects = 1024;
    static constexpr std::string_view kSetting = "health_objects";
    using Key = std::pair<std::string, std::string>;  // host, name

    // Replaces the one of the same key.
    std::optional<Refusal> put(HealthObject object);
    void remove(const Key& key) { objects_.erase(key); }
    const HealthObject* find(const Key& key) const;
    const std::map<Key, HealthObject>& all() const noexcept { return objects_; }

    // A JSON array of objects; empty text is none.
    static Result<HealthObjects> parse(std::string_view json);
    std::string dump() const;

private:
    std::map<Key, HealthObject> objects_;
};

}  // namespace sluice::rules
