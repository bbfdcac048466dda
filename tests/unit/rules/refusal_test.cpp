// Everything that is refused: status, code, field, and that nothing has changed.
#include <doctest/doctest.h>

#include "tests/unit/rules/bodies.hpp"
#include "tests/unit/rules/fakes.hpp"

TEST_SUITE_BEGIN("rules/refusal");

using namespace sluice;
using namespace sluice::rules;
using test::body;

namespace {

struct Row {
    std::string name;
    std::string body;
    int status;
    std::string code;
    std::string field;
    std::string allowed = "*";  // "*": not looked at
};

// Prefill and decode with both roles.
std::string pd_body(test::Members service) {
    service.emplace_back("pd_disagg_mode", "true");
    return body(
        service, {},
        {{"endpoints",
          R"([{"endpointIP":"10.0.0.1","targetPort":1,"weight":1,"ep_role":1},{"endpointIP":"10.0.0.2","targetPort":1,"weight":1,"ep_role":2}])"}});
}

std::vector<Row> syntax_rows() {
    return {
        {"empty", "", 400, "malformed_json", ""},
        {"not JSON", "{", 400, "malformed_json", ""},
        {"a list", "[]", 400, "malformed_json", ""},
        {"null", "null", 400, "malformed_json", ""},
        {"a member twice", R"({"serviceArguments":{"port":1,"port":2},"endpoints":[]})", 400,
         "malformed_json", ""},
        {"deep", R"({"serviceArguments":)" + std::string(30, '[') + std::string(30, ']') + "}", 400,
         "malformed_json", ""},
        {"too long", std::string(2 << 20, ' '), 413, "body_too_large", ""},
        {"without serviceArguments", R"({"endpoints":[]})", 400, "required", "serviceArguments"},
        {"serviceArguments null", body({}, {}, {{"serviceArguments", "null"}}), 422, "wrong_type",
         "serviceArguments"},
        {"serviceArguments a list", body({}, {}, {{"serviceArguments", "[]"}}), 422, "wrong_type",
         "serviceArguments"},
        {"without endpoints", body({}, {}, {{"endpoints", ""}}), 400, "endpoints_range",
         "endpoints", "1..1024 entries"},
        {"no endpoint", body({}, {}, {{"endpoints", "[]"}}), 400, "endpoints_range", "endpoints"},
        {"endpoints an object", body({}, {}, {{"endpoints", "{}"}}), 422, "wrong_type",
         "endpoints"},
        {"an endpoint is text", body({}, {}, {{"endpoints", R"(["x"])"}}), 422, "wrong_type",
         "endpoints[0]"},
        {"unknown at the top", body({}, {}, {{"extra", "1"}}), 400, "unknown_field", "extra"},
        {"secondary addresses", body({}, {}, {{"secondaryIPs", R"([{"x":1}])"}}), 400,
         "not_supported_yet", "secondaryIPs"},
        {"an allowed source is a number", body({}, {}, {{"allowedSources", "[1]"}}), 422,
         "wrong_type", "allowedSources[0]"},
        {"an allowed source without prefix", body({}, {}, {{"allowedSources", "[{}]"}}), 422,
         "required", "allowedSources[0].prefix"},
        {"an allowed source is no network",
         body({}, {},
              {{"allowedSources", R"([{"prefix":"10.0.0.0/8"},{"prefix":"10.0.0.0/33"}])"}}),
         400, "malformed_source", "allowedSources[1].prefix"},
        {"a name as allowed source",
         body({}, {}, {{"allowedSources", R"([{"prefix":"localhost"}])"}}), 400, "malformed_source",
         "allowedSources[0].prefix"},
    };
}

std::vector<Row> service_rows() {
    return {
        {"unknown", body({{"colour", "1"}}), 400, "unknown_field", "colour", ""},
        {"known in another case", body({{"probetimeout", "1"}}), 400, "unknown_field",
         "probetimeout", "probeTimeout"},
        {"no address", body({{"externalIP", ""}}), 422, "required", "externalIP"},
        {"a name as address", body({{"externalIP", R"("localhost")"}}), 400, "malformed_service",
         "externalIP"},
        {"an address with a port", body({{"externalIP", R"("10.0.0.1:80")"}}), 400,
         "malformed_service", "externalIP"},
        {"a number as address", body({{"externalIP", "1"}}), 422, "wrong_type", "externalIP"},
        {"no port", body({{"port", ""}}), 400, "serv_port_range", "port"},
        {"port 0", body({{"port", "0"}}), 400, "serv_port_range", "port", "1..65535"},
        {"port too large", body({{"port", "65536"}}), 400, "serv_port_range", "port"},
        {"port negative", body({{"port", "-1"}}), 400, "serv_port_range", "port"},
        {"port as text", body({{"port", R"("80")"}}), 422, "wrong_type", "port"},
        {"port a fraction", body({{"port", "80.0"}}), 422, "wrong_type", "port"},
        {"port null", body({{"port", "null"}}), 422, "wrong_type", "port"},
        {"no protocol", body({{"protocol", ""}}), 400, "malformed_proto", "protocol"},
        {"unknown protocol", body({{"protocol", R"("http")"}}), 400, "malformed_proto", "protocol"},
        {"udp", body({{"protocol", R"("udp")"}}), 400, "not_supported_yet", "protocol", "tcp"},
        {"no mode", body({{"mode", ""}}), 400, "mode_not_supported", "mode", "4"},
        {"mode 0", body({{"mode", "0"}}), 400, "mode_not_supported", "mode", "4"},
        {"mode 5", body({{"mode", "5"}}), 400, "mode_not_supported", "mode", "4"},
        {"port range", body({{"portMax", "8090"}}), 400, "not_supported_yet", "portMax"},
        {"security 1", body({{"security", "1"}}), 400, "not_supported_yet", "security", "0"},
        {"security 3", body({{"security", "3"}}), 422, "out_of_range", "security"},
        {"http2 behind", body({{"backend_protocol", R"("http2")"}}), 400, "not_supported_yet",
         "backend_protocol", "http1"},
        {"unknown backend protocol", body({{"backend_protocol", R"("h3")"}}), 422, "unknown_value",
         "backend_protocol", "http1"},
        {"a wildcard host", body({{"host", R"("*.x")"}}), 400, "malformed_host", "host"},
        {"a control character", body({{"name", R"("a\nb")"}}), 400, "malformed_text", "name"},
        {"a long name", body({{"name", ("\"" + std::string(300, 'n') + "\"")}}), 422,
         "out_of_range", "name"},
        {"an id with a space", body({{"id", R"("a b")"}}), 400, "malformed_id", "id"},
        {"a path without a mode", body({{"path_prefix", R"("/v1")"}}), 400,
         "path_match_mode_required", "path_match_mode"},
        {"an unknown path mode", body({{"path_match_mode", R"("regex")"}}), 422, "unknown_value",
         "path_match_mode"},
        {"annotation with a number", body({{"annotations", R"({"a":1})"}}), 422, "wrong_type",
         "annotations"},
        {"a key file without a folder", body({{"backend_auth_file", R"("key")"}}), 400,
         "malformed_path", "backend_auth_file"},
        {"a key file that is not there", body({{"backend_auth_file", R"("/nowhere/at/all")"}}), 400,
         "auth_file_unusable", "backend_auth_file"},
        {"a key file that is a folder", body({{"backend_auth_file", R"("/")"}}), 400,
         "auth_file_unusable", "backend_auth_file"},
        {"a key file that was never given", body({{"backend_auth_file", R"("***")"}}), 400,
         "auth_file_hidden", "backend_auth_file"},
        {"attach to nothing", body({{"oper", "1"}, {"port", "9"}}), 404, "no_rule", ""},
        {"detach from nothing", body({{"oper", "2"}, {"port", "9"}}), 404, "no_rule", ""},
        {"an unknown oper", body({{"oper", "3"}}), 422, "out_of_range", "oper", "0..2"},
        {"attach what is there", body({{"oper", "1"}}), 409, "lbrule_exists", ""},
        {"attach and change", body({{"oper", "1"}, {"sel", "4"}}), 400, "oper_conflict", "sel"},
        {"attach and change sources",
         body({{"oper", "1"}}, {}, {{"allowedSources", R"([{"prefix":"10.0.0.0/8"}])"}}), 400,
         "oper_conflict", "allowedSources"},
        {"attach by another id", body({{"oper", "1"}, {"id", R"("x")"}}), 409, "immutable", "id"},
        {"detach the last one", body({{"oper", "2"}}), 400, "endpoints_range", "endpoints",
         "at least one endpoint stays"},
        {"detach a stranger", body({{"oper", "2"}}, {{"targetPort", "9"}}), 404, "no_endpoint",
         "endpoints"},
        {"a range that ends before it starts", body({{"portMax", "8079"}}), 400, "serv_port_range",
         "portMax", "0 or 8080"},
        {"another egress", body({{"egress", "true"}}), 409, "immutable", "egress"},
        {"sel 1", body({{"sel", "1"}}), 400, "not_supported_yet", "sel", "0, 2, 4"},
        {"sel 8", body({{"sel", "8"}}), 400, "not_supported_yet", "sel"},
        {"sel 11", body({{"sel", "11"}}), 422, "out_of_range", "sel", "0..10"},
        {"unknown selector", body({{"selector", R"("best")"}}), 400, "selector_unknown", "selector",
         "rr, lc, wrr"},
        {"two selectors", body({{"selector", R"("rr")"}, {"sel", "4"}}), 400, "selector_conflict",
         "selector"},
        {"idle above a day", body({{"inactiveTimeOut", "86401"}}), 400, "service_args",
         "inactiveTimeOut"},
        {"two idle limits",
         body({{"inactiveTimeOut", "5"}, {"timeouts", R"({"client_idle_ms":6000})"}}), 400,
         "idle_timeout_conflict", "inactiveTimeOut"},
        {"unknown timeout", body({{"timeouts", R"({"idle":1})"}}), 400, "unknown_field",
         "timeouts.idle"},
        {"timeout as text", body({{"timeouts", R"({"total_ms":"1s"})"}}), 422, "wrong_type",
         "timeouts.total_ms"},
        {"retry above ten", body({{"retry", R"({"connect":11})"}}), 422, "out_of_range",
         "retry.connect", "0..10"},
        {"breaker numbers without a breaker", body({{"breaker", R"({"failures":5})"}}), 400,
         "breaker_needs_cb_enable", "breaker"},
        {"a breaker that never opens",
         body({{"cb_enable", "true"}, {"breaker", R"({"failures":0})"}}), 422, "out_of_range",
         "breaker.failures", "1..1000"},
        {"an unknown breaker number", body({{"breaker", R"({"opens":6})"}}), 400, "unknown_field",
         "breaker.opens"},
        {"small bodies only", body({{"max_body_bytes", "1023"}}), 422, "out_of_range",
         "max_body_bytes", "1024..4294967296"},
        {"an alias to nothing", body({{"model_aliases", R"({"a":""})"}}), 400, "malformed_text",
         "model_aliases"},
        {"unknown engine", body({{"engine", R"("sglang")"}}), 400, "engine_unknown", "engine",
         "vllm"},
        {"two engines", body({{"engine", R"("x")"}, {"kvEngineType", R"("vllm")"}}), 400,
         "engine_conflict", "engine"},
        {"an engine to come", body({{"kvEngineType", R"("sglang")"}}), 400, "not_supported_yet",
         "kvEngineType"},
        {"an engine whose plugin is not there", body({{"kvEngineType", R"("trtllm")"}}), 400,
         "engine_unknown", "kvEngineType", "vllm"},
        {"no engine", body({{"kvEngineType", R"("tgi")"}}), 422, "unknown_value", "kvEngineType"},
        {"plugin_config a list", body({{"plugin_config", "[]"}}), 422, "wrong_type",
         "plugin_config"},
        {"keys", body({{"api_key_auth", R"("required")"}}), 400, "not_supported_yet",
         "api_key_auth", "omitted"},
        {"a session header", body({{"session_header_name", R"("X-S")"}}), 400, "not_supported_yet",
         "session_header_name"},
        {"keys by token without a profile", body({{"api_key_auth", R"("jwt")"}}), 400,
         "jwt_profile_required", "jwt_auth_profile"},
        {"keys or tokens without a profile", body({{"api_key_auth", R"("apikey-or-jwt")"}}), 400,
         "jwt_profile_required", "jwt_auth_profile"},
        {"a profile nobody uses", body({{"jwt_auth_profile", R"("p")"}}), 400, "jwt_profile_unused",
         "jwt_auth_profile"},
        {"keys by token", body({{"api_key_auth", R"("jwt")"}, {"jwt_auth_profile", R"("p")"}}), 400,
         "not_supported_yet", "api_key_auth", "omitted"},
        {"unknown keys", body({{"api_key_auth", R"("basic")"}}), 422, "unknown_value",
         "api_key_auth"},
        {"a session in no header", body({{"session_header_name", R"("X S")"}}), 400,
         "malformed_session_header", "session_header_name"},
        {"a session in no cookie", body({{"session_header_name", R"("cookie:")"}}), 400,
         "malformed_session_header", "session_header_name"},
        {"admission", body({{"fc_mode", R"("enforce")"}}), 400, "not_supported_yet", "fc_mode",
         "off or inherit"},
        {"unknown admission", body({{"fc_mode", R"("on")"}}), 422, "unknown_value", "fc_mode"},
        {"admission null", body({{"fc_max_outstanding", "null"}}), 422, "wrong_type",
         "fc_max_outstanding"},
        {"a queue without waiting",
         body({{"fc_max_queue_depth", "4"}, {"fc_max_queue_wait_ms", "0"}}), 400,
         "fc_queue_wait_required", "fc_max_queue_wait_ms"},
        {"a queue", body({{"fc_max_queue_depth", "4"}}), 400, "not_supported_yet",
         "fc_max_queue_depth", "0"},
        {"a queue too long", body({{"fc_max_queue_depth", "65537"}}), 422, "out_of_range",
         "fc_max_queue_depth"},
        {"a key in TLS", body({{"mtls_backend", R"({"client_key_data":"c2VjcmV0"})"}}), 400,
         "not_supported_yet", "mtls_backend.client_key_data"},
        {"unknown in TLS", body({{"mtls_frontend", R"({"ca":"x"})"}}), 400, "unknown_field",
         "mtls_frontend.ca"},
        {"selector 9", body({{"sel", "9"}}), 400, "not_supported_yet", "sel"},
        {"the semantics come before what is not built",
         body({{"api_key_auth", R"("required")"}, {"kvExactMode", "2"}}), 400,
         "kv_exact_mode_reserved", "kvExactMode"},
        {"the schema comes before the semantics", body({{"kvExactMode", "2"}, {"sel", "11"}}), 422,
         "out_of_range", "sel"},
        {"front TLS", body({{"mtls_frontend", R"({"client_cert_mode":"required"})"}}), 400,
         "not_supported_yet", "mtls_frontend.client_cert_mode"},
    };
}

std::vector<Row> probe_and_kv_rows() {
    return {
        {"unknown probe", body({{"probetype", R"("icmp")"}}), 400, "malformed_service_ptype",
         "probetype"},
        {"probe without port", body({{"probetype", R"("http")"}}), 400, "malformed_service_pport",
         "probeport"},
        {"port without probe", body({{"probeport", "8000"}}), 400, "malformed_service_pport",
         "probeport"},
        {"none with a port", body({{"probetype", R"("none")"}, {"probeport", "1"}}), 400,
         "malformed_service_pport", "probeport"},
        {"question of a ping", body({{"probetype", R"("ping")"}, {"probereq", R"("/h")"}}), 400,
         "probereq_unused", "probereq"},
        {"question of no probe", body({{"probereq", R"("/h")"}}), 400, "probereq_unused",
         "probereq"},
        {"question of a connect", body({{"monitor", "true"}, {"probereq", R"("/h")"}}), 400,
         "probereq_unused", "probereq"},
        {"a probe path with a space",
         body({{"probetype", R"("http")"}, {"probeport", "1"}, {"probereq", R"("/a b")"}}), 400,
         "malformed_path", "probereq"},
        {"an answer of no probe", body({{"proberesp", R"("ok")"}}), 400, "proberesp_unused",
         "proberesp"},
        {"an answer of a ping", body({{"probetype", R"("ping")"}, {"proberesp", R"("ok")"}}), 400,
         "proberesp_unused", "proberesp"},
        {"a body of HEAD",
         body({{"probetype", R"("http")"}, {"probeport", "1"}, {"proberesp", R"("ok")"}},
              {{"httpMethod", R"("HEAD")"}}),
         400, "proberesp_unused", "proberesp"},
        {"a method of a tcp probe",
         body({{"probetype", R"("tcp")"}, {"probeport", "1"}}, {{"httpMethod", R"("HEAD")"}}), 400,
         "monitor_unused", "endpoints"},
        {"tls-hello is a health object's",
         body({{"probetype", R"("tls-hello")"}, {"probeport", "1"}}), 400,
         "malformed_service_ptype", "probetype"},
        {"too many retries", body({{"probeRetries", "101"}}), 422, "out_of_range", "probeRetries"},
        {"kv mode 1 without P/D", body({{"kvExactMode", "1"}}), 400, "kv_exact_mode_needs_pd",
         "kvExactMode", "0 or 3"},
        {"kv mode 2", body({{"kvExactMode", "2"}}), 400, "kv_exact_mode_reserved", "kvExactMode"},
        {"kv mode 4", body({{"kvExactMode", "4"}}), 422, "out_of_range", "kvExactMode"},
        {"kv mode 2 of trtllm", body({{"kvExactMode", "2"}, {"kvEngineType", R"("trtllm")"}}), 400,
         "kv_exact_mode_reserved", "kvExactMode", "0 or 3"},
        {"kv mode 3 and P/D", pd_body({{"kvExactMode", "3"}}), 400, "kv_exact_mode_single_role",
         "kvExactMode", "0 or 1"},
        {"kv mode 3 and a role", body({{"kvExactMode", "3"}}, {{"ep_role", "1"}}), 400,
         "kv_exact_mode_single_role", "kvExactMode"},
        {"P/D without roles", body({{"pd_disagg_mode", "true"}}), 400, "pd_roles_required",
         "endpoints"},
        {"P/D without decode", body({{"pd_disagg_mode", "true"}}, {{"ep_role", "1"}}), 400,
         "pd_roles_required", "endpoints"},
        {"P/D with another hand-over", pd_body({{"pd_connector", R"("p2p")"}}), 422,
         "unknown_value", "pd_connector", "nixl, lmcache or mooncake"},
        {"cache-aware without P/D", body({{"pd_cache_aware_mode", "true"}}), 400,
         "pd_cache_aware_needs_pd", "pd_cache_aware_mode", "false"},
        {"a bootstrap port without P/D",
         body({{"pdBootstrapPort", "8998"}, {"kvEngineType", R"("sglang")"}}), 400,
         "pd_bootstrap_port_unused", "pdBootstrapPort"},
        {"a bootstrap port of vllm", pd_body({{"pdBootstrapPort", "8998"}}), 400,
         "pd_bootstrap_port_unused", "pdBootstrapPort"},
        {"a bootstrap port of sglang",
         pd_body({{"pdBootstrapPort", "8998"}, {"kvEngineType", R"("sglang")"}}), 400,
         "not_supported_yet", "kvEngineType"},
        {"trtllm with a foreign hash",
         body({{"kvEngineType", R"("trtllm")"}, {"kvHashAlgo", R"("sha256_cbor")"}}), 400,
         "kv_hash_algo_incompatible", "kvHashAlgo", "absent, blockhash_trtllm"},
        {"sglang with a foreign hash",
         body({{"kvEngineType", R"("sglang")"}, {"kvHashAlgo", R"("xxhash")"}}), 400,
         "kv_hash_algo_incompatible", "kvHashAlgo", "absent, sha256_sglang"},
        {"llamacpp and KV-exact", body({{"kvEngineType", R"("llamacpp")"}, {"kvExactMode", "3"}}),
         400, "engine_plain_only", "kvEngineType"},
        {"a model profile without KV-exact", body({{"kvModelProfile", R"("p")"}}), 400,
         "kv_exact_mode_required", "kvModelProfile"},
        {"a model profile", body({{"kvModelProfile", R"("p")"}, {"kvExactMode", "3"}}), 400,
         "not_supported_yet", "kvModelProfile"},
        {"an API mode without KV-exact", body({{"kvExactApiMode", R"("chat")"}}), 400,
         "kv_exact_mode_required", "kvExactApiMode"},
        {"speculation", body({{"kvSpeculateMs", "0"}}), 400, "not_supported_yet", "kvSpeculateMs",
         "2000"},
        {"events to no address", body({{"kvRepublish", R"("127.0.0.1:1")"}}), 400,
         "malformed_address", "kvRepublish"},
        {"events to no port", body({{"kvRepublish", R"("tcp://h:0")"}}), 400, "malformed_address",
         "kvRepublish"},
        {"events from no URL", body({{"kvEventsFrom", R"("gw")"}}), 400, "malformed_address",
         "kvEventsFrom"},
        {"events from a gateway by name", body({{"kvEventsFrom", R"("http://gw:11111")"}}), 400,
         "malformed_address", "kvEventsFrom"},
        {"events from a gateway over TLS", body({{"kvEventsFrom", R"("https://10.0.0.1:1")"}}), 400,
         "malformed_address", "kvEventsFrom"},
        {"events with a user's name", body({{"kvEventsFrom", R"("http://me@10.0.0.1:1")"}}), 400,
         "malformed_address", "kvEventsFrom"},
        {"events from no port", body({{"kvEventsFrom", R"("http://10.0.0.1")"}}), 400,
         "malformed_address", "kvEventsFrom"},
        {"https probe without port", body({{"probetype", R"("https")"}}), 400,
         "malformed_service_pport", "probeport"},
        {"ping with a port", body({{"probetype", R"("ping")"}, {"probeport", "7"}}), 400,
         "malformed_service_pport", "probeport"},
        {"probe port too large", body({{"probeport", "65536"}}), 422, "out_of_range", "probeport"},
        {"block size 0", body({{"kvBlockSize", "0"}}), 422, "out_of_range", "kvBlockSize"},
        {"foreign hash", body({{"kvHashAlgo", R"("blockhash_trtllm")"}}), 400,
         "kv_hash_algo_incompatible", "kvHashAlgo"},
        {"unknown hash", body({{"kvHashAlgo", R"("md5")"}}), 422, "unknown_value", "kvHashAlgo"},
        {"nine ranks", body({{"kvDpRankCount", "9"}}), 422, "out_of_range", "kvDpRankCount",
         "1..8"},
        {"no rank", body({{"kvDpRankCount", "0"}}), 422, "out_of_range", "kvDpRankCount"},
        {"ranks past the last port", body({{"kvZmqPort", "65535"}, {"kvDpRankCount", "2"}}), 400,
         "kv_port_range", "kvZmqPort", "at most 65534"},
        {"replay past the last port", body({{"kvZmqPort", "65000"}}), 400, "kv_replay_port_range",
         "kvReplayPort"},
        {"soft", body({{"kvLbMode", R"("soft")"}}), 400, "not_supported_yet", "kvLbMode",
         "off or hard"},
        {"unknown lb mode", body({{"kvLbMode", R"("best")"}}), 422, "unknown_value", "kvLbMode"},
        {"load factor", body({{"kvMeanLoadFactor", "99"}}), 422, "out_of_range",
         "kvMeanLoadFactor"},
        {"republishing at a name", body({{"kvRepublish", R"("tcp://gw:5600")"}}), 400,
         "malformed_address", "kvRepublish"},
        {"republishing at a bare IPv6 address", body({{"kvRepublish", R"("tcp://::1:5600")"}}), 400,
         "malformed_address", "kvRepublish"},
    };
}

std::vector<Row> endpoint_rows() {
    const std::string twice =
        R"([{"endpointIP":"10.0.0.1","targetPort":1,"weight":1},{"endpointIP":"10.0.0.1","targetPort":1,"weight":2}])";
    const std::string twice_v6 =
        R"([{"endpointIP":"fd00::1","targetPort":1,"weight":1},{"endpointIP":"FD00:0::1","targetPort":1,"weight":2}])";
    std::string many = "[";
    for (int i = 0; i < 1025; ++i) {
        many += (i == 0 ? "" : ",") + std::string(R"({"endpointIP":"10.0.0.1","targetPort":)") +
                std::to_string(i + 1) + R"(,"weight":1})";
    }
    many += "]";
    return {
        {"without address", body({}, {{"endpointIP", ""}}), 422, "required",
         "endpoints[0].endpointIP"},
        {"a name", body({}, {{"endpointIP", R"("engine")"}}), 400, "malformed_lbep",
         "endpoints[0].endpointIP"},
        {"any address", body({}, {{"endpointIP", R"("0.0.0.0")"}}), 400, "malformed_lbep",
         "endpoints[0].endpointIP"},
        {"multicast", body({}, {{"endpointIP", R"("ff02::1")"}}), 400, "malformed_lbep",
         "endpoints[0].endpointIP"},
        {"port 0", body({}, {{"targetPort", "0"}}), 400, "malformed_lbep",
         "endpoints[0].targetPort"},
        {"without port", body({}, {{"targetPort", ""}}), 400, "malformed_lbep",
         "endpoints[0].targetPort"},
        {"without weight", body({}, {{"weight", ""}}), 422, "required", "endpoints[0].weight"},
        {"weight 256", body({}, {{"weight", "256"}}), 422, "out_of_range", "endpoints[0].weight",
         "0..255"},
        {"role 3", body({}, {{"ep_role", "3"}}), 400, "ep_role_range", "endpoints[0].ep_role"},
        {"a backup that is a number", body({}, {{"backup", "1"}}), 422, "wrong_type",
         "endpoints[0].backup"},
        {"a probe address that is a name", body({}, {{"monitorAddress", R"("h")"}}), 400,
         "malformed_lbep", "endpoints[0].monitorAddress"},
        {"codes that are none", body({}, {{"expectedCodes", R"("2xx")"}}), 400, "malformed_lbep",
         "endpoints[0].expectedCodes"},
        {"codes backwards", body({}, {{"expectedCodes", R"("204-200")"}}), 400, "malformed_lbep",
         "endpoints[0].expectedCodes"},
        {"codes beyond 599", body({}, {{"expectedCodes", R"("200-600")"}}), 400, "malformed_lbep",
         "endpoints[0].expectedCodes"},
        {"a probe address for many", body({}, {{"monitorAddress", R"("224.0.0.1")"}}), 400,
         "malformed_lbep", "endpoints[0].monitorAddress"},
        {"a path that ends the line", body({}, {{"urlPath", R"("/a\r\nX: y")"}}), 400,
         "malformed_text", "endpoints[0].urlPath"},
        {"a domain that ends the line", body({}, {{"domainName", R"("a\r\nX: y")"}}), 400,
         "malformed_text", "endpoints[0].domainName"},
        {"a path without slash", body({}, {{"urlPath", R"("h")"}}), 400, "malformed_lbep",
         "endpoints[0].urlPath"},
        {"an unknown method", body({}, {{"httpMethod", R"("BREW")"}}), 422, "unknown_value",
         "endpoints[0].httpMethod"},
        {"an unknown version", body({}, {{"httpVersion", R"("2.0")"}}), 422, "unknown_value",
         "endpoints[0].httpVersion"},
        {"a domain with a slash", body({}, {{"domainName", R"("a/b")"}}), 400, "malformed_lbep",
         "endpoints[0].domainName"},
        {"unknown", body({}, {{"rack", "1"}}), 400, "unknown_field", "endpoints[0].rack"},
        {"twice", body({}, {}, {{"endpoints", twice}}), 400, "endpoint_duplicate", "endpoints"},
        {"twice, spelled differently", body({}, {}, {{"endpoints", twice_v6}}), 400,
         "endpoint_duplicate", "endpoints"},
        {"1025", body({}, {}, {{"endpoints", many}}), 400, "endpoints_range", "endpoints"},
    };
}

}  // namespace

TEST_CASE("a refusal shows the value, at its place in the body, and no secret") {
    struct Row {
        std::string body, field, shown;
    };
    const std::string two =
        R"([{"endpointIP":"10.0.0.9","targetPort":1,"weight":1,"httpMethod":"BREW"},{"endpointIP":"10.0.0.1","targetPort":1,"weight":1}])";
    for (const Row& row :
         {Row{body({{"externalIP", R"("localhost")"}}), "externalIP", "\"localhost\""},
          Row{body({{"kvExactMode", "2"}}), "kvExactMode", "2"},
          Row{body({{"probetype", R"("icmp")"}}), "probetype", "\"icmp\""},
          Row{body({{"timeouts", R"({"total_ms":"1s"})"}}), "timeouts.total_ms", "\"1s\""},
          Row{body({}, {}, {{"allowedSources", R"([{"prefix":"x/9"}])"}}),
              "allowedSources[0].prefix", "\"x/9\""},
          Row{body({}, {}, {{"endpoints", two}}), "endpoints[0].httpMethod", "\"BREW\""},
          Row{body({{"backend_auth_file", R"("secret")"}}), "backend_auth_file", "***"}}) {
        CAPTURE(row.field);
        const Parsed parsed = parse_rule(row.body, {}, {{"vllm"}, {"rr"}});
        REQUIRE(parsed.refusal.has_value());
        CHECK(parsed.refusal->field == row.field);
        CHECK(parsed.refusal->message.find(row.shown) != std::string::npos);
        CHECK(parsed.refusal->message.find("secret") == std::string::npos);
    }
}

TEST_CASE("a refused body says why and changes nothing") {
    test::MemoryStore store;
    test::RecordingHooks hooks;
    RuleBook book(store, hooks);
    REQUIRE_FALSE(book.put(body(), {}).refusal.has_value());
    const std::string stored = store.text();
    const auto table = book.table();
    hooks.log.clear();

    std::size_t rows = 0;
    for (const auto& part : {syntax_rows(), service_rows(), probe_and_kv_rows(), endpoint_rows()}) {
        for (const Row& row : part) {
            CAPTURE(row.name);
            const Outcome outcome = book.put(row.body, {});
            REQUIRE(outcome.refusal.has_value());
            CHECK(outcome.refusal->status == row.status);
            CHECK(outcome.refusal->code == row.code);
            CHECK(outcome.refusal->field == row.field);
            CHECK_FALSE(outcome.refusal->message.empty());
            CHECK(outcome.refusal->message.find("c2VjcmV0") == std::string::npos);
            if (row.allowed != "*") {
                CHECK(outcome.refusal->allowed == row.allowed);
            }
            CHECK(store.text() == stored);
            CHECK(book.table() == table);
            CHECK(hooks.log.empty());
            ++rows;
        }
    }
    CHECK(rows > 150);
    CHECK(store.commits == 1);
    CHECK(store.trail.size() == 1);
}

TEST_SUITE_END();
