#include "core/rules/auth_file.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "tests/unit/rules/bodies.hpp"
#include "tests/unit/rules/fakes.hpp"

TEST_SUITE_BEGIN("rules/auth_file");

using namespace sluice;
using namespace sluice::rules;
using test::body;

namespace {

// A file that is gone at the end of its scope.
class File {
public:
    explicit File(const std::string& text, mode_t mode = 0600) {
        std::string name = "/tmp/sluice-key-XXXXXX";
        const int fd = ::mkstemp(name.data());
        REQUIRE(fd >= 0);
        ::close(fd);
        path = name;
        std::ofstream(path) << text;
        ::chmod(path.c_str(), mode);
    }
    ~File() { std::remove(path.c_str()); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    std::string path;
};

std::string quoted(const std::string& text) {
    return "\"" + text + "\"";
}

}  // namespace

TEST_CASE("a key file is one line for its owner alone") {
    struct Row {
        const char* name;
        std::string text;
        mode_t mode;
        bool is_good;
    };
    for (const Row& row :
         {Row{"a key", "sk-1", 0600, true}, Row{"with a line end", "sk-1\n", 0400, true},
          Row{"as long as allowed", std::string(kMaxKeyBytes, 'k') + "\n", 0600, true},
          Row{"longer", std::string(kMaxKeyBytes + 2, 'k'), 0600, false},
          Row{"empty", "", 0600, false}, Row{"an empty line", "\n", 0600, false},
          Row{"two lines", "a\nb\n", 0600, false}, Row{"two words", "a b", 0600, false},
          Row{"a header smuggled in", "a\r\nX-A: b", 0600, false},
          Row{"for the group", "sk-1", 0640, false}, Row{"for everybody", "sk-1", 0644, false}}) {
        CAPTURE(row.name);
        const File file(row.text, row.mode);
        const auto refusal = check_key_file("backend_auth_file", file.path);
        CHECK(refusal.has_value() != row.is_good);
        if (refusal) {
            CHECK(refusal->code == "auth_file_unusable");
            CHECK(refusal->message.find("sk-1") == std::string::npos);
        }
    }
}

TEST_CASE("a key file is kept when it is sent back as it is shown, and is in no audit row") {
    const File file("sk-1");
    test::MemoryStore store;
    test::RecordingHooks hooks;
    RuleBook book(store, hooks);
    REQUIRE_FALSE(
        book.put(body({{"backend_auth_file", quoted(file.path)}}), {}).refusal.has_value());
    const auto sent_back =
        book.put(body({{"backend_auth_file", R"("***")"}, {"name", R"("n")"}}), {});
    REQUIRE_FALSE(sent_back.refusal.has_value());
    CHECK(sent_back.rule->auth_file == file.path);
    CHECK(sent_back.rule->json.find(file.path) != std::string::npos);
    CHECK(sent_back.rule->effective.find(file.path) == std::string::npos);
    for (const state::AuditRow& row : store.trail) {
        CHECK(row.before.find(file.path) == std::string::npos);
        CHECK(row.after.find(file.path) == std::string::npos);
        CHECK(row.after.find("***") != std::string::npos);
    }
    RuleBook again(store, hooks);
    REQUIRE(again.load().ok());
    CHECK(again.table()->rules()[0]->auth_file == file.path);
    CHECK(again.warnings(1).empty());
    // A start without the file keeps the rule and says so.
    ::chmod(file.path.c_str(), 0644);
    REQUIRE(again.load().ok());
    REQUIRE(again.warnings(1).size() == 1);
    CHECK(again.warnings(1)[0].code == "auth_file_unusable");
}

TEST_CASE("the key of hand-offs is a key file like the other, for one engine") {
    const File file("k-1");
    test::MemoryStore store;
    test::RecordingHooks hooks;
    hooks.engine_names = {"vllm", "trtllm"};
    RuleBook book(store, hooks);
    const auto put = [&](const std::string& path, const char* engine) {
        return book.put(body({{"trt_disagg_key_file", quoted(path)}, {"kvEngineType", engine}}),
                        {});
    };
    for (const auto& [path, engine, code] :
         {std::tuple{std::string("key"), R"("trtllm")", "malformed_path"},
          std::tuple{std::string("/nowhere/at/all"), R"("trtllm")", "auth_file_unusable"},
          std::tuple{std::string("***"), R"("trtllm")", "auth_file_hidden"},
          std::tuple{file.path, R"("vllm")", "trt_key_file_unused"}}) {
        CAPTURE(code);
        const auto refused = put(path, engine);
        REQUIRE(refused.refusal.has_value());
        CHECK(refused.refusal->status == 400);
        CHECK(refused.refusal->code == std::string(code));
        CHECK(refused.refusal->field == "trt_disagg_key_file");
        CHECK(book.table()->rules().empty());
    }
    const auto made = put(file.path, R"("trtllm")");
    REQUIRE_FALSE(made.refusal.has_value());
    CHECK(made.rule->trt_key_file == file.path);
    CHECK(made.rule->effective.find(file.path) == std::string::npos);
    REQUIRE(made.warnings.size() == 1);
    CHECK(made.warnings[0].code == "no_effect");
    CHECK(made.warnings[0].field == "trt_disagg_key_file");
    const auto kept = put("***", R"("trtllm")");
    REQUIRE((kept.refusal == std::nullopt || kept.refusal->code == "lbrule_exists"));
    CHECK(book.table()->rules()[0]->trt_key_file == file.path);
    const auto key = book.table()->rules()[0]->key;
    CHECK_FALSE(
        book.patch(key, R"({"serviceArguments":{"trt_disagg_key_file":"***","name":"x"}})", {})
            .refusal.has_value());
    CHECK(book.table()->rules()[0]->trt_key_file == file.path);
    CHECK(book.table()->rules()[0]->auth_file.empty());
    for (const state::AuditRow& row : store.trail) {
        CHECK((row.before + row.after).find(file.path) == std::string::npos);
    }
    ::chmod(file.path.c_str(), 0644);
    RuleBook again(store, hooks);
    REQUIRE(again.load().ok());
    REQUIRE(again.warnings(1).size() == 2);
    CHECK(again.warnings(1)[1].code == "auth_file_unusable");
    CHECK(again.warnings(1)[1].field == "trt_disagg_key_file");
}

TEST_CASE("a secret of a plugin is kept when it is sent back as it is shown") {
    test::MemoryStore store;
    test::RecordingHooks hooks;
    RuleBook book(store, hooks);
    const std::string secret = R"({"api_key":"S3CRET"})";
    const std::string shown = R"({"api_key":"***"})";
    const auto unknown = book.put(body({{"plugin_config", shown}}), {});
    REQUIRE(unknown.refusal.has_value());
    CHECK(unknown.refusal->code == "secret_missing");
    const auto first = book.put(body({{"plugin_config", secret}}), {});
    REQUIRE_FALSE(first.refusal.has_value());
    const auto second = book.put(body({{"plugin_config", shown}, {"name", R"("n")"}}), {});
    REQUIRE_FALSE(second.refusal.has_value());
    CHECK(second.rule->plugin_config == secret);
    CHECK(second.rule->json.find("***") == std::string::npos);
    const auto patched =
        book.patch(second.rule->key,
                   R"({"serviceArguments":{"plugin_config":{"api_key":"***","more":1}}})", {});
    REQUIRE_FALSE(patched.refusal.has_value());
    CHECK(patched.rule->plugin_config == R"({"api_key":"S3CRET","more":1})");
    const auto other = book.patch(
        second.rule->key, R"({"serviceArguments":{"plugin_config":{"password":"***"}}})", {});
    REQUIRE(other.refusal.has_value());
    CHECK(other.refusal->code == "secret_missing");
}

TEST_SUITE_END();
