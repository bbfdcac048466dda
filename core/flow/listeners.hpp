// The VIPs that are listened on, kept in step with the rules. What an edit does not concern is not
// touched: a listener is opened with its first rule, closed with its last, and told new limits only
// when they are other ones.
//
// Threads: control, one call at a time.
// Errors:  bind(): Unavailable with the system's reason. A VIP of a rule in force that cannot be
//          bound is logged once and tried again with each reconcile().
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/flow/directory.hpp"
#include "core/flow/worker.hpp"

namespace sluice::flow {

class Listeners {
public:
    explicit Listeners(std::vector<std::unique_ptr<Worker>>& workers) : workers_(workers) {}

    // Binds the VIP of a rule that is to be; no error when it is bound already.
    Status prepare(const rules::ListenAddress& at);
    // The rule will not be: what prepare() opened for it is closed again.
    void abandon(const rules::ListenAddress& at);
    // Brings the listeners in line with the directory's.
    void reconcile(const Directory& directory);

    bool is_bound(const rules::ListenAddress& at) const { return bound_.contains(at); }
    bool has_unbound() const noexcept { return !unbound_.empty(); }
    // "10.0.0.1:8080: address in use"
    std::vector<std::string> unbound() const;

private:
    Status bind(const rules::ListenAddress& at, const http::ServerLimits& limits);
    void close(const rules::ListenAddress& at);

    std::vector<std::unique_ptr<Worker>>& workers_;
    std::map<rules::ListenAddress, http::ServerLimits> bound_;
    std::map<rules::ListenAddress, std::string> unbound_;  // why
    std::set<rules::ListenAddress> prepared_;              // bound for a rule to be
};

std::string vip_text(const rules::ListenAddress& at);

}  // namespace sluice::flow
