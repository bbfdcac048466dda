#include "core/net/address.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace sluice;
using net::Address;

TEST_SUITE("net/address") {
    TEST_CASE("what is written as an address is read back the same") {
        for (const char* text : {"127.0.0.1:8000", "0.0.0.0:0", "255.255.255.255:65535", "[::1]:80",
                                 "[::]:1", "[2001:db8::5]:443"}) {
            CAPTURE(text);
            const auto address = Address::parse(text);
            REQUIRE(address.ok());
            CHECK(address->format() == text);
            sockaddr_storage name{};
            CHECK(address->to_sockaddr(name) > 0);
            CHECK(Address::from_sockaddr(name) == *address);
            CHECK(Address::from_sockaddr(name).hash() == address->hash());
        }
        CHECK(Address::parse("[2001:DB8:0:0::5]:443")->format() == "[2001:db8::5]:443");
        CHECK(Address::parse_ip("::1", 5)->format() == "[::1]:5");
        CHECK(Address::parse("[::1]:5")->ip() == "::1");
    }

    TEST_CASE("what is no address is refused with the text it came from") {
        for (const char* text :
             {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:80x",
              "host:80", "::1:80", "[::1]", "[::1]80", "[127.0.0.1]:80", "[::1%eth0]:80",
              "1.2.3:80", "1.2.3.4.5:80", " 127.0.0.1:80", "127.0.0.1:+80"}) {
            CAPTURE(text);
            const auto address = Address::parse(text);
            REQUIRE_FALSE(address.ok());
            CHECK(address.error().code == Code::Invalid);
        }
    }

    TEST_CASE("an IPv4-mapped IPv6 peer is the IPv4 address it stands for") {
        sockaddr_storage name{};
        const auto mapped = Address::parse("[::ffff:10.1.2.3]:9").value();
        mapped.to_sockaddr(name);
        CHECK(Address::from_sockaddr(name).format() == "10.1.2.3:9");
    }

    TEST_CASE("addresses differ by ip, port and family") {
        const auto a = Address::parse("127.0.0.1:80").value();
        CHECK(a != a.with_port(81));
        CHECK(a != Address::parse("127.0.0.2:80").value());
        CHECK(Address::parse("0.0.0.0:80").value() != Address::parse("[::]:80").value());
    }
}
