#include "core/fleet/icmp_echo.hpp"

#include <doctest/doctest.h>

using namespace sluice;

TEST_SUITE("fleet/icmp_echo") {
    TEST_CASE("a request is as RFC 792 says, its checksum as RFC 1071") {
        // 08 00 sum sum 12 34 00 01 61 62 63: the words add up to 0x1234 + 0x0801 + 0x6162 + 0x6300
        // = 0xDE97 with type and code, the checksum is its complement.
        const std::string bytes = fleet::echo_request(false, 0x1234, "abc");
        CHECK(bytes == std::string("\x08\x00\x21\x68\x12\x34\x00\x01"
                                   "abc",
                                   11));
        const std::string v6 = fleet::echo_request(true, 0x1234, "abc");
        CHECK(v6 == std::string("\x80\x00\x00\x00\x12\x34\x00\x01"
                                "abc",
                                11));
    }

    TEST_CASE("only the reply with the same payload is the reply") {
        const std::string reply(
            "\0\0\0\0\x12\x34\0\x01"
            "abc",
            11);
        CHECK(fleet::is_echo_reply(reply, false, false, "abc"));
        CHECK_FALSE(fleet::is_echo_reply(reply, false, false, "abd"));
        CHECK_FALSE(fleet::is_echo_reply(reply, true, false, "abc"));
        CHECK_FALSE(
            fleet::is_echo_reply(fleet::echo_request(false, 1, "abc"), false, false, "abc"));
        std::string header(24, '\0');  // with an option of four bytes
        header[0] = '\x46';
        CHECK(fleet::is_echo_reply(header + reply, false, true, "abc"));
        CHECK_FALSE(fleet::is_echo_reply(header, false, true, ""));
        CHECK_FALSE(fleet::is_echo_reply(header.substr(0, 10), false, true, "abc"));
        CHECK_FALSE(fleet::is_echo_reply("", false, true, "abc"));
        CHECK_FALSE(fleet::is_echo_reply("", false, false, ""));
        std::string v6 = reply;
        v6[0] = '\x81';
        CHECK(fleet::is_echo_reply(v6, true, true, "abc"));
    }
}
