// Snapshot and restore, export and import, audit and backup over the interface.
#include <doctest/doctest.h>

#include "core/admin/api.hpp"
#include "core/base/log.hpp"
#include "core/rules/secrets.hpp"
#include "tests/unit/admin/fakes.hpp"
#include "tests/unit/rules/bodies.hpp"
#include "tests/unit/rules/fakes.hpp"

TEST_SUITE_BEGIN("admin/store_routes");

using namespace sluice;
using namespace sluice::admin;
using rules::Json;
using test::body;

namespace {

const std::string kConfig = "/netlox/v1/config/";

struct Fixture {
    Fixture() {
        log::set_sink([](log::Level, const std::string&) {});
    }
    ~Fixture() { log::set_sink({}); }

    test::MemoryStore store;
    test::RecordingHooks hooks;
    test::FakeProviders providers;
    rules::RuleBook book{store, hooks};
    Api api{Context{book, providers, "1.2.3", "test build"}, Tokens()};

    Response ask(const std::string& method, const std::string& target,
                 const std::string& text = "") {
        Request request;
        request.method = method;
        const auto mark = target.find('?');
        request.path = kConfig + target.substr(0, mark);
        request.query = mark == std::string::npos ? "" : target.substr(mark + 1);
        request.address = "127.0.0.1";
        request.body = text;
        bool wants_body = false;
        if (auto early = api.admit(request, wants_body, 1)) {
            return *early;
        }
        return api.answer(request);
    }
    Json json(const Response& response, int status = 200) {
        CAPTURE(response.body);
        REQUIRE(response.status == status);
        auto value = Json::parse(response.body, 1U << 24U, 20);
        REQUIRE(value.ok());
        return std::move(*value);
    }
    void post(const std::string& name, int port) {
        REQUIRE(ask("POST", "loadbalancer",
                    body({{"name", "\"" + name + "\""}, {"port", std::to_string(port)}}))
                    .status == 200);
    }
};

const Json& at(const Json& json, const char* name) {
    return json.object()->at(name);
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a snapshot is checked, and brought back only when told to") {
    post("a", 1);
    Json document = json(ask("GET", "snapshot"));
    post("b", 2);
    const Json dry = json(ask("POST", "restore", document.dump()));
    CHECK(at(dry, "committed") == Json(false));
    CHECK(at(dry, "deleted") == Json(1));
    CHECK(at(dry, "unchanged") == Json(1));
    CHECK(book.table()->rules().size() == 2);
    document.object()->emplace("commit", true);
    const Json done = json(ask("POST", "restore", document.dump()));
    CHECK(at(done, "committed") == Json(true));
    CHECK(at(done, "generation") == Json(3));
    CHECK(at((*at(done, "changes").array())[0], "change") == Json("deleted"));
    CHECK(at((*at(done, "changes").array())[0], "name") == Json("b"));
    CHECK(book.table()->rules().size() == 1);

    document.object()->insert_or_assign("commit", "yes");
    CHECK(at(json(ask("POST", "restore", document.dump()), 422), "field") == Json("commit"));
    CHECK(at(json(ask("POST", "restore", "{}"), 400), "code") == Json("malformed_snapshot"));
    CHECK(at(json(ask("POST", "restore", "["), 400), "code") == Json("malformed_json"));
}

TEST_CASE_FIXTURE(Fixture,
                  "an export can be imported, and a refusal names every rule it is about") {
    post("a", 1);
    post("b", 2);
    const Response exported = ask("GET", "export");
    CHECK(exported.body.find("\"number\"") == std::string::npos);
    CHECK(exported.body.find("\"id\"") == std::string::npos);
    post("c", 3);
    Json done = json(ask("POST", "import", exported.body));
    CHECK(at(done, "unchanged") == Json(2));
    CHECK(at(done, "deleted") == Json(0));
    done = json(ask("POST", "import?mode=merge", exported.body));
    CHECK(at(done, "deleted") == Json(0));
    done = json(ask("POST", "import?mode=replace", exported.body));
    CHECK(at(done, "deleted") == Json(1));
    CHECK(book.table()->rules().size() == 2);
    CHECK(at(json(ask("POST", "import?mode=other", exported.body), 400), "field") == Json("mode"));

    const Json refused = json(
        ask("POST", "import?mode=replace", R"({"rules":[{},)" + body() + R"(,{"a":1}]})"), 400);
    CHECK(at(refused, "refused").array()->size() == 2);
    CHECK(at((*at(refused, "refused").array())[1], "index") == Json(2));
    CHECK(book.table()->rules().size() == 2);
}

TEST_CASE_FIXTURE(Fixture, "the audit trail tells who changed what, and no secret") {
    post("a", 1);
    CHECK(ask("DELETE", "metrics").status == 200);
    const Json trail = json(ask("GET", "audit?limit=2"));
    const Json::Array& rows = *at(trail, "audit").array();
    REQUIRE(rows.size() == 2);
    CHECK(at(rows[0], "action") == Json("setting.set"));
    CHECK(at(rows[0], "before").is_null());
    CHECK(at(rows[0], "after") == Json("off"));
    CHECK(at(rows[1], "who") == Json("local"));
    CHECK(at(rows[1], "from") == Json("127.0.0.1"));
    CHECK(at(at(at(rows[1], "after"), "serviceArguments"), "name") == Json("a"));
    CHECK(ask("GET", "audit?limit=0").status == 400);
    CHECK(ask("GET", "audit?limit=1001").status == 400);
    CHECK(ask("GET", "audit?before=x").status == 400);
    // The book hides what a row may not hold, whoever writes it.
    REQUIRE_FALSE(book.set("hmac_secret", "S3CRET", {"ann", "x"}).has_value());
    CHECK(store.settings["hmac_secret"] == "S3CRET");
    CHECK(ask("GET", "audit").body.find("S3CRET") == std::string::npos);
    CHECK(ask("GET", "snapshot").body.find("S3CRET") == std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "persist tells which state is on the disk, backup gives the file") {
    const auto ready = [this] {
        Request request;
        request.method = "GET";
        request.path = "/netlox/v1/status/ready";
        bool wants_body = false;
        REQUIRE_FALSE(api.admit(request, wants_body, 1).has_value());
        return json(api.answer(request));
    };
    CHECK(at(ready(), "last_persist").is_null());
    CHECK(at(ready(), "last_restore").is_null());
    const Json none = json(ask("POST", "persist"));
    CHECK(at(none, "generation") == Json(0));
    CHECK(at(none, "at").is_null());
    post("a", 1);
    CHECK(at(json(ask("POST", "persist")), "generation") == Json(1));
    CHECK(at(at(ready(), "last_persist"), "generation") == Json(1));
    CHECK(at(at(ready(), "last_persist"), "error") == Json(""));
    const Response backup = ask("GET", "backup");
    CHECK(backup.status == 200);
    CHECK(backup.body == "backup");
    CHECK(backup.content_type == "application/vnd.sqlite3");
    store.fail_with = Error{Code::Unavailable, "busy"};
    for (const char* target : {"audit", "backup"}) {
        CAPTURE(std::string(target));
        CHECK(at(json(ask("GET", target), 503), "code") == Json("storage_busy"));
    }
    CHECK(ask("POST", "persist").status == 503);
    store.fail_with = Error{Code::Limit, "too large"};
    CHECK(at(json(ask("GET", "backup"), 503), "code") == Json("backup_too_large"));
    CHECK(at(json(ask("POST", "persist"), 507), "code") == Json("storage_full"));
}

TEST_CASE_FIXTURE(Fixture,
                  "a change that comes while a restore runs is 503, a question is answered") {
    class Asking final : public rules::Hooks {
    public:
        std::optional<rules::Refusal> prepare(const rules::RulePtr&, const rules::RulePtr&,
                                              std::vector<rules::Warning>&) override {
            ask();
            return std::nullopt;
        }
        void abandoned(const rules::RulePtr&) override {}
        void applied(const std::shared_ptr<const rules::Table>&) override {}
        std::function<void()> ask;
    };
    post("a", 1);
    const std::string document = ask("GET", "export").body;
    Asking asking;
    test::MemoryStore other;
    rules::RuleBook busy(other, asking);
    Api its_api(Context{busy, providers, "1", "b"}, Tokens());
    std::map<std::string, int> answers;
    asking.ask = [&] {
        for (const char* one : {"POST loadbalancer", "DELETE metrics", "POST import",
                                "POST persist", "GET loadbalancer/all", "GET snapshot"}) {
            const std::string line = one;
            Request request;
            request.method = line.substr(0, line.find(' '));
            request.path = kConfig + line.substr(line.find(' ') + 1);
            request.body = "{}";
            bool wants_body = false;
            if (!its_api.admit(request, wants_body, 1)) {
                answers[line] = its_api.answer(request).status;
            }
        }
    };
    Request request;
    request.method = "POST";
    request.path = kConfig + "import";
    request.body = document;
    bool wants_body = false;
    REQUIRE_FALSE(its_api.admit(request, wants_body, 1).has_value());
    CHECK(request.max_body > (1U << 20U));
    CHECK(its_api.answer(request).status == 200);
    CHECK(answers == std::map<std::string, int>{{"POST loadbalancer", 503},
                                                {"DELETE metrics", 503},
                                                {"POST import", 503},
                                                {"POST persist", 503},
                                                {"GET loadbalancer/all", 200},
                                                {"GET snapshot", 200}});
}

TEST_SUITE_END();
