#include "sdk/check/test_instance.hpp"

#include "sdk/check/schema_value.hpp"
#include "sdk/check/text.hpp"

namespace sluice::check {
namespace {

void say(void* ctx, sluice_status kind, sluice_str code, sluice_str field,
         sluice_str text) noexcept {
    auto& out = *static_cast<Opinion*>(ctx);
    out.text += "say " + std::to_string(kind) + " " + std::string(view(code)) + " " +
                std::string(view(field)) + " " + std::string(view(text)) + "\n";
    out.is_refused = out.is_refused || kind != SLUICE_OK;
    if (kind != SLUICE_OK && kind != SLUICE_E_CONFIG && kind != SLUICE_E_IMMUTABLE) {
        out.problem = "check says something of the kind " + status_name(kind);
    }
    if (view(code).empty() || !is_utf8(view(text)) || !is_one_line(view(text))) {
        out.problem = "check says something without a code, or no line of text";
    }
}

void set_effective(void* ctx, sluice_str field, sluice_str json) noexcept {
    auto& out = *static_cast<Opinion*>(ctx);
    out.text += "effective " + std::string(view(field)) + " " + std::string(view(json)) + "\n";
    simdjson::dom::parser parser;
    simdjson::dom::element value;
    if (parser.parse(json.ptr, json.len).get(value) != simdjson::SUCCESS) {
        out.problem = "check calls effective what is no JSON: " + std::string(view(json));
        return;
    }
    out.effective.emplace_back(view(field), view(json));
}

}  // namespace

Opinion ask(const Loaded& plugin, const sluice_plugin_desc& desc, std::string_view config,
            std::string_view previous) {
    Opinion out;
    if (plugin.entry->check == nullptr) {
        return out;
    }
    const std::string rule =
        R"({"serviceArguments":)" + std::string(config) +
        R"(,"endpoints":[{"endpointIP":"127.0.0.1","targetPort":8000,"weight":1}]})";
    const sluice_proposal proposal{sizeof(sluice_proposal), 0, borrow(config), borrow(rule),
                                   borrow(previous)};
    sluice_verdict_out verdict{sizeof(sluice_verdict_out), 0, &out, &say, &set_effective};
    auto err = empty_error();
    const sluice_status status = plugin.entry->check(desc.id, &proposal, &verdict, &err);
    out.text += "status " + std::to_string(status) + " " +
                (status == SLUICE_OK ? std::string() : text_of(err)) + "\n";
    out.is_refused = out.is_refused || status != SLUICE_OK;
    if (status > 0 || !is_known(status) || status == SLUICE_E_INTERNAL) {
        out.problem = "check returns " + status_name(status);
    }
    return out;
}

std::optional<std::string> complete(const Loaded& plugin, const sluice_plugin_desc& desc,
                                    const schema::Schema& schema, std::string_view config) {
    const Opinion opinion = ask(plugin, desc, config);
    if (opinion.is_refused) {
        return std::nullopt;
    }
    simdjson::dom::parser parser;
    std::string error;
    const auto given = schema::read_object(parser, config, error);
    std::string merged(config);
    merged.erase(merged.rfind('}'));
    for (const auto& [field, json] : opinion.effective) {
        simdjson::dom::element value;
        if (given && schema.root().child(field) != nullptr &&
            given->get_object().value_unsafe()[field].get(value) != simdjson::SUCCESS) {
            merged += merged.back() == '{' ? "" : ",";
            schema::append_quoted(merged, field);
            merged += ":" + json;
        }
    }
    return schema.complete(merged + "}", error);
}

std::string TestInstance::create(std::string_view config) {
    auto err = empty_error();
    status_ = plugin_.entry->create(host_.table(), desc_.id, borrow(config), &self_, &err);
    if (status_ != SLUICE_OK) {
        if (self_ != nullptr) {
            self_ = nullptr;
            return "create fails and touches *out all the same";
        }
        return "create: " + status_name(status_) + " " + text_of(err);
    }
    if (self_ == nullptr || !SLUICE_HAS(sluice_instance, self_, query) ||
        self_->activate == nullptr || self_->deactivate == nullptr || self_->destroy == nullptr ||
        self_->query == nullptr) {
        self_ = nullptr;
        status_ = SLUICE_E_INTERNAL;
        return "create gives no complete instance";
    }
    return {};
}

std::string TestInstance::activate() {
    auto err = empty_error();
    host_.set_phase(ScriptedHost::Phase::Active);
    status_ = self_->activate(self_, &err);
    host_.end_declaring();
    if (status_ != SLUICE_OK) {
        host_.set_phase(ScriptedHost::Phase::Idle);
        return "activate: " + status_name(status_) + " " + text_of(err);
    }
    return {};
}

void TestInstance::end() {
    if (self_ == nullptr) {
        return;
    }
    if (host_.phase() == ScriptedHost::Phase::Active) {
        self_->deactivate(self_);
        if (host_.open_things() > 0) {
            host_.blame("leaves " + std::to_string(host_.open_things()) +
                        " timers, calls or sockets behind after deactivate");
        }
    }
    host_.set_phase(ScriptedHost::Phase::Closed);
    self_->destroy(self_);
    self_ = nullptr;
}

}  // namespace sluice::check
