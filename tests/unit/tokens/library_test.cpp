#include "core/tokens/library.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

using namespace sluice::tokens;
namespace fs = std::filesystem;

namespace {

constexpr const char* kMini = "tests/vectors/tokenizers/mini";
constexpr std::uint64_t kSecond = 1'000'000;

// A directory of model directories, removed at the end.
class Root {
public:
    Root() {
        std::string name = (fs::temp_directory_path() / "sluice-library-XXXXXX").string();
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    ~Root() {
        std::error_code ec;
        fs::remove_all(path_, ec);
    }
    Root(const Root&) = delete;
    Root& operator=(const Root&) = delete;

    void add(const std::string& name) {
        fs::create_directory(path_ / name);
        for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
            fs::copy_file(fs::path(kMini) / file, path_ / name / file);
        }
    }
    void write(const std::string& file, const std::string& text) {
        std::ofstream(path_ / file) << text;
    }
    const fs::path& path() const { return path_; }

private:
    fs::path path_;
};

constexpr const char* kBody =
    R"({"messages":[{"role":"user","content":"hi"}],"add_generation_prompt":false})";
constexpr const char* kToolBody = R"({"messages":[{"role":"user","content":"hi"}],)"
                                  R"("tools":[{"type":"function","function":{"name":"f"}}]})";

}  // namespace

TEST_SUITE("tokens/library") {
    TEST_CASE("a model is found by its name, with two underscores for a slash") {
        Root root;
        root.add("org__mini");
        Library library(root.path());
        CHECK(library.reason("org/mini") == "not loaded");
        const auto model = library.find("org/mini");
        REQUIRE(model != nullptr);
        CHECK(library.find("org__mini") == model);
        CHECK(library.peek("org/mini").model == model);
        CHECK(library.reason("org/mini").empty());
        CHECK(library.use().models == 1);
    }

    TEST_CASE("names that could lead elsewhere are misses and touch nothing") {
        Root root;
        Library library(root.path() / "inside");
        root.add("outside");
        fs::create_directory(root.path() / "inside");
        for (const std::string& name :
             {std::string(), std::string("."), std::string(".."), std::string("../outside"),
              std::string(".hidden"), std::string("a\0b", 3), std::string(256, 'x'),
              std::string(200, '/')}) {
            CAPTURE(name);
            CHECK(Library::directory_of(name).empty());
            CHECK(library.find(name) == nullptr);
            CHECK_FALSE(library.peek(name).is_load_due);
            CHECK(library.reason(name) == "not a usable model name");
        }
        CHECK(library.find("x/../../outside") == nullptr);
        CHECK(Library::directory_of("x/../y") == "x__..__y");
        CHECK(Library::directory_of(std::string(255, 'x')).size() == 255);
    }

    TEST_CASE("a miss is kept and tried again after a growing while") {
        Root root;
        Library::Options options;
        options.retry_first = std::chrono::seconds(2);
        options.retry_last = std::chrono::seconds(5);
        Library library(root.path(), options);
        CHECK(library.peek("m", 0).is_load_due);
        CHECK(library.find("m", 10 * kSecond) == nullptr);
        CHECK(library.reason("m") == "no tokenizer.json");
        root.add("m");
        CHECK(library.find("m", 11 * kSecond) == nullptr);
        CHECK_FALSE(library.peek("m", 11 * kSecond).is_load_due);
        CHECK(library.peek("m", 12 * kSecond).is_load_due);
        CHECK(library.find("m", 12 * kSecond) != nullptr);

        CHECK(library.find("n", 0) == nullptr);
        for (const std::uint64_t wait : {2U, 4U, 5U, 5U}) {
            static std::uint64_t now = 0;
            CHECK_FALSE(library.peek("n", now + wait * kSecond - 1).is_load_due);
            CHECK(library.peek("n", now + wait * kSecond).is_load_due);
            now += wait * kSecond;
            CHECK(library.find("n", now) == nullptr);
        }
    }

    TEST_CASE("models and misses are bounded, the least recently used go first") {
        Root root;
        for (const char* name : {"a", "b", "c"}) {
            root.add(name);
        }
        Library::Options options;
        options.max_models = 2;
        options.max_misses = 3;
        Library library(root.path(), options);
        const auto a = library.find("a", 1);
        REQUIRE(a != nullptr);
        REQUIRE(library.find("b", 2) != nullptr);
        CHECK(library.find("a", 3) == a);
        REQUIRE(library.find("c", 4) != nullptr);
        CHECK(library.use().models == 2);
        CHECK(library.peek("a", 5).model == a);
        CHECK(library.peek("b", 5).model == nullptr);
        for (int i = 0; i < 100; ++i) {
            CHECK(library.find("none" + std::to_string(i), 10) == nullptr);
            CHECK(library.use().misses <= 4);
        }
        CHECK(library.use().models == 2);
    }

    TEST_CASE("clear lets changed files be read") {
        Root root;
        root.add("m");
        Library library(root.path());
        const auto before = library.find("m");
        REQUIRE(before != nullptr);
        library.clear();
        CHECK(library.use().models == 0);
        const auto after = library.find("m");
        REQUIRE(after != nullptr);
        CHECK(after != before);
    }

    TEST_CASE("a directory that cannot be read says which file is wrong") {
        Root root;
        root.add("m");
        root.write("m/tokenizer_config.json", R"({"chat_template":7})");
        Library library(root.path());
        CHECK(library.find("m") == nullptr);
        CHECK(library.reason("m").find("tokenizer_config.json") != std::string::npos);
    }
}

