#include "core/rules/field.hpp"

#include <doctest/doctest.h>

#include <set>

TEST_SUITE_BEGIN("rules/field");

using namespace sluice;
using namespace sluice::rules;

namespace {

template <class Visit>
void each(std::span<const Field> table, const std::string& prefix, const Visit& visit) {
    std::set<std::string> seen;
    for (const Field& field : table) {
        const std::string path = prefix + std::string(field.name);
        CAPTURE(path);
        CHECK(seen.insert(path).second);
        visit(path, field);
        each(field.members, path + ".", visit);
    }
}

template <class Visit>
void every(const Visit& visit) {
    each(body_fields(), "", visit);
    each(service_fields(), "serviceArguments.", visit);
    each(endpoint_fields(), "endpoints[].", visit);
    each(source_fields(), "allowedSources[].", visit);
}

}  // namespace

TEST_CASE("every field says what it is, once") {
    std::size_t fields = 0;
    every([&fields](const std::string&, const Field& field) {
        CHECK(field.about.size() > 8);
        CHECK(field.about.ends_with('.'));
        ++fields;
    });
    CHECK(fields > 150);
}

TEST_CASE("a default is a value the field takes, and one we have") {
    every([](const std::string& path, const Field& field) {
        if (field.fallback.empty()) {
            return;
        }
        const auto value = Json::parse(field.fallback);
        REQUIRE(value.ok());
        CHECK_FALSE(check_value(field, *value, path).has_value());
        CHECK_FALSE(check_supported(field, *value, path).has_value());
        CHECK(is_same_value(field, &*value, nullptr));
    });
}

TEST_CASE("a value we have is a value that is known") {
    every([](const std::string& path, const Field& field) {
        for (std::string_view have = field.built; !have.empty() && field.type == Type::Text;) {
            const std::size_t bar = have.find('|');
            const std::string word(have.substr(0, bar));
            CHECK_FALSE(check_value(field, Json(word), path).has_value());
            have.remove_prefix(bar == std::string_view::npos ? have.size() : bar + 1);
        }
    });
}

TEST_CASE("a hidden value is not in the refusal of it") {
    const Json::Object given{
        {"mtls_backend", Json::Object{{"client_key_data", std::string("c2VjcmV0")}}}};
    const auto refusal = check_supported(service_fields(), given, "");
    REQUIRE(refusal.has_value());
    CHECK(refusal->field == "mtls_backend.client_key_data");
    CHECK(refusal->message.find("c2VjcmV0") == std::string::npos);
}

TEST_CASE("a long value is cut at a whole character") {
    for (std::size_t shift = 0; shift < 4; ++shift) {
        const Json value(std::string(shift, 'a') + "éééééééééééééééééééééééééééééééééééééééé");
        const auto refusal =
            check_value(*find_field(service_fields(), "kvDiscovery"), value, "kvDiscovery");
        REQUIRE(refusal.has_value());
        CHECK(refusal->status == 422);
        CHECK(refusal->message.find("...") != std::string::npos);
        CHECK(Json::parse(Json(refusal->message).dump()).ok());  // whole characters only
    }
}

TEST_SUITE_END();
