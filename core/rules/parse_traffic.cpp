// Probe, limits, and which plugins serve the rule.
#include <algorithm>
#include <array>

#include "core/rules/auth_file.hpp"
#include "core/rules/parse_parts.hpp"

namespace sluice::rules {
namespace {

std::string joined(const std::vector<std::string>& words) {
    std::string out;
    for (const std::string& word : words) {
        out += (out.empty() ? "" : ", ") + word;
    }
    return out;
}

bool holds(const std::vector<std::string>& words, std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

// Index = sel. Those without a selector here are known numbers and nothing more.
struct Selector {
    std::string_view alias;
    bool is_built;
};
constexpr std::array<Selector, 11> kSelectors = {{{"rr", true},
                                                  {"hash", false},
                                                  {"wrr", true},
                                                  {"persist", false},
                                                  {"lc", true},
                                                  {"n2", false},
                                                  {"n3", false},
                                                  {"reserved", false},
                                                  {"chwbl", false},
                                                  {"gpuaware", false},
                                                  {"wrr-hash", false}}};

std::string built_numbers(const Loaded& loaded) {
    std::string out;
    for (std::size_t i = 0; i < kSelectors.size(); ++i) {
        if (kSelectors[i].is_built && holds(loaded.selectors, kSelectors[i].alias)) {
            out += (out.empty() ? "" : ", ") + std::to_string(i);
        }
    }
    return out;
}

std::optional<Refusal> take_selector(Effective& in, const Loaded& loaded, Rule& rule) {
    const std::uint32_t sel = in.u32("sel");
    const Selector& by_number = kSelectors.at(sel);
    const std::string named = in.text("selector");
    if (!by_number.is_built || !holds(loaded.selectors, by_number.alias)) {
        return Refusal{400, "not_supported_yet", "sel",
                       "sel " + std::to_string(sel) + " (" + std::string(by_number.alias) +
                           ") is not supported yet",
                       built_numbers(loaded)};
    }
    rule.sel = sel;
    rule.selector = by_number.alias;
    if (named.empty()) {
        return std::nullopt;
    }
    if (!holds(loaded.selectors, named)) {
        return Refusal{400, "selector_unknown", "selector", "no selector " + named + " is loaded",
                       joined(loaded.selectors)};
    }
    if (sel != 0 && named != by_number.alias) {
        return Refusal{400,
                       "selector_conflict",
                       "selector",
                       "sel and selector name different selectors; give one of them",
                       {}};
    }
    rule.selector = named;
    for (std::size_t i = 0; i < kSelectors.size(); ++i) {
        rule.sel = kSelectors[i].alias == named ? static_cast<std::uint32_t>(i) : rule.sel;
    }
    return std::nullopt;
}

std::optional<Refusal> take_engine(Effective& in, const Loaded& loaded, Rule& rule) {
    const std::string type = in.text("kvEngineType");
    const std::string named = in.text("engine");
    if (!named.empty() && in.was_given("kvEngineType") && named != type) {
        return Refusal{400,
                       "engine_conflict",
                       "engine",
                       "engine and kvEngineType name different engines; give one of them",
                       {}};
    }
    const bool is_asked = !named.empty() || in.was_given("kvEngineType") ||
                          in.u32("kvExactMode") != 0 || in.boolean("pd_disagg_mode");
    rule.engine = engine_named(in);
    rule.is_engine_given = in.was_given("kvEngineType") || in.was_given("engine");
    if (is_asked && !holds(loaded.engines, rule.engine)) {
        return Refusal{400, "engine_unknown", named.empty() ? "kvEngineType" : "engine",
                       "no engine " + rule.engine + " is loaded", joined(loaded.engines)};
    }
    return std::nullopt;
}

}  // namespace

std::string engine_named(const Effective& in) {
    const std::string named = in.text("engine");
    return named.empty() ? in.text("kvEngineType") : named;
}

std::optional<Refusal> take_limits(Effective& in, Draft& out) {
    if (const std::uint64_t idle_sec = in.u64("inactiveTimeOut"); idle_sec != 0) {
        if (in.was_given("timeouts.client_idle_ms") &&
            in.u64("timeouts.client_idle_ms") != idle_sec * 1000) {
            return Refusal{400,
                           "idle_timeout_conflict",
                           "inactiveTimeOut",
                           "inactiveTimeOut and timeouts.client_idle_ms differ; give one of them",
                           {}};
        }
        in.set("timeouts.client_idle_ms", Json(idle_sec * 1000));
    }
    Timeouts& t = out.rule.timeouts;
    t.client_idle_ms = in.u64("timeouts.client_idle_ms");
    if (t.client_idle_ms % 1000 == 0) {
        in.set("inactiveTimeOut", Json(t.client_idle_ms / 1000));
    }
    t.header_ms = in.u64("timeouts.header_ms");
    t.body_ms = in.u64("timeouts.body_ms");
    t.connect_ms = in.u64("timeouts.connect_ms");
    t.first_byte_ms = in.u64("timeouts.first_byte_ms");
    t.chunk_gap_ms = in.u64("timeouts.chunk_gap_ms");
    t.total_ms = in.u64("timeouts.total_ms");
    out.rule.retry.connect = in.u32("retry.connect");
    out.rule.retry.not_accepted = in.boolean("retry.not_accepted");
    out.rule.retry.after_dispatch = in.boolean("retry.after_dispatch");
    out.rule.max_body_bytes = in.u64("max_body_bytes");
    out.rule.is_admin_up = in.boolean("adminStateUp");
    out.rule.connection_limit = in.u32("connectionLimit");
    out.rule.max_stream_sec = in.u32("max_stream_duration_sec");
    out.rule.keepalive_sec = in.u32("backend_keepalive_interval_sec");
    for (const KeyFileField& field : key_file_fields()) {
        std::string& path = out.rule.*field.path;
        path = in.text(field.name);
        if (path.empty()) {
            continue;
        }
        if (path.front() != '/' && path != kHidden) {
            return Refusal{400, "malformed_path", std::string(field.name),
                           std::string(field.name) + " must be an absolute path",
                           "a path that starts with /"};
        }
        in.set(field.name, Json(kHidden));
    }
    const std::string handoff = in.text("client_handoff_fields");
    out.rule.handoff = handoff == "refuse" ? Handoff::Refuse
                       : handoff == "pass" ? Handoff::Pass
                                           : Handoff::Drop;
    return std::nullopt;
}

std::optional<Refusal> take_plugins(Effective& in, const Loaded& loaded, Draft& out) {
    if (auto refusal = take_selector(in, loaded, out.rule)) {
        return refusal;
    }
    if (auto refusal = take_engine(in, loaded, out.rule)) {
        return refusal;
    }
    in.set("sel", Json(out.rule.sel));
    in.set("selector", Json(out.rule.selector));
    in.set("engine", Json(out.rule.engine));
    if (const Json* config = in.find("plugin_config")) {
        out.rule.plugin_config = config->dump();
        if (out.rule.plugin_config.size() > 64 * 1024) {
            return Refusal{400, "out_of_range", "plugin_config", "plugin_config is too long",
                           "at most 65536 bytes"};
        }
    }
    if (const Json* aliases = in.find("model_aliases")) {
        for (const auto& [from, to] : *aliases->object()) {
            if (to.text()->empty() || to.text()->size() > 255 || from.size() > 255) {
                return Refusal{400, "malformed_text", "model_aliases",
                               "model_aliases: a model name has 1..255 bytes", "1..255 bytes"};
            }
            out.rule.model_aliases.emplace(from, *to.text());
        }
    }
    return std::nullopt;
}

}  // namespace sluice::rules
