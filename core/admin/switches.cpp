#include "core/admin/switches.hpp"

#include <array>
#include <utility>

#include "core/rules/json_value.hpp"

namespace sluice::admin {
namespace {

using rules::Json;

constexpr std::string_view kLogSetting = "log_level";

constexpr std::array<std::pair<std::string_view, log::Level>, 9> kWords = {{
    {"trace", log::Level::Debug},
    {"debug", log::Level::Debug},
    {"info", log::Level::Info},
    {"notice", log::Level::Info},
    {"warning", log::Level::Warn},
    {"error", log::Level::Error},
    {"critical", log::Level::Error},
    {"alert", log::Level::Error},
    {"emergency", log::Level::Error},
}};

const Json* member(const Json& json, std::string_view name) {
    const Json::Object* object = json.object();
    if (object == nullptr) {
        return nullptr;
    }
    const auto it = object->find(name);
    return it == object->end() ? nullptr : &it->second;
}

std::uint64_t number(const Json* json) {
    return json == nullptr || json->unsigned_integer() == nullptr ? 0 : *json->unsigned_integer();
}

}  // namespace

Maintenance parse_maintenance(std::string_view stored) {
    const auto json = Json::parse(stored);
    if (!json) {
        return {};
    }
    return {true, number(member(*json, "since_us")),
            number(member(*json, "drain_timeout_seconds"))};
}

Maintenance maintenance(const rules::RuleBook& book) {
    return parse_maintenance(book.setting(kMaintenanceSetting).value_or(""));
}

std::optional<rules::Refusal> set_maintenance(rules::RuleBook& book, const Maintenance& value,
                                              const rules::Actor& actor) {
    const Json json = Json::Object{{"since_us", value.since_us},
                                   {"drain_timeout_seconds", value.drain_timeout_sec}};
    return book.set(kMaintenanceSetting, value.is_on ? json.dump() : "off", actor);
}

std::optional<log::Level> level_of_word(std::string_view word) {
    for (const auto& [known, level] : kWords) {
        if (known == word) {
            return level;
        }
    }
    return std::nullopt;
}

std::string_view word_of_level(log::Level level) {
    return level == log::Level::Warn ? "warning" : log::to_string(level);
}

LogSwitch log_switch(const rules::RuleBook& book, log::Level configured) {
    const auto json = Json::parse(book.setting(kLogSetting).value_or(""));
    if (json) {
        const Json* word = member(*json, "word");
        const Json* over = member(*json, "configured");
        const auto level = word == nullptr || word->text() == nullptr
                               ? std::nullopt
                               : level_of_word(*word->text());
        if (level && over != nullptr && over->text() != nullptr &&
            *over->text() == log::to_string(configured)) {
            return {*word->text(), *level};
        }
    }
    return {std::string(word_of_level(configured)), configured};
}

std::optional<rules::Refusal> set_log_switch(rules::RuleBook& book, std::string_view word,
                                             log::Level configured, const rules::Actor& actor) {
    return book.set(
        kLogSetting,
        Json(Json::Object{{"word", word}, {"configured", log::to_string(configured)}}).dump(),
        actor);
}

}  // namespace sluice::admin
