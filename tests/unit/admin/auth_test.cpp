#include "core/admin/auth.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "core/base/log.hpp"
#include "tests/unit/state/folder.hpp"

TEST_SUITE_BEGIN("admin/auth");

using namespace sluice;
using namespace sluice::admin;

namespace {

constexpr std::uint64_t kSecond = 1'000'000;

Auth auth_of(std::string_view file) {
    auto tokens = Tokens::parse(file);
    REQUIRE(tokens.ok());
    return Auth(std::move(*tokens));
}

int ask(Auth& auth, const std::string& header, bool is_reading = true,
        const std::string& from = "127.0.0.1", std::uint64_t now_us = kSecond) {
    Request request;
    request.authorization = header;
    request.address = from;
    const auto denied = auth.admit(request, is_reading, now_us);
    return denied ? denied->status : 200;
}

struct Quiet {
    Quiet() {
        log::set_sink([](log::Level, const std::string&) {});
    }
    ~Quiet() { log::set_sink({}); }
};

}  // namespace

TEST_CASE("a token file has lines of name, role and token, comments and empty lines") {
    auto tokens = Tokens::parse("# who may what\n\nann admin a-token\r\n  bob\tviewer  b-token");
    REQUIRE(tokens.ok());
    REQUIRE(tokens->find("a-token").has_value());
    CHECK(tokens->find("a-token")->name == "ann");
    CHECK(tokens->find("a-token")->role == Role::Admin);
    CHECK(tokens->find("b-token")->role == Role::Viewer);
    for (const char* near_miss : {"", "a", "a-toke", "a-tokens", "A-token", "ann"}) {
        CAPTURE(std::string(near_miss));
        CHECK_FALSE(tokens->find(near_miss).has_value());
    }
}

TEST_CASE("a line that cannot be meant is refused with its number, without the token") {
    struct Row {
        std::string text, why;
    };
    for (const Row& row :
         {Row{"ann admin", "line 1: expected"}, Row{"\nann admin t-secret x", "line 2: expected"},
          Row{"ann root t-secret", "line 1: the role"},
          Row{"ann Admin t-secret", "line 1: the role"},
          Row{"ann admin t\nann viewer u", "line 2: the name"},
          Row{"ann admin t-secret\nbob viewer t-secret", "line 2: the token is given twice"},
          Row{"ann admin t-secret\xFF", "line 1: name and token are visible"},
          Row{"\xEF\xBB\xBF"
              "ann admin t-secret",
              "line 1: name and token are visible"},
          Row{std::string("ann admin t-secret\0x", 20), "line 1: name and token are visible"},
          Row{std::string(Tokens::kMaxName + 1, 'n') + " admin t", "line 1: the name is longer"},
          Row{"# nothing", "no token"}, Row{"", "no token"}}) {
        CAPTURE(row.text);
        auto tokens = Tokens::parse(row.text);
        REQUIRE_FALSE(tokens.ok());
        CHECK(tokens.error().what.find(row.why) != std::string::npos);
        CHECK(tokens.error().what.find("t-secret") == std::string::npos);
    }
    std::string many;
    for (std::size_t i = 0; i <= Tokens::kMaxTokens; ++i) {
        many += "n" + std::to_string(i) + " viewer t" + std::to_string(i) + "\n";
    }
    CHECK_FALSE(Tokens::parse(many).ok());
}

TEST_CASE("a token file that others may touch is refused") {
    const test::Folder folder;
    const std::string path = folder.file("tokens");
    test::write_file(path, "ann admin a-token\n");
    for (const mode_t mode : {0644U, 0640U, 0604U, 0620U, 0602U, 0610U, 0700U}) {
        CAPTURE(mode);
        REQUIRE(chmod(path.c_str(), mode) == 0);
        auto tokens = Tokens::load(path);
        REQUIRE_FALSE(tokens.ok());
        CHECK(tokens.error().what.find(path) != std::string::npos);
    }
    for (const mode_t mode : {0600U, 0400U}) {
        REQUIRE(chmod(path.c_str(), mode) == 0);
        auto tokens = Tokens::load(path);
        REQUIRE_MESSAGE(tokens.ok(), tokens.error().what);
        CHECK(tokens->find("a-token").has_value());
    }
    CHECK_FALSE(Tokens::load(folder.file("missing")).ok());
    REQUIRE(mkfifo(folder.file("pipe").c_str(), 0600) == 0);
    CHECK_FALSE(Tokens::load(folder.file("pipe")).ok());
}

