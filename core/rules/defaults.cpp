#include "core/rules/defaults.hpp"

#include <charconv>

#include "core/rules/field.hpp"

namespace sluice::rules {
namespace {

constexpr std::string_view kReplayOffset = "LLB_KV_REPLAY_PORT_OFFSET";
constexpr std::string_view kLegacyUnified = "LOXILB_KV_UNIFIED_MODE";

std::optional<std::uint64_t> to_number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (ec != std::errc() || end != text.data() + text.size() || text.empty()) {
        return std::nullopt;
    }
    return value;
}

// A variable's or a configuration line's text as the field's type.
Json to_value(const Field& field, const std::string& text) {
    if (field.type == Type::Uint) {
        if (const auto n = to_number(text)) {
            return Json(*n);
        }
    }
    if (field.type == Type::Bool && (text == "true" || text == "false")) {
        return Json(text == "true");
    }
    return Json(text);  // of the wrong type where that is not text: the check says so
}

struct Named {
    std::string path;
    const Field* field;
};

void collect(std::span<const Field> table, const std::string& prefix, std::vector<Named>& out) {
    for (const Field& field : table) {
        if (!field.members.empty()) {
            collect(field.members, prefix + std::string(field.name) + ".", out);
        } else if (field.is_process) {
            out.push_back({prefix + std::string(field.name), &field});
        }
    }
}

}  // namespace

Result<Defaults> Defaults::from(const Lookup& environment,
                                const std::map<std::string, std::string>& config) {
    Defaults out;
    std::vector<Named> known;
    collect(service_fields(), "", known);
    const auto take = [&out](const Named& named, const std::string& text,
                             const std::string& source) -> Status {
        const Json value = to_value(*named.field, text);
        auto refusal = check_value(*named.field, value, source);
        if (!refusal) {
            refusal = check_supported(*named.field, value, source);
        }
        if (refusal) {
            const bool is_said = refusal->message.ends_with("allowed is " + refusal->allowed);
            return Error{Code::Invalid, is_said
                                            ? refusal->message
                                            : refusal->message + "; allowed: " + refusal->allowed};
        }
        out.values_[named.path] = value.dump();
        return {};
    };
    for (const auto& [name, text] : config) {
        const auto it = std::find_if(known.begin(), known.end(),
                                     [&wanted = name](const Named& n) { return n.path == wanted; });
        if (it == known.end()) {
            return Error{Code::Invalid, "[rules] " + name +
                                            ": no such default; GET /netlox/v1/meta has the "
                                            "fields of a rule"};
        }
        if (auto taken = take(*it, text, "[rules] " + name); !taken) {
            return taken.error();
        }
    }
    if (environment(kLegacyUnified) == "0") {
        out.values_["kvLbMode"] = "\"off\"";
    }
    for (const Named& named : known) {
        if (named.field->env.empty()) {
            continue;
        }
        if (const auto text = environment(named.field->env); text && !text->empty()) {
            if (auto taken = take(named, *text, std::string(named.field->env)); !taken) {
                return taken.error();
            }
        }
    }
    if (const auto text = environment(kReplayOffset); text && !text->empty()) {
        const auto n = to_number(*text);
        if (!n || *n > 65535) {
            return Error{Code::Invalid,
                         std::string(kReplayOffset) + " must be 0..65535, is " + *text};
        }
        out.replay_port_offset_ = static_cast<std::uint32_t>(*n);
    }
    return out;
}

std::optional<std::string> Defaults::value(std::string_view field) const {
    const auto it = values_.find(field);
    if (it == values_.end()) {
        return std::nullopt;
    }
    return it->second;
}

}  // namespace sluice::rules
