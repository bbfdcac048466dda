#include "core/rules/key.hpp"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("rules/key");

using namespace sluice::rules;

TEST_CASE("addresses have one spelling") {
    CHECK(canonical_ip("10.0.0.1") == "10.0.0.1");
    CHECK(canonical_ip("FD00:0:0:0::0007") == "fd00::7");
    CHECK(canonical_ip("::ffff:1.2.3.4") == "::ffff:1.2.3.4");
    for (const char* bad : {"", "10.0.0", "10.0.0.256", "010.0.0.1", "1.2.3.4 ", "[::1]",
                            "fe80::1%lo", "localhost", "::1::"}) {
        CAPTURE(std::string(bad));
        CHECK_FALSE(canonical_ip(bad).has_value());
    }
}

TEST_CASE("addresses are ordered by value, IPv4 first") {
    CHECK(ip_less("9.0.0.1", "10.0.0.1"));
    CHECK_FALSE(ip_less("10.0.0.1", "9.0.0.1"));
    CHECK(ip_less("255.0.0.1", "::1"));
    CHECK_FALSE(ip_less("10.0.0.1", "10.0.0.1"));
}

TEST_CASE("a host is compared without case, port and final dot") {
    struct Row {
        std::string in, out;
    };
    for (const Row& row :
         {Row{"Example.COM:8080", "example.com"}, Row{"example.com.", "example.com"},
          Row{"192.0.2.10:2040", "192.0.2.10"}, Row{"[FD00::7]:80", "[fd00::7]"},
          Row{"fd00:0::7", "[fd00::7]"}, Row{"", ""}}) {
        CAPTURE(row.in);
        RuleKey key;
        key.ip = "10.0.0.1";
        key.host = row.in;
        REQUIRE_FALSE(normalise(key).has_value());
        CHECK(key.host == row.out);
    }
}

TEST_CASE("a key that can match nothing, or means two things, is refused") {
    struct Row {
        std::string ip, host, path, mode, code;
    };
    for (const Row& row :
         {Row{"x", "", "", "", "malformed_service"},
          Row{"224.0.0.1", "", "", "", "malformed_service"},
          Row{"ff02::1", "", "", "", "malformed_service"},
          Row{"::1", "*.example.com", "", "", "malformed_host"},
          Row{"::1", "a b", "", "", "malformed_host"}, Row{"::1", ":80", "", "", "malformed_host"},
          Row{"::1", "a:b:c", "", "", "malformed_host"},
          Row{"::1", "any", "", "", "malformed_host"},
          Row{"::1", "", "/v1", "", "path_match_mode_required"},
          Row{"::1", "", "/v1", "disabled", "path_match_mode_required"},
          Row{"::1", "", "", "exact", "path_prefix_required"},
          Row{"::1", "", "v1", "prefix", "malformed_path"},
          Row{"::1", "", "/v1?x", "prefix", "malformed_path"},
          Row{"::1", "", "/v 1", "exact", "malformed_path"}}) {
        CAPTURE(row.host);
        CAPTURE(row.path);
        RuleKey key;
        key.ip = row.ip;
        key.host = row.host;
        key.path_prefix = row.path;
        key.path_mode = row.mode;
        const auto refusal = normalise(key);
        REQUIRE(refusal.has_value());
        CHECK(refusal->code == row.code);
        CHECK(refusal->status == 400);
    }
}

TEST_CASE("a prefix loses its final slash, an exact path keeps it") {
    for (const auto& [mode, path] : {std::pair{"prefix", "/v1"}, std::pair{"exact", "/v1/"}}) {
        RuleKey key;
        key.ip = "::1";
        key.path_prefix = "/v1/";
        key.path_mode = mode;
        REQUIRE_FALSE(normalise(key).has_value());
        CHECK(key.path_prefix == path);
    }
}

TEST_CASE("an IPv6 address is in its /64") {
    CHECK(ipv6_network("fd00:1:2:3:4:5:6:7") == "fd00:1:2:3::");
    CHECK_FALSE(ipv6_network("10.0.0.1").has_value());
}

TEST_SUITE_END();
