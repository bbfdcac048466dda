#include "core/rules/probe_spec.hpp"

#include <doctest/doctest.h>

#include "core/rules/parse.hpp"
#include "tests/unit/rules/bodies.hpp"

TEST_SUITE_BEGIN("rules/probe_spec");

using namespace sluice;
using namespace sluice::rules;
using test::body;
using Kind = ProbeSpec::Kind;

namespace {

Parsed accepted(const std::string& text) {
    Parsed parsed = parse_rule(text, {}, {{"vllm"}, {"rr", "lc", "wrr"}});
    REQUIRE_MESSAGE(!parsed.refusal.has_value(), parsed.refusal->message);
    return parsed;
}

ProbeSpec first_probe(const test::Members& service, const test::Members& endpoint = {}) {
    const Parsed parsed = accepted(body(service, endpoint));
    return probe_of(parsed.rule, parsed.rule.endpoints.front());
}

}  // namespace

TEST_CASE("a status is expected by itself or in a range") {
    CHECK(is_expected("200", 200));
    CHECK_FALSE(is_expected("200", 204));
    CHECK(is_expected("200,202", 202));
    CHECK(is_expected("301,200-204", 203));
    CHECK_FALSE(is_expected("200-204,301", 205));
    CHECK_FALSE(is_expected("", 200));
    for (const char* list : {"200", "100-599", "200,204,301-302"}) {
        CAPTURE(list);
        CHECK(is_status_list(list));
    }
    for (const char* list :
         {"", ",", "200,", "2xx", "204-200", "200-", "-200", "600", "099", "20"}) {
        CAPTURE(list);
        CHECK_FALSE(is_status_list(list));
    }
}

TEST_CASE("every type has a word of its own") {
    for (const Kind kind : {Kind::None, Kind::Tcp, Kind::Udp, Kind::Sctp, Kind::Ping, Kind::Http,
                            Kind::Https, Kind::TlsHello}) {
        CHECK(probe_kind(probe_type(kind)) == kind);
    }
    CHECK(probe_kind("smtp") == Kind::None);
}

TEST_CASE("a domain can end no header line") {
    CHECK(is_domain("a.example"));
    CHECK(is_domain("a.example:8080"));
    CHECK(is_domain("[fd00::7]:80"));
    for (const char* text : {"", "a b", "a\r\nX: y", "a/b", "a@b"}) {
        CAPTURE(text);
        CHECK_FALSE(is_domain(text));
    }
    CHECK_FALSE(is_domain(std::string(260, 'a')));
}

TEST_CASE("a probe has the address and port of its endpoint unless said otherwise") {
    const ProbeSpec connect = first_probe({{"monitor", "true"}});
    CHECK(connect.kind == Kind::Tcp);
    CHECK(connect.address == "127.0.0.2");
    CHECK(connect.port == 8000);
    const ProbeSpec ping =
        first_probe({{"probetype", R"("ping")"}}, {{"monitorAddress", R"("FD00::9")"}});
    CHECK(ping.kind == Kind::Ping);
    CHECK(ping.address == "fd00::9");
    CHECK(ping.port == 0);
    CHECK(first_probe({{"probetype", R"("udp")"}, {"probeport", "53"}}).port == 53);
}

TEST_CASE("an endpoint is probed as it says, else as the rule says") {
    const test::Members http = {{"probetype", R"("https")"},
                                {"probeport", "8443"},
                                {"probereq", R"("health")"},
                                {"proberesp", R"("ok")"}};
    const ProbeSpec plain = first_probe(http);
    CHECK(plain.kind == Kind::Https);
    CHECK(plain.method == "GET");
    CHECK(plain.path == "/health");
    CHECK(plain.codes == "200");
    CHECK(plain.version == "1.1");
    CHECK(plain.domain.empty());
    CHECK(plain.reply == "ok");
    const ProbeSpec own = first_probe(http, {{"httpMethod", R"("POST")"},
                                             {"urlPath", R"("/v1/ready?deep=1")"},
                                             {"expectedCodes", R"("200-204,301")"},
                                             {"httpVersion", R"("1.0")"},
                                             {"domainName", R"("a.example")"}});
    CHECK(own.method == "POST");
    CHECK(own.path == "/v1/ready?deep=1");
    CHECK(own.codes == "200-204,301");
    CHECK(own.version == "1.0");
    CHECK(own.domain == "a.example");
    CHECK(own != plain);
}

TEST_CASE("what a tcp, udp or sctp probe sends is text, not a path") {
    for (const auto& [type, kind] : {std::pair{"tcp", Kind::Tcp}, std::pair{"udp", Kind::Udp},
                                     std::pair{"sctp", Kind::Sctp}}) {
        const ProbeSpec probe = first_probe({{"probetype", "\"" + std::string(type) + "\""},
                                             {"probeport", "9"},
                                             {"probereq", R"("are you there?\r\n")"},
                                             {"proberesp", R"("yes")"}});
        CHECK(probe.kind == kind);
        CHECK(probe.request == "are you there?\r\n");
        CHECK(probe.reply == "yes");
        CHECK(probe.path == "/");
    }
}

TEST_CASE("how an endpoint is probed is said to be without effect where nothing is probed") {
    const test::Members own = {{"monitorAddress", R"("10.0.0.9")"}, {"httpMethod", R"("HEAD")"}};
    const Parsed off = accepted(body({}, own));
    REQUIRE(off.warnings.size() == 1);
    CHECK(off.warnings.front().code == "no_effect");
    CHECK(accepted(body({{"probetype", R"("http")"}, {"probeport", "1"}}, own)).warnings.empty());
    // What every probe does anyway is no wish.
    CHECK(accepted(body({{"monitor", "true"}}, {{"httpMethod", R"("GET")"},
                                                {"urlPath", R"("/")"},
                                                {"expectedCodes", R"("200")"},
                                                {"httpVersion", R"("1.1")"}}))
              .warnings.empty());
}

TEST_SUITE_END();
