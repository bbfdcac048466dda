// What an operator said about addresses, over all rules: in service, draining, out.
//
// Threads: none (a value).
// Errors:  parse(): Invalid with the reason.
// Limits:  kMaxHosts entries.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/result.hpp"

namespace sluice::rules {

enum class HostState : std::uint8_t {
    Green,
    Yellow,  // nothing new is sent there
    Red,     // out of service
};
std::string_view to_string(HostState state) noexcept;

class HostStates {
public:
    static constexpr std::size_t kMaxHosts = 4096;
    static constexpr std::string_view kSetting = "endpoint_host_states";
    // Address and port; port 0 = every port that has no entry of its own.
    using Key = std::pair<std::string, std::uint16_t>;

    HostState of(const std::string& ip, std::uint16_t port) const;
    // Port 0 replaces what was said about single ports of the address.
    Status set(const std::string& ip, std::uint16_t port, HostState state);
    // Whether something was said about the address; port 0: about it or any of its ports.
    bool has(const std::string& ip, std::uint16_t port) const;
    const std::map<Key, HostState>& entries() const noexcept { return entries_; }

    // [{"hostName","epPort","state"}]; empty text is no entry.
    static Result<HostStates> parse(std::string_view json);
    std::string dump() const;

private:
    std::map<Key, HostState> entries_;
};

}  // namespace sluice::rules
