// The interface without a socket: requests as values, a store in memory.
#pragma once
#include <doctest/doctest.h>

#include "core/admin/api.hpp"
#include "core/base/log.hpp"
#include "tests/unit/admin/fakes.hpp"
#include "tests/unit/rules/bodies.hpp"
#include "tests/unit/rules/fakes.hpp"

namespace sluice::test {

class ApiFixture {
public:
    ApiFixture() {
        log::set_sink([](log::Level, const std::string&) {});
    }
    ~ApiFixture() { log::set_sink({}); }
    ApiFixture(const ApiFixture&) = delete;
    ApiFixture& operator=(const ApiFixture&) = delete;

    void use_tokens(std::string_view file) {
        auto tokens = admin::Tokens::parse(file);
        REQUIRE(tokens.ok());
        api.replace(std::move(*tokens));
    }
    admin::KnobValues knobs;  // take effect with use_knobs()
    void use_knobs() { api.context().node->knobs.set(knobs); }

    admin::Response ask(admin::Request request, const std::string& target) {
        const auto mark = target.find('?');
        request.path = target.substr(0, mark);
        request.query = mark == std::string::npos ? "" : target.substr(mark + 1);
        request.address = "127.0.0.1";
        bool wants_body = false;
        if (auto early = api.admit(request, wants_body, 1)) {
            return *early;
        }
        return api.answer(request);
    }
    admin::Response ask(const std::string& method, const std::string& target,
                        const std::string& text = "", const std::string& token = "") {
        admin::Request request;
        request.method = method;
        request.body = text;
        request.authorization = token.empty() ? "" : "Bearer " + token;
        return ask(std::move(request), target);
    }
    rules::Json json(const std::string& method, const std::string& target,
                     const std::string& text = "", int status = 200) {
        const admin::Response response = ask(method, target, text);
        CAPTURE(response.body);
        CHECK(response.status == status);
        auto value = rules::Json::parse(response.body);
        REQUIRE(value.ok());
        return std::move(*value);
    }
    // As after a restart.
    void restart() { REQUIRE(book.load().ok()); }

    MemoryStore store;
    RecordingHooks hooks;
    FakeProviders providers;
    rules::RuleBook book{store, hooks};
    admin::Api api{admin::Context{book, providers, "1.2.3", "test build"}, admin::Tokens()};
};

// JSON text of a member; "!" when it is not there.
inline std::string text_of(const rules::Json& json, std::string_view name) {
    if (json.object() == nullptr || json.object()->find(name) == json.object()->end()) {
        return "!";
    }
    return json.object()->find(name)->second.dump();
}

inline std::string code_of(const admin::Response& response) {
    const auto value = rules::Json::parse(response.body);
    return value.ok() ? text_of(*value, "code") : "!";
}

inline std::string header_of(const admin::Response& response, std::string_view name) {
    for (const auto& [have, value] : response.headers) {
        if (have == name) {
            return value;
        }
    }
    return "";
}

}  // namespace sluice::test
