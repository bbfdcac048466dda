"""Rules of TensorRT-LLM over REST: what its plugin takes and refuses."""

import os
import shutil

import pytest
from gateway import API, Gateway, free_port
from harness import binary, exchange

LB = f"{API}/config/loadbalancer"


def body(port, **fields):
    return {"serviceArguments": {"externalIP": "127.0.0.1", "port": port, "protocol": "tcp",
                                 "sel": 0, "mode": 4, "kvEngineType": "trtllm", "kvExactMode": 3,
                                 **fields},
            "endpoints": [{"endpointIP": "127.0.7.1", "targetPort": 8355, "weight": 1}]}


def post(gw, rule):
    return exchange(gw.api, "POST", LB, rule, ())


REFUSALS = [
    ({"kvZmqPort": 5558}, "kv_zmq_port_unused", "kvZmqPort", "absent, 0 or 5557"),
    ({"kvDpRankCount": 2}, "kv_dp_ranks_unused", "kvDpRankCount", "absent or 1"),
    ({"kvExactMode": 2}, "kv_exact_mode_reserved", "kvExactMode", "0 or 3"),
    ({"kvHashAlgo": "sha256_cbor"}, "kv_hash_algo_incompatible", "kvHashAlgo",
     "absent, blockhash_trtllm"),
]


@pytest.mark.parametrize("fields,code,field,allowed", REFUSALS, ids=[r[2] for r in REFUSALS])
def test_what_the_engine_has_no_use_for_is_refused_with_what_is_allowed(
        tmp_path, fields, code, field, allowed):
    with Gateway(tmp_path) as gw:
        rule = body(free_port(), **fields)
        reply = post(gw, rule)
        said = reply.json()
        assert (reply.status, said["code"], said["field"], said["allowed"]) == (
            400, code, field, allowed)
        assert said["message"] and "allowed" not in said["message"]
        assert gw.get("/config/loadbalancer/all").json() == {"lbAttr": []}


def test_what_says_nothing_is_taken_and_the_engine_stays_what_it_is(tmp_path):
    with Gateway(tmp_path) as gw:
        for fields in ({}, {"kvZmqPort": 0}, {"kvZmqPort": 5557}, {"kvDpRankCount": 1},
                       {"kvHashAlgo": "blockhash_trtllm", "kvBlockSize": 32}, {"kvExactMode": 0}):
            assert post(gw, body(free_port(), **fields)).status == 200, fields
        rule = body(free_port())
        assert post(gw, rule).status == 200
        entry = gw.find(rule)
        # Nothing is declared; the engine has not answered, so its default holds.
        assert entry["effective"]["kvBlockSize"] == 32
        rule["serviceArguments"]["kvEngineType"] = "vllm"
        reply = post(gw, rule)
        assert (reply.status, reply.json()["field"]) == (409, "kvEngineType"), reply.json()
        assert gw.find(rule)["serviceArguments"]["kvEngineType"] == "trtllm"


def test_without_the_plugin_the_engine_is_unknown_and_the_answer_says_what_is_there(
        tmp_path, monkeypatch):
    # A copy of the program with the plugins of other engines beside it.
    built = os.path.dirname(binary("sluiced"))
    for name in ("sluiced", "sluice-plugin-check"):
        os.makedirs(tmp_path / "bin", exist_ok=True)
        shutil.copy2(os.path.join(built, name), tmp_path / "bin" / name)
    source = os.path.join(built, "..", "lib", "sluice", "plugins")
    plugins = tmp_path / "lib" / "sluice" / "plugins"
    shutil.copytree(source, plugins, ignore=shutil.ignore_patterns("*trtllm*"))
    monkeypatch.setenv("SLUICE_BIN_DIR", str(tmp_path / "bin"))
    with Gateway(tmp_path) as gw:
        reply = post(gw, body(free_port()))
        assert (reply.status, reply.json()["code"], reply.json()["field"]) == (
            400, "engine_unknown", "kvEngineType")
        assert "vllm" in reply.json()["allowed"] and "trtllm" not in reply.json()["allowed"]
