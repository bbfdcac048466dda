#include "core/rules/health_objects.hpp"

#include <doctest/doctest.h>

#include "core/rules/json_value.hpp"

using namespace sluice;
using rules::HealthObject;
using rules::HealthObjects;
using Kind = rules::ProbeSpec::Kind;

namespace {

// The code of the refusal, and the field it names; empty when the text is taken.
std::string refused(std::string_view json) {
    HealthObject object;
    const auto refusal = rules::parse_health_object(json, object);
    return refusal ? refusal->code + " " + refusal->field : "";
}

HealthObject object_of(std::string_view json) {
    HealthObject object;
    const auto refusal = rules::parse_health_object(json, object);
    REQUIRE_MESSAGE(!refusal, refusal->message);
    return object;
}

}  // namespace

TEST_SUITE("rules/health_objects") {
    TEST_CASE("what is not given has the defaults of a rule's probe") {
        const HealthObject tcp =
            object_of(R"({"hostName":"10.0.0.7","probeType":"tcp","probePort":8000})");
        CHECK(tcp.host == "10.0.0.7");
        CHECK(tcp.name == "10.0.0.7_tcp_8000");
        CHECK(tcp.probe.kind == Kind::Tcp);
        CHECK(tcp.probe.port == 8000);
        CHECK(tcp.probe.interval_sec == 60);
        CHECK(tcp.probe.retries == 2);
        const HealthObject none = object_of(R"({"hostName":"FD00::7"})");
        CHECK(none.host == "fd00::7");
        CHECK(none.name == "fd00::7_none_0");
        CHECK(none.probe.kind == Kind::None);
    }

    TEST_CASE("the path is urlPath or probeReq") {
        const std::string head = R"({"hostName":"10.0.0.7","probeType":"http","probePort":80,)";
        CHECK(object_of(head + R"("urlPath":"/a"})").probe.path == "/a");
        CHECK(object_of(head + R"("probeReq":"health"})").probe.path == "/health");
        CHECK(object_of(head + R"("probeReq":"/a","urlPath":"/a"})").probe.path == "/a");
        CHECK(object_of(head + R"("httpMethod":"GET","expectedCodes":"200","httpVersion":"1.1"})")
                  .probe.path == "/");
    }

    TEST_CASE("what is wrong is refused by name") {
        struct Row {
            const char* json;
            const char* want;
        };
        for (const Row& row : {
                 Row{"[]", "malformed_json "},
                 Row{"{", "malformed_json "},
                 Row{"{}", "required hostName"},
                 Row{R"({"hostName":"a.example"})", "malformed_host hostName"},
                 Row{R"({"hostName":7})", "wrong_type hostName"},
                 Row{R"({"hostName":"10.0.0.7","probePort":"80"})", "wrong_type probePort"},
                 Row{R"({"hostName":"10.0.0.7","colour":1})", "unknown_field colour"},
                 Row{R"({"hostName":"10.0.0.7","inactiveReTries":101})",
                     "out_of_range inactiveReTries"},
                 Row{R"({"hostName":"10.0.0.7","probeDuration":86401})",
                     "out_of_range probeDuration"},
                 Row{R"({"hostName":"10.0.0.7","probeDuration":-1})", "out_of_range probeDuration"},
                 Row{R"({"hostName":"10.0.0.7","probeType":"smtp"})", "unknown_value probeType"},
                 Row{R"({"hostName":"10.0.0.7","probeType":"tcp"})",
                     "malformed_health_object probePort"},
                 Row{R"({"hostName":"10.0.0.7","probePort":80})",
                     "malformed_health_object probePort"},
                 Row{R"({"hostName":"10.0.0.7","probeType":"tcp","probePort":65536})",
                     "out_of_range probePort"},
                 Row{R"({"hostName":"10.0.0.7","probeType":"http","probePort":80,"urlPath":"/ a"})",
                     "malformed_health_object urlPath"},
                 Row{R"({"hostName":"10.0.0.7","probeType":"http","probePort":80,"urlPath":"/a",)"
                     R"("probeReq":"/b"})",
                     "malformed_health_object urlPath"},
                 Row{R"({"hostName":"10.0.0.7","probeType":"tcp","probePort":80,"urlPath":"/a"})",
                     "malformed_health_object urlPath"},
             }) {
            CAPTURE(row.json);
            CHECK(refused(row.json) == row.want);
        }
    }

    TEST_CASE("every type is taken, with what belongs to it") {
        const std::string head = R"({"hostName":"10.0.0.7","probeType":")";
        for (const auto& [type, kind] :
             {std::pair{"udp", Kind::Udp}, std::pair{"sctp", Kind::Sctp},
              std::pair{"https", Kind::Https}, std::pair{"tls-hello", Kind::TlsHello}}) {
            CAPTURE(type);
            const HealthObject object = object_of(head + type + R"(","probePort":80})");
            CHECK(object.probe.kind == kind);
            CHECK(object.probe.address == "10.0.0.7");
            CHECK(refused(head + type + R"("})") == "malformed_health_object probePort");
        }
        CHECK(object_of(head + R"(ping"})").probe.kind == Kind::Ping);
        CHECK(refused(head + R"(ping","probePort":80})") == "malformed_health_object probePort");
        const HealthObject http = object_of(
            head + R"(https","probePort":80,"httpMethod":"POST","expectedCodes":"200-204,301",)"
                   R"("httpVersion":"1.0","domainName":"a.example","probeResp":"ok"})");
        CHECK(http.probe.method == "POST");
        CHECK(http.probe.codes == "200-204,301");
        CHECK(http.probe.version == "1.0");
        CHECK(http.probe.domain == "a.example");
        CHECK(http.probe.reply == "ok");
        const HealthObject udp =
            object_of(head + R"(udp","probePort":80,"probeReq":"a b","probeResp":"c"})");
        CHECK(udp.probe.request == "a b");
        CHECK(udp.probe.reply == "c");
        CHECK(object_of(head + R"(tls-hello","probePort":80,"domainName":"a"})").probe.domain ==
              "a");
        // What was accepted is accepted again, and is the same.
        for (const HealthObject& object : {http, udp}) {
            CHECK(object_of(object.json).probe == object.probe);
        }
    }

    TEST_CASE("what does not belong to the type is refused") {
        struct Row {
            const char* more;
            const char* want;
        };
        for (const Row& row : {
                 Row{R"(ping","probeReq":"a)", "malformed_health_object probeReq"},
                 Row{R"(ping","probeResp":"a)", "malformed_health_object probeResp"},
                 Row{R"(tls-hello","probePort":1,"probeResp":"a)",
                     "malformed_health_object probeResp"},
                 Row{R"(tcp","probePort":1,"httpMethod":"GET)",
                     "malformed_health_object httpMethod"},
                 Row{R"(udp","probePort":1,"domainName":"a)", "malformed_health_object domainName"},
                 Row{R"(http","probePort":1,"httpMethod":"BREW)", "unknown_value httpMethod"},
                 Row{R"(http","probePort":1,"httpVersion":"2.0)", "unknown_value httpVersion"},
                 Row{R"(http","probePort":1,"expectedCodes":"2xx)",
                     "malformed_health_object expectedCodes"},
                 Row{R"(http","probePort":1,"domainName":"a\r\nX:b)",
                     "malformed_health_object domainName"},
                 Row{R"(http","probePort":1,"httpMethod":"HEAD","probeResp":"a)",
                     "malformed_health_object probeResp"},
             }) {
            CAPTURE(row.more);
            CHECK(refused(R"({"hostName":"10.0.0.7","probeType":")" + std::string(row.more) +
                          "\"}") == row.want);
        }
    }

    TEST_CASE("objects come back from their text, one for each host and name") {
        HealthObjects objects;
        const std::string tcp = R"({"hostName":"10.0.0.7","probeType":"tcp","probePort":80,)";
        CHECK_FALSE(objects.put(object_of(tcp + R"("name":"a"})")));
        CHECK_FALSE(objects.put(object_of(tcp + R"("name":"a","probeDuration":5})")));
        CHECK_FALSE(objects.put(object_of(tcp + R"("name":"b"})")));
        const auto again = HealthObjects::parse(objects.dump());
        REQUIRE(again);
        REQUIRE(again->all().size() == 2);
        CHECK(again->find({"10.0.0.7", "a"})->probe.interval_sec == 5);
        CHECK(again->dump() == objects.dump());
        objects.remove({"10.0.0.7", "a"});
        CHECK(objects.all().size() == 1);
        CHECK(HealthObjects::parse("")->all().empty());
        CHECK_FALSE(HealthObjects::parse("{}"));
        CHECK_FALSE(HealthObjects::parse(R"([{"hostName":"x"}])"));
    }

    TEST_CASE("there is a bound, and replacing goes on at it") {
        HealthObjects objects;
        HealthObject one = object_of(R"({"hostName":"10.0.0.7","name":"a"})");
        for (std::size_t i = 0; i < HealthObjects::kMaxObjects; ++i) {
            one.name = std::to_string(i);
            one.json = "{}";
            REQUIRE_FALSE(objects.put(one));
        }
        CHECK_FALSE(objects.put(one));
        one.name = "one more";
        const auto refusal = objects.put(one);
        REQUIRE(refusal);
        CHECK(refusal->code == "health_object_hwm");
        CHECK(objects.all().size() == HealthObjects::kMaxObjects);
        one.name = "0";
        one.json = std::string(rules::Json::kMaxBytes, ' ');
        CHECK(objects.put(one));
        CHECK(objects.find({"10.0.0.7", "0"})->json == "{}");
    }
}
