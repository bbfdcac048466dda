#include "tests/unit/plugin/support.hpp"

TEST_SUITE_BEGIN("plugin/propose");

using namespace sluice::plugin;
using testing::Fake;

namespace {

constexpr const char* kSchema = R"({"type":"object","additionalProperties":false,"properties":{
    "port":{"type":"integer","minimum":0,"maximum":65535},
    "ranks":{"type":"integer","default":1},
    "dialect":{"type":"string","x-immutable":true,"default":"a"}}})";

void say(sluice_verdict_out& out, sluice_status kind, const char* code, const char* field,
         const char* text) {
    out.say(out.ctx, kind, borrow(code), borrow(field), borrow(text));
}

}  // namespace

TEST_CASE("a configuration the schema and the plugin accept comes back complete") {
    Fake fake;
    fake.schema = kSchema;
    std::string seen;
    fake.on_check = [&](const sluice_proposal& in, sluice_verdict_out& out, sluice_error*) {
        seen = std::string(view(in.config)) + "|" + std::string(view(in.rule));
        out.effective(out.ctx, borrow("port"), borrow("5557"));
        out.effective(out.ctx, borrow("elsewhere"), borrow("\"shown only\""));
        say(out, SLUICE_OK, "slow", "ranks", "one rank is slow");
        return sluice_status{SLUICE_OK};
    };
    const Verdict verdict = fake.plugin()->propose("{}", R"({"name":"r"})", "", "");
    CHECK_FALSE(verdict.is_refused());
    CHECK(seen == R"({}|{"name":"r"})");
    CHECK(verdict.config == R"({"port":5557,"ranks":1,"dialect":"a"})");
    REQUIRE(verdict.findings.size() == 1);
    CHECK(verdict.findings[0].kind == Finding::Kind::Warning);
    const std::vector<std::pair<std::string, std::string>> want{
        {"port", "5557"}, {"elsewhere", "\"shown only\""}, {"ranks", "1"}, {"dialect", "\"a\""}};
    CHECK(verdict.effective == want);
}

TEST_CASE("what the operator gave is not overruled by an effective value") {
    Fake fake;
    fake.schema = kSchema;
    fake.on_check = [](const sluice_proposal&, sluice_verdict_out& out, sluice_error*) {
        out.effective(out.ctx, borrow("port"), borrow("1"));
        return sluice_status{SLUICE_OK};
    };
    const Verdict verdict = fake.plugin()->propose(R"({"port":9})", "{}", "", "");
    CHECK(verdict.config == R"({"port":9,"ranks":1,"dialect":"a"})");
}

TEST_CASE("the schema's refusal comes first and the plugin is not asked") {
    Fake fake;
    fake.schema = kSchema;
    bool was_asked = false;
    fake.on_check = [&](const sluice_proposal&, sluice_verdict_out&, sluice_error*) {
        was_asked = true;
        return sluice_status{SLUICE_OK};
    };
    const Verdict verdict = fake.plugin()->propose(R"({"port":-1})", "{}", "", "");
    CHECK(verdict.is_refused());
    CHECK(verdict.config.empty());
    CHECK_FALSE(was_asked);
}

TEST_CASE("each way of refusing refuses") {
    struct Row {
        const char* name;
        sluice_status kind;
        sluice_status returned;
        Finding::Kind want;
    };
    for (const Row& row :
         {Row{"says config", SLUICE_E_CONFIG, SLUICE_OK, Finding::Kind::Refused},
          Row{"says immutable", SLUICE_E_IMMUTABLE, SLUICE_OK, Finding::Kind::Immutable},
          Row{"says something nobody knows", 77, SLUICE_OK, Finding::Kind::Refused},
          Row{"returns config", SLUICE_OK, SLUICE_E_CONFIG, Finding::Kind::Refused},
          Row{"returns immutable", SLUICE_OK, SLUICE_E_IMMUTABLE, Finding::Kind::Immutable}}) {
        CAPTURE(row.name);
        Fake fake;
        fake.schema = kSchema;
        fake.on_check = [&](const sluice_proposal&, sluice_verdict_out& out, sluice_error* err) {
            if (row.kind != SLUICE_OK) {
                say(out, row.kind, "port_unused", "port", "not used by this engine");
            }
            return row.returned == SLUICE_OK ? row.returned
                                             : report(err, row.returned, "the plugin's words");
        };
        const Verdict verdict = fake.plugin()->propose("{}", "{}", "", "");
        REQUIRE(verdict.is_refused());
        CHECK(verdict.findings[0].kind == row.want);
        CHECK(verdict.config.empty());
    }
}

TEST_CASE("an immutable field of a live rule is refused before it changes") {
    Fake fake;
    fake.schema = kSchema;
    const auto plugin = fake.plugin();
    CHECK_FALSE(plugin->propose(R"({"dialect":"b"})", "{}", "", "").is_refused());
    const Verdict verdict = plugin->propose(R"({"dialect":"b"})", "{}", "{}", R"({"dialect":"a"})");
    REQUIRE(verdict.is_refused());
    CHECK(verdict.findings[0].kind == Finding::Kind::Immutable);
    CHECK(verdict.findings[0].field == "dialect");
}

TEST_CASE("effective values that are no JSON or that the schema refuses do not get through") {
    testing::QuietLog quiet;
    Fake fake;
    fake.schema = kSchema;
    fake.on_check = [](const sluice_proposal&, sluice_verdict_out& out, sluice_error*) {
        out.effective(out.ctx, borrow("port"), borrow("{broken"));
        return sluice_status{SLUICE_OK};
    };
    CHECK(fake.plugin()->propose("{}", "{}", "", "").config == R"({"ranks":1,"dialect":"a"})");
    CHECK(quiet.says("breaks its contract"));

    fake.on_check = [](const sluice_proposal&, sluice_verdict_out& out, sluice_error*) {
        out.effective(out.ctx, borrow("port"), borrow("-5"));
        return sluice_status{SLUICE_OK};
    };
    CHECK(fake.plugin()->propose("{}", "{}", "", "").is_refused());
}

TEST_CASE("a plugin that never stops talking is cut off") {
    testing::QuietLog quiet;
    Fake fake;
    fake.on_check = [](const sluice_proposal&, sluice_verdict_out& out, sluice_error*) {
        for (int i = 0; i < 10'000; ++i) {
            say(out, SLUICE_OK, "noise", "", "again");
        }
        return sluice_status{SLUICE_OK};
    };
    CHECK(fake.plugin()->propose("{}", "{}", "", "").findings.size() == 64);
}

TEST_SUITE_END();