TEST_SUITE("tokens/model") {
    TEST_CASE("the template of the configuration is used, a file beside it wins") {
        Root root;
        root.add("m");
        const auto plain = Model::load(root.path() / "m");
        REQUIRE(plain);
        CHECK((*plain)->has_chat_template());
        CHECK((*plain)->chat_refusal().empty());
        CHECK((*plain)->render(kBody)->find("hi") != std::string::npos);
        root.write("m/chat_template.jinja", "FILE {{ messages[0].content }}\n");
        const auto beside = Model::load(root.path() / "m");
        REQUIRE(beside);
        CHECK(*(*beside)->render(kBody) == "FILE hi");
    }

    TEST_CASE("of named templates the one for tools is taken when there are tools") {
        Root root;
        root.add("m");
        root.write("m/tokenizer_config.json",
                   R"({"chat_template":[{"name":"default","template":"D"},)"
                   R"({"name":"tool_use","template":"T"}]})");
        const auto model = Model::load(root.path() / "m");
        REQUIRE(model);
        CHECK(*(*model)->render(kBody) == "D");
        CHECK(*(*model)->render(kToolBody) == "T");
    }

    TEST_CASE("without a usable template text still encodes and chat is refused with the reason") {
        Root root;
        root.add("m");
        root.write("m/tokenizer_config.json", "{}");
        const auto none = Model::load(root.path() / "m");
        REQUIRE(none);
        CHECK_FALSE((*none)->has_chat_template());
        CHECK((*none)->render(kBody).error().code == sluice::Code::Unsupported);
        root.write("m/chat_template.jinja", "{% if %}");
        const auto broken = Model::load(root.path() / "m");
        REQUIRE(broken);
        CHECK((*broken)->chat_refusal().find("line 1") != std::string::npos);
        std::vector<TokenId> ids;
        CHECK((*broken)->tokenizer().encode("hi", false, ids));
        CHECK_FALSE(ids.empty());
    }

    TEST_CASE("an engine that builds the prompt by code is not rendered for") {
        Root root;
        root.add("m");
        root.write("m/config.json", R"({"model_type":"gpt_oss"})");
        const auto model = Model::load(root.path() / "m");
        REQUIRE(model);
        CHECK((*model)->chat_refusal().find("Harmony") != std::string::npos);
        CHECK((*model)->render(kBody).error().code == sluice::Code::Unsupported);
        CHECK((*model)->render_template(kBody));
    }
}
