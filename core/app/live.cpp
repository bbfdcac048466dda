#include "core/app/live.hpp"

#include "core/json/writer.hpp"

namespace sluice::app {

Live::Live(flow::Shared& shared, flow::Conductor& conductor, plugin::Registry& registry,
           rules::RuleBook& book, const Workers& workers, const Settings& settings, Boot boot)
    : shared_(shared),
      conductor_(conductor),
      registry_(registry),
      book_(book),
      workers_(workers),
      settings_(std::make_shared<const Settings>(settings)),
      boot_(std::move(boot)) {}

admin::Readiness Live::ready() {
    admin::Readiness out;
    out.database_found = boot_.is_database_found;
    out.set_aside = boot_.set_aside;
    out.degraded = !boot_.set_aside.empty();
    if (is_draining_.load(std::memory_order_relaxed)) {
        out.ready = false;
        out.reasons.emplace_back("draining: the gateway is stopping");
    }
    for (const std::string& vip : conductor_.unbound()) {
        out.ready = false;
        out.reasons.push_back("listener_unavailable: " + vip);
    }
    for (const std::string& one : conductor_.republisher().unbound()) {
        out.degraded = true;
        out.reasons.push_back("republish_unavailable: " + one);
    }
    for (const rules::Dormant& rule : book_.dormant()) {
        out.degraded = true;
        out.reasons.push_back("rule_not_in_force: rule " + rule.id +
                              " is stored but not in force: " + rule.why.message);
    }
    if (!boot_.set_aside.empty()) {
        out.reasons.push_back("database_set_aside: the database was damaged and set aside as " +
                              boot_.set_aside);
    }
    return out;
}

std::string Live::plugins_json() {
    std::string out;
    json::Writer w(out);
    w.array([&] {
        for (const plugin::FileReport& file : registry_.reports()) {
            w.object([&] {
                w.member("path", file.path);
                w.member("state", to_string(file.state));
                w.member("reason", file.reason);
                w.member("sdk_version", file.sdk_version);
                w.key("plugins");
                w.array([&] {
                    for (const plugin::Descriptor& p : file.plugins) {
                        w.object([&] {
                            w.member("id", p.id);
                            w.member("alias", p.alias);
                            w.member("name", p.name);
                            w.member("summary", p.summary);
                            w.member("version", p.version);
                            w.member("license", p.license);
                            w.key("provides");
                            w.array([&] {
                                for (const std::string& extension : p.provides) {
                                    w.value(extension);
                                }
                            });
                        });
                    }
                });
            });
        }
    });
    return out;
}

}  // namespace sluice::app