TEST_CASE("without a token file everyone is admitted") {
    Auth auth{Tokens()};
    CHECK(ask(auth, "", false) == 200);
}

TEST_CASE("roles: an admin may all, a viewer reads, the rest is told to identify") {
    const Quiet quiet;
    Auth auth = auth_of("ann admin a\nbob viewer b");
    struct Row {
        std::string header;
        bool is_reading;
        int want;
    };
    for (const Row& row :
         {Row{"Bearer a", true, 200}, Row{"Bearer a", false, 200}, Row{"bearer  a ", true, 200},
          Row{"Bearer b", true, 200}, Row{"Bearer b", false, 403}, Row{"", true, 401},
          Row{"Bearer", true, 401}, Row{"Bearer ", true, 401}, Row{"Bearer a b", true, 401},
          Row{"Basic a", true, 401}, Row{"a", true, 401}, Row{"Bearer c", true, 401}}) {
        CAPTURE(row.header);
        CHECK(ask(auth, row.header, row.is_reading) == row.want);
    }
}

TEST_CASE("the actor is the token's name") {
    Auth auth = auth_of("ann admin a");
    Request request;
    request.authorization = "Bearer a";
    CHECK_FALSE(auth.admit(request, false, kSecond).has_value());
    CHECK(request.actor == "ann");
}

TEST_CASE("guessing is slowed down for the address that guesses, not for others") {
    const Quiet quiet;
    Auth auth = auth_of("ann admin a");
    for (std::uint32_t i = 0; i < Auth::kGuesses; ++i) {
        CHECK(ask(auth, "Bearer wrong") == 401);
    }
    CHECK(ask(auth, "Bearer wrong") == 429);
    CHECK(ask(auth, "Bearer a") == 429);  // a right guess would be told otherwise
    CHECK(ask(auth, "Bearer a", true, "127.0.0.2") == 200);
    CHECK(ask(auth, "") == 401);  // who does not try is not a guesser

    const std::uint64_t later =
        kSecond + static_cast<std::uint64_t>(Auth::kGuessEvery.count()) * kSecond;
    CHECK(ask(auth, "Bearer wrong", true, "127.0.0.1", later) == 401);
    CHECK(ask(auth, "Bearer wrong", true, "127.0.0.1", later) == 429);
    CHECK(ask(auth, "Bearer a", true, "127.0.0.1", later * 20) == 200);
    CHECK(auth.remembered() == 0);  // forgotten when it has all its tries back
}

TEST_CASE("addresses of one IPv6 network are one guesser") {
    const Quiet quiet;
    Auth auth = auth_of("ann admin a");
    for (std::uint32_t i = 0; i < Auth::kGuesses; ++i) {
        CHECK(ask(auth, "Bearer wrong", true, "fd00::" + std::to_string(i + 1)) == 401);
    }
    CHECK(ask(auth, "Bearer wrong", true, "fd00::ffff") == 429);
    CHECK(ask(auth, "Bearer wrong", true, "fd00:0:0:1::1") == 401);
}

TEST_CASE("the table of guessers is bounded, and the longest silent is forgotten") {
    const Quiet quiet;
    Auth auth = auth_of("ann admin a");
    for (std::uint32_t i = 0; i < Auth::kGuesses; ++i) {
        ask(auth, "Bearer wrong", true, "10.0.0.1", kSecond);
    }
    for (std::size_t i = 0; i < Auth::kMaxAddresses * 2; ++i) {
        ask(auth, "Bearer wrong", true,
            "10.1." + std::to_string(i / 250) + "." + std::to_string(i % 250), 2 * kSecond);
    }
    CHECK(auth.remembered() == Auth::kMaxAddresses);
    CHECK(ask(auth, "Bearer wrong", true, "10.0.0.1", 2 * kSecond) == 401);
}

TEST_SUITE_END();
