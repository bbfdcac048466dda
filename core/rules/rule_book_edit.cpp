// Edits of a rule in force: merge patches, endpoints added and taken out.
#include "core/rules/auth_file.hpp"
#include "core/rules/edit.hpp"
#include "core/rules/rule_book.hpp"
#include "core/rules/stored.hpp"

namespace sluice::rules {
namespace {

Outcome refused(Refusal refusal) {
    Outcome out;
    out.refusal = std::move(refusal);
    return out;
}

}  // namespace

std::optional<Rule> RuleBook::asleep(const RuleKey& key) const {
    for (const Dormant& sleeper : dormant()) {
        const auto document = Json::parse(sleeper.body);
        if (!(sleeper.key == key) || !document.ok() || document->object() == nullptr) {
            continue;
        }
        const auto at = document->object()->find("serviceArguments");
        const Json::Object* service =
            at == document->object()->end() ? nullptr : at->second.object();
        if (service == nullptr) {
            continue;
        }
        Rule out;
        const auto up = service->find("adminStateUp");
        out.is_admin_up = up == service->end() || up->second != Json(false);
        for (const KeyFileField& field : key_file_fields()) {
            if (const auto path = service->find(std::string(field.name));
                path != service->end() && path->second.text() != nullptr) {
                out.*field.path = *path->second.text();
            }
        }
        return out;
    }
    return std::nullopt;
}

Outcome RuleBook::patch(const RuleKey& key, std::string_view json, const Actor& actor) {
    const ChangeLock change = begin_change();
    if (!change) {
        return refused(busy_refusal());
    }
    const RulePtr previous = find(key);
    if (previous == nullptr) {
        for (const Dormant& sleeper : dormant()) {
            if (sleeper.key == key) {
                return refused({409,
                                "not_in_force",
                                sleeper.why.field,
                                "the rule is stored but not in force: " + sleeper.why.message +
                                    "; replace or delete it",
                                {}});
            }
        }
        return refused({404, "no_rule", "", "no-rule error: no rule has this key", {}});
    }
    Edited edited = merged(*previous, json);
    if (auto* refusal = std::get_if<Refusal>(&edited)) {
        return refused(std::move(*refusal));
    }
    Parsed parsed = parse_document(std::move(std::get<Json>(edited)), defaults_, loaded());
    if (parsed.refusal) {
        return refused(std::move(*parsed.refusal));
    }
    const Rule& rule = parsed.rule;
    if (rule.json == previous->json) {
        return {std::nullopt, warnings(previous->number), previous};
    }
    if (auto refusal = check_key_files(rule, previous.get())) {
        return refused(std::move(*refusal));
    }
    return replace(std::move(parsed), previous, "rule.patch", actor);
}

Outcome RuleBook::change_endpoints(const Parsed& asked, const RulePtr& previous,
                                   const Actor& actor) {
    if (previous == nullptr) {
        return refused({404, "no_rule", "", "no-rule error: no rule has this key", {}});
    }
    Edited edited = with_endpoints(*previous, asked);
    if (auto* refusal = std::get_if<Refusal>(&edited)) {
        return refused(std::move(*refusal));
    }
    Parsed parsed = parse_document(std::move(std::get<Json>(edited)), defaults_, loaded());
    if (parsed.refusal) {
        return refused(std::move(*parsed.refusal));
    }
    return replace(std::move(parsed), previous, asked.oper == 1 ? "rule.attach" : "rule.detach",
                   actor);
}

}  // namespace sluice::rules
