#include "core/plugin/plugin.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "core/plugin/json_text.hpp"
#include "core/plugin/sdk_text.hpp"

namespace sluice::plugin {
namespace {

constexpr std::size_t kMaxFindings = 64;
constexpr std::size_t kMaxText = 1024;

// What check() says, collected; a plugin may call back any number of times.
struct Collector {
    std::vector<Finding> findings;
    std::vector<std::pair<std::string, std::string>> effective;
    std::string defect;

    static void say(void* ctx, sluice_status kind, sluice_str code, sluice_str field,
                    sluice_str text) noexcept {
        auto& self = *static_cast<Collector*>(ctx);
        if (self.findings.size() >= kMaxFindings) {
            self.defect = "says more than 64 things";
            return;
        }
        Finding f;
        // A kind nobody understands refuses: silence would accept what the plugin objected to.
        f.kind = kind == SLUICE_OK            ? Finding::Kind::Warning
                 : kind == SLUICE_E_IMMUTABLE ? Finding::Kind::Immutable
                                              : Finding::Kind::Refused;
        f.code = copy(code, kMaxText);
        f.field = copy(field, kMaxText);
        f.text = copy(text, kMaxText);
        if (f.code.empty()) {
            f.code = "refused_by_plugin";
        }
        self.findings.push_back(std::move(f));
    }

    static void set_effective(void* ctx, sluice_str field, sluice_str json) noexcept {
        auto& self = *static_cast<Collector*>(ctx);
        if (self.effective.size() >= kMaxFindings || json.len > kMaxText || field.len > kMaxText) {
            self.defect = "gives more effective values than it may";
            return;
        }
        self.effective.emplace_back(view(field), view(json));
    }
};

}  // namespace

Plugin::Plugin(Descriptor descriptor, Schema config, std::optional<Schema> endpoint,
               const sluice_plugin_entry* entry, std::shared_ptr<std::mutex> file_mutex)
    : descriptor_(std::move(descriptor)),
      config_(std::move(config)),
      endpoint_(std::move(endpoint)),
      entry_(entry),
      file_mutex_(std::move(file_mutex)) {}

Verdict Plugin::propose(std::string_view config, std::string_view rule, std::string_view previous,
                        std::string_view previous_config) const {
    Verdict out;
    out.findings = config_.check(config);
    if (out.is_refused()) {
        return out;
    }
    if (!previous_config.empty()) {
        for (const std::string& field : config_.immutable_changes(previous_config, config)) {
            out.findings.push_back({Finding::Kind::Immutable, "immutable", field,
                                    field + " of a live rule cannot change", ""});
        }
    }

    Collector collector;
    if (entry_->check != nullptr) {
        const sluice_proposal proposal{sizeof(sluice_proposal), 0, borrow(config), borrow(rule),
                                       borrow(previous)};
        sluice_verdict_out verdict{sizeof(sluice_verdict_out), 0, &collector, &Collector::say,
                                   &Collector::set_effective};
        sluice_error err{sizeof(sluice_error), 0, 0, {}};
        sluice_status status = SLUICE_OK;
        {
            const std::lock_guard lock(*file_mutex_);
            status = entry_->check(id().c_str(), &proposal, &verdict, &err);
        }
        if (status != SLUICE_OK && !is_refused(collector.findings)) {
            collector.findings.push_back(
                {status == SLUICE_E_IMMUTABLE ? Finding::Kind::Immutable : Finding::Kind::Refused,
                 "refused_by_plugin", "", id() + ": " + message(status, err), ""});
        }
        if (!collector.defect.empty()) {
            log::warn("plugin check breaks its contract",
                      {{"plugin", id()}, {"what", collector.defect}});
        }
    }
    out.findings.insert(out.findings.end(), std::make_move_iterator(collector.findings.begin()),
                        std::make_move_iterator(collector.findings.end()));
    if (out.is_refused()) {
        return out;
    }

    // Effective values of fields that are not the plugin's own are shown, but not handed back.
    std::string merged(config);
    for (auto& [field, json] : collector.effective) {
        if (!is_json_value(json)) {
            log::warn(
                "plugin check breaks its contract",
                {{"plugin", id()}, {"what", "an effective value is not JSON"}, {"field", field}});
            continue;
        }
        if (config_.takes(field)) {
            if (has_member(merged, field)) {
                continue;
            }
            merged = with_member(merged, field, json);
        }
        out.effective.emplace_back(std::move(field), std::move(json));
    }
    if (auto findings = config_.check(merged); !findings.empty()) {
        Finding& first = findings.front();
        first.text = id() + " chose a value its own schema refuses: " + first.text;
        out.findings.push_back(std::move(first));
        return out;
    }
    auto complete = config_.complete(merged);
    if (!complete) {
        out.findings.push_back(
            {Finding::Kind::Refused, "invalid_json", "", complete.error().what, ""});
        return out;
    }
    for (const Property& p : config_.properties()) {
        if (!p.default_json.empty() && !has_member(merged, p.name)) {
            out.effective.emplace_back(p.name, p.default_json);
        }
    }
    out.config = std::move(complete).value();
    return out;
}

}  // namespace sluice::plugin
