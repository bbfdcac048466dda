#include "core/fleet/backend_key.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace sluice;
using fleet::BackendKey;

namespace {

struct Folder {
    Folder() {
        std::string name = std::filesystem::temp_directory_path() / "sluice-key-XXXXXX";
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Folder() { std::filesystem::remove_all(path); }
    // As a careful tool rotates a key: another file takes the name.
    std::string put(const std::string& text) const {
        std::ofstream(path / "next", std::ios::binary) << text;
        REQUIRE(::chmod((path / "next").c_str(), 0600) == 0);
        std::filesystem::rename(path / "next", path / "key");
        return path / "key";
    }
    std::filesystem::path path;
};

}  // namespace

TEST_SUITE("fleet/backend_key") {
    TEST_CASE("one line is the key, without its line end") {
        const Folder folder;
        for (const char* text : {"sk-abc.DEF_123", "sk-abc.DEF_123\n"}) {
            BackendKey key(folder.put(text));
            const auto read = key.refresh();
            REQUIRE(read.ok());
            CHECK(*read);
            CHECK(*key.authorization() == "Bearer sk-abc.DEF_123");
        }
    }

    TEST_CASE("a key is read again only when its file is another one") {
        const Folder folder;
        BackendKey key(folder.put("one\n"));
        CHECK(key.refresh().value());
        CHECK_FALSE(key.refresh().value());
        folder.put("one\n");  // the same key in a new file
        CHECK_FALSE(key.refresh().value());
        folder.put("two\n");
        CHECK(key.refresh().value());
        CHECK(*key.authorization() == "Bearer two");
    }

    TEST_CASE("what cannot be used leaves the last good key, and never shows its text") {
        const Folder folder;
        BackendKey key(folder.put("good\n"));
        REQUIRE(key.refresh().ok());
        for (const std::string& text :
             {std::string(), std::string("\n"), std::string("two lines\n"), std::string("a\nb\n"),
              std::string("a\r\n"), std::string("tab\t"), std::string("nul\0x", 5),
              std::string("caf\xC3\xA9"), std::string(BackendKey::kMaxKeyBytes + 1, 'x'),
              std::string(100'000, 'x')}) {
            folder.put(text);
            const auto read = key.refresh();
            REQUIRE_FALSE(read.ok());
            CHECK(read.error().code == Code::Invalid);
            CHECK((text.size() < 3 || read.error().what.find(text) == std::string::npos));
            CHECK(*key.authorization() == "Bearer good");
        }
        folder.put(std::string(BackendKey::kMaxKeyBytes, 'x') + "\n");
        CHECK(key.refresh().value());
    }

    TEST_CASE("a file that others may read is no place for a key") {
        const Folder folder;
        const std::string path = folder.put("sk-abc\n");
        for (const mode_t mode : {0640U, 0604U, 0620U, 0700U}) {
            REQUIRE(::chmod(path.c_str(), mode) == 0);
            BackendKey key(path);
            CHECK(key.refresh().error().code == Code::Invalid);
            CHECK(key.authorization()->empty());
        }
        REQUIRE(::chmod(path.c_str(), 0400) == 0);
        BackendKey key(path);
        CHECK(key.refresh().value());
    }

    TEST_CASE("no file, a folder and a pipe are no keys, and nobody waits for them") {
        const Folder folder;
        BackendKey none(folder.path / "none");
        CHECK(none.refresh().error().code == Code::NotFound);
        CHECK(none.authorization()->empty());
        BackendKey place(folder.path);
        CHECK_FALSE(place.refresh().ok());
        const std::string pipe = folder.path / "pipe";
        REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
        BackendKey waiting(pipe);
        CHECK(waiting.refresh().error().code == Code::Invalid);
    }

    TEST_CASE("a file that comes back is read again") {
        const Folder folder;
        BackendKey key(folder.put("one\n"));
        REQUIRE(key.refresh().ok());
        std::filesystem::remove(folder.path / "key");
        CHECK(key.refresh().error().code == Code::NotFound);
        CHECK(*key.authorization() == "Bearer one");
        folder.put("two\n");
        CHECK(key.refresh().value());
        CHECK(*key.authorization() == "Bearer two");
    }
}
