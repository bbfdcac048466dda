"""The rule parts of the scenarios a gateway of this interface is known by."""

import urllib.parse

from gateway import Gateway, complete, rule
from harness import MINI_TOKENIZER, exchange, start_sim
from test_rules import key_path, post, stable


def engine(model):
    return start_sim("--model", MINI_TOKENIZER, "--served-model-name", model)


def asked(sim):
    """How many generation requests the engine got."""
    return sum(r["target"].startswith("/v1/completions") for r in sim.requests())


def test_vllm_pd_disagg_tf_read_back_delete_and_create_anew(tmp_path):
    roles = [("127.0.7.1:8000", {"ep_role": 1, "nixl_port": 5600}),
             ("127.0.7.2:8000", {"ep_role": 2, "nixl_port": 5601})]
    with Gateway(tmp_path) as gw:
        vip = gw.vip()
        for fields, code in (({"pd_disagg_mode": True, "kvExactMode": 3}, "kv_exact_mode_single_role"),
                             ({"pd_cache_aware_mode": True}, "pd_cache_aware_needs_pd"),
                             ({"kvExactMode": 1}, "kv_exact_mode_needs_pd")):
            assert post(gw, rule(vip, roles, **fields)).json()["code"] == code
        reply = post(gw, rule(vip, ["127.0.7.1:8000"], pd_disagg_mode=True))
        assert reply.json()["code"] == "pd_roles_required"
        assert gw.rules() == []
        # Mode, roles and ports are read back as they were given.
        body = rule(vip, roles, pd_disagg_mode=True)
        first = gw.create(body)
        assert first["serviceArguments"]["pd_disagg_mode"] is True
        assert [(e["ep_role"], e["nixl_port"]) for e in first["endpoints"]] == [(1, 5600), (2, 5601)]
        assert exchange(gw.api, "DELETE", key_path(body)).status == 200
        assert gw.rules() == []
        again = gw.create(body)
        assert again["number"] > first["number"] and again["id"] != first["id"]
        assert again["serviceArguments"] == {**first["serviceArguments"], "id": again["id"]}


def test_vllm_fullproxy_t10_the_configuration_is_what_was_written(tmp_path):
    with engine("tiny") as one, engine("tiny") as two, Gateway(tmp_path) as gw:
        vip = gw.vip()
        port = int(one.address.rsplit(":", 1)[1])
        body = rule(vip, [one.address, two.address], name="vllm", security=0,
                    backend_protocol="http1", monitor=True, probetype="http", probeport=port,
                    probereq="/health", probeTimeout=60, probeRetries=2, sse_mode=True,
                    max_stream_duration_sec=600, inactiveTimeOut=240, host="")
        entry = gw.create(body)
        for name, value in body["serviceArguments"].items():
            assert entry["serviceArguments"][name] == value, name
        for name in ("mode", "sel", "security", "probetype", "probeport", "probereq",
                     "probeTimeout", "probeRetries", "monitor", "max_stream_duration_sec"):
            assert entry["effective"][name] == body["serviceArguments"][name], name
        assert entry["effective"]["timeouts"]["client_idle_ms"] == 240_000
        assert [(e["endpointIP"], e["targetPort"], e["weight"], e["state"])
                for e in sorted(entry["endpoints"], key=lambda e: e["targetPort"])] == sorted(
            (a.split(":")[0], int(a.split(":")[1]), 1, "active") for a in (one.address, two.address))
        for _ in range(4):
            assert complete(vip, "hello").status == 200
        assert asked(one) == asked(two) == 2
        # Reading changes nothing, and nothing is lost by a stop and a start.
        assert stable(gw.find(body)) == stable(entry)
        gw.stop()
        gw.start()
        assert stable(gw.find(body)) == stable(entry)


def test_ai_model_routing_over_rest(tmp_path):
    with engine("Org/Model-A") as a, engine("Org/Model-B") as b, engine("org/model-a") as rest, \
            Gateway(tmp_path) as gw:
        vip = gw.vip()
        pool_a = rule(vip, [a.address], model_name="Org/Model-A")
        pool_b = rule(vip, [b.address], model_name="Org/Model-B")
        gw.create(pool_a)
        gw.create(pool_b)
        assert len(gw.rules()) == 2

        def by_name(name):
            return key_path(pool_a) + "?model_name=" + urllib.parse.quote(name, safe="")

        assert exchange(gw.api, "GET", by_name("Org/Model-A")).json()["lbAttr"][0][
            "serviceArguments"]["model_name"] == "Org/Model-A"
        assert complete(vip, "hi", "Org/Model-A").status == 200
        assert complete(vip, "hi", "Org/Model-B").status == 200
        assert (asked(a), asked(b)) == (1, 1)
        # With case: another name is no pool's, until there is one for every name.
        reply = complete(vip, "hi", "org/model-a")
        assert (reply.status, reply.json()["error"]["code"]) == (503, "model_unavailable")
        wildcard = rule(vip, [rest.address])
        gw.create(wildcard)
        assert complete(vip, "hi", "org/model-a").status == 200
        assert (asked(a), asked(rest)) == (1, 1)
        # Deleting takes the whole key: another case or no name is another rule.
        assert exchange(gw.api, "DELETE", by_name("org/model-a")).status == 404
        assert len(gw.rules()) == 3
        assert exchange(gw.api, "DELETE", by_name("Org/Model-A")).status == 200
        assert {r["serviceArguments"].get("model_name", "") for r in gw.rules()} == {
            "", "Org/Model-B"}
        assert exchange(gw.api, "DELETE", key_path(wildcard)).status == 200
        assert [r["serviceArguments"]["model_name"] for r in gw.rules()] == ["Org/Model-B"]
        assert complete(vip, "hi", "Org/Model-A").status == 503
        assert complete(vip, "hi", "Org/Model-B").status == 200


def test_pkg_smoke_a_rule_is_there_and_works_after_a_restart(tmp_path):
    with engine("tiny") as sim, Gateway(tmp_path) as gw:
        vip = gw.vip()
        body = rule(vip, [sim.address], name="smoke")
        before = stable(gw.create(body))
        assert complete(vip, "hello").status == 200
        assert gw.stop() == 0
        gw.start()
        assert stable(gw.find(body)) == before
        assert complete(vip, "hello").status == 200
        assert asked(sim) == 2
