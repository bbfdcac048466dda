#include "core/net/prefix.hpp"

#include <doctest/doctest.h>

using namespace sluice;
using net::Address;
using net::Prefix;

TEST_SUITE("net/prefix") {
    TEST_CASE("an address lies in a network or beside it, bit for bit") {
        struct Row {
            const char* network;
            const char* inside;
            const char* outside;
        };
        for (const Row& row :
             {Row{"10.0.0.0/8", "10.255.255.255", "11.0.0.0"},
              Row{"10.1.2.3/8", "10.0.0.1", "9.255.255.255"},  // bits beyond do not matter
              Row{"192.168.4.0/22", "192.168.7.255", "192.168.8.0"},
              Row{"127.0.0.1/32", "127.0.0.1", "127.0.0.2"},
              Row{"0.0.0.0/0", "255.255.255.255", "::1"}, Row{"fd00::/8", "fdff::1", "fc00::1"},
              Row{"2001:db8::8000/113", "2001:db8::ffff", "2001:db8::7fff"},
              Row{"::/0", "2001:db8::1", "10.0.0.1"}, Row{"::1/128", "::1", "::2"}}) {
            CAPTURE(row.network);
            const auto prefix = Prefix::parse(row.network);
            REQUIRE(prefix.ok());
            CHECK(prefix->contains(Address::parse_ip(row.inside, 1).value()));
            CHECK_FALSE(prefix->contains(Address::parse_ip(row.outside, 1).value()));
        }
    }

    TEST_CASE("an IPv4-mapped address is the IPv4 address, on both sides") {
        const auto v4 = Prefix::parse("10.0.0.0/8").value();
        CHECK(v4.contains(Address::parse_ip("::ffff:10.1.2.3", 1).value()));
        CHECK_FALSE(v4.contains(Address::parse_ip("::ffff:11.1.2.3", 1).value()));
        const auto mapped = Prefix::parse("::ffff:10.0.0.0/104").value();
        CHECK_FALSE(mapped.is_v6());
        CHECK(mapped.bits() == 8);
        CHECK(mapped.contains(Address::parse_ip("10.1.2.3", 1).value()));
        CHECK_FALSE(mapped.contains(Address::parse_ip("11.1.2.3", 1).value()));
    }

    TEST_CASE("what is no network is refused") {
        for (const char* text : {"", "/", "/8", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "::/129",
                                 "10.0.0.0/-1", "10.0.0.0/8x", "host/8", "10.0.0.0/8/8",
                                 "10.0.0.0/+8", "[::1]/128", "fe80::1%eth0/64"}) {
            CAPTURE(text);
            CHECK_FALSE(Prefix::parse(text).ok());
        }
    }
}
