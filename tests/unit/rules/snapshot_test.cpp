#include "core/rules/snapshot.hpp"

#include <doctest/doctest.h>

#include "core/rules/rule_book.hpp"
#include "core/rules/secrets.hpp"

TEST_SUITE_BEGIN("rules/snapshot");

using namespace sluice;
using namespace sluice::rules;

namespace {

state::Contents contents() {
    state::Contents out;
    out.rules = {{7,
                  "r-7",
                  3,
                  R"({"serviceArguments":{"port":1}})",
                  4,
                  {{11, 1, "10.0.0.1", 80, 0}, {12, 3, "fd00::1", 81, 1}}}};
    out.counters = {9, 20};
    out.settings = {{"prometheus", "off"}};
    out.marks = {"store", 42, 1, 0};
    return out;
}

std::string wrong_field(const Json& document) {
    state::Contents out;
    const auto refusal = read_snapshot(document, out);
    return refusal ? refusal->code + " " + refusal->field : "";
}

}  // namespace

TEST_CASE("a snapshot read back is what was stored") {
    const Json document = snapshot_of(contents(), 1'738'324'800'000'001U);
    CHECK(*document.object()->at("taken").text() == "2025-01-31T12:00:00.000001Z");
    auto parsed = Json::parse(document.dump());
    REQUIRE(parsed.ok());
    state::Contents out;
    REQUIRE_FALSE(read_snapshot(*parsed, out).has_value());
    REQUIRE(out.rules.size() == 1);
    CHECK(out.rules[0].number == 7);
    CHECK(out.rules[0].id == "r-7");
    CHECK(out.rules[0].generation == 3);
    CHECK(out.rules[0].next_ep_idx == 4);
    CHECK(out.rules[0].body == contents().rules[0].body);
    REQUIRE(out.rules[0].endpoints.size() == 2);
    CHECK(out.rules[0].endpoints[1].id == 12);
    CHECK(out.rules[0].endpoints[1].ip == "fd00::1");
    CHECK(out.rules[0].endpoints[1].role == 1);
    CHECK(out.counters.next_rule_number == 9);
    CHECK(out.counters.next_endpoint_id == 20);
    CHECK(out.settings == contents().settings);
    CHECK(out.marks.store_id == "store");
    CHECK(out.marks.generation == 42);
    // "commit" is the request's, not the snapshot's.
    parsed->object()->emplace("commit", true);
    CHECK(wrong_field(*parsed).empty());
}

TEST_CASE("a document that was changed, or is none, is refused") {
    const Json good = snapshot_of(contents(), 5);
    Json changed = good;
    changed.object()->insert_or_assign("generation", 43);
    CHECK(wrong_field(changed) == "digest_mismatch digest");
    changed = good;
    changed.object()->insert_or_assign("format", 2);
    CHECK(wrong_field(changed) == "format_not_supported format");
    for (const char* name : {"format", "digest"}) {
        changed = good;
        changed.object()->erase(name);
        CHECK(wrong_field(changed) == std::string("malformed_snapshot ") + name);
    }
    CHECK(wrong_field(Json::Object{}) == "malformed_snapshot format");
    Json out;
    CHECK(read_document("[]", out)->code == "malformed_json");
    CHECK(read_document("{", out)->code == "malformed_json");
    CHECK(read_document(std::string(kMaxDocumentBytes + 1, ' '), out)->status == 413);
}

TEST_CASE("contents that no store can hold are refused by their place") {
    struct Row {
        std::string want;
        void (*spoil)(state::Contents&);
    };
    for (const Row& row : {
             Row{"rules[0].number",
                 [](state::Contents& c) {
                     c.rules[0].number = 9;
                 }},
             Row{"rules[0].number",
                 [](state::Contents& c) {
                     c.rules[0].number = 0;
                 }},
             Row{"rules[0].id",
                 [](state::Contents& c) {
                     c.rules[0].id = "";
                 }},
             Row{"rules[1].number",
                 [](state::Contents& c) {
                     c.rules.push_back(c.rules[0]);
                 }},
             Row{"rules[0].body",
                 [](state::Contents& c) {
                     c.rules[0].body = "no object";
                 }},
             Row{"rules[0].endpoints[0].id",
                 [](state::Contents& c) {
                     c.rules[0].endpoints[0].id = 20;
                 }},
             Row{"rules[0].endpoints[0].ep_idx",
                 [](state::Contents& c) {
                     c.rules[0].endpoints[0].ep_idx = 4;
                 }},
             Row{"rules[0].endpoints[1].id",
                 [](state::Contents& c) {
                     c.rules[0].endpoints[1].id = 11;
                 }},
             Row{"rules[0].endpoints[1].id",
                 [](state::Contents& c) {
                     c.rules[0].endpoints[1].ep_idx = 1;
                 }},
             Row{"rules[0].endpoints[0].targetPort",
                 [](state::Contents& c) {
                     c.rules[0].endpoints[0].port = 0;
                 }},
             Row{"store_id",
                 [](state::Contents& c) {
                     c.marks.store_id.clear();
                 }},
             Row{"counters.next_rule_number",
                 [](state::Contents& c) {
                     c.counters.next_rule_number = 0;
                 }},
         }) {
        CAPTURE(row.want);
        state::Contents spoiled = contents();
        row.spoil(spoiled);
        CHECK(wrong_field(snapshot_of(spoiled, 5)) == "malformed_snapshot " + row.want);
    }
}

TEST_CASE("an export holds the bodies alone, and an import takes nothing else") {
    const Json document = export_of(contents(), 5);
    CHECK(document.object()->size() == 3);
    std::vector<std::string> bodies;
    REQUIRE_FALSE(read_export(document, bodies).has_value());
    CHECK(bodies == std::vector<std::string>{contents().rules[0].body});
    bodies.clear();
    CHECK_FALSE(read_export(*Json::parse(R"({"rules":[]})"), bodies).has_value());
    CHECK(read_export(*Json::parse(R"({"rules":[],"rule":1})"), bodies)->code == "unknown_field");
    CHECK(read_export(*Json::parse(R"({"rules":{}})"), bodies)->field == "rules");
    CHECK(read_export(*Json::parse(R"({})"), bodies)->field == "rules");
    CHECK(read_export(*Json::parse(R"({"format":9,"rules":[]})"), bodies)->code ==
          "format_not_supported");
}

TEST_CASE("a document of more rules than there may be is refused before they are looked at") {
    std::string rules = "{}";
    for (std::size_t i = 1; i < RuleBook::kMaxRules; ++i) {
        rules += ",{}";
    }
    Json document;
    CHECK_FALSE(read_document("{\"rules\":[" + rules + "]}", document).has_value());
    const auto refusal = read_document("{\"rules\":[{}," + rules + "]}", document);
    REQUIRE(refusal.has_value());
    CHECK(refusal->status == 403);
    CHECK(refusal->code == "rule_hwm");
    CHECK(refusal->field == "rules");
}

TEST_CASE("a secret is shown nowhere and comes back from the rule in force") {
    const std::string with_secret =
        R"({"serviceArguments":{"max_tokens":3,"mtls_backend":{"client_cert_path":"/c","client_key_data":"S3CRET"},)"
        R"("plugin_config":{"list":[{"api_key":"S3CRET"}],"Token":"S3CRET","password":{"a":"S3CRET"}}}})";
    CHECK(without_secrets(with_secret).find("S3CRET") == std::string::npos);
    CHECK(without_secrets(with_secret).find("/c") != std::string::npos);
    CHECK(without_secrets(with_secret).find("\"max_tokens\":3") != std::string::npos);
    state::Contents stored = contents();
    stored.rules[0].body = with_secret;
    stored.settings["hmac_secret"] = "S3CRET";
    CHECK(snapshot_of(stored, 5).dump().find("S3CRET") == std::string::npos);
    CHECK(export_of(stored, 5).dump().find("S3CRET") == std::string::npos);

    Json hidden = *Json::parse(without_secrets(with_secret));
    const Json known = *Json::parse(with_secret);
    CHECK(fill_secrets(hidden, &known).empty());
    CHECK(hidden == known);
    hidden = *Json::parse(without_secrets(with_secret));
    CHECK(fill_secrets(hidden, nullptr) == "client_key_data");
    CHECK(without_secrets("plain text") == "plain text");
    CHECK(without_secrets("") == "");
}

TEST_SUITE_END();
