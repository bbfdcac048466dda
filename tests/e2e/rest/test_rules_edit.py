"""Edits of a rule in force over REST: patches, endpoints added and taken out, what stays as it was."""

import json
import os

import pytest
from gateway import Gateway, rule
from harness import exchange
from test_rules import identity, key_path, post, stable


def patch(gw, body, change, query="", content_type="application/merge-patch+json"):
    return exchange(gw.api, "PATCH", key_path(body) + query, change,
                    [("Content-Type", content_type)])


def refused(reply):
    return reply.status, reply.json()["code"], reply.json()["field"]


# Field, a value that is taken, and what is in force then.
MUTABLE = [
    ("name", "other", "other"),
    ("projectId", "p", "p"),
    ("annotations", {"a": "b"}, {"a": "b"}),
    ("connectionLimit", 7, 7),
    ("adminStateUp", False, False),
    ("sel", 4, 4),
    ("inactiveTimeOut", 30, 30),
    ("monitor", True, True),
    ("probeTimeout", 9, 9),
    ("probeRetries", 5, 5),
    ("max_stream_duration_sec", 60, 60),
    ("backend_keepalive_interval_sec", 15, 15),
    ("max_body_bytes", 4096, 4096),
    ("client_handoff_fields", "refuse", "refuse"),
    ("model_aliases", {"a": "b"}, {"a": "b"}),
    ("kvExactMode", 3, 3),
    ("kvBlockSize", 32, 32),
    ("kvHashAlgo", "xxhash", "xxhash"),
    ("kvHashSeed", "0", "0"),
    ("kvZmqPort", 6000, 6000),
    ("kvReplayPort", 0, 0),
    ("kvDpRankCount", 2, 2),
    ("kvWarmupSec", 1, 1),
    ("kvLbMode", "off", "off"),
    ("kvMeanLoadFactor", 200, 200),
    ("kvMinMatchTokens", 0, 0),
    ("kvColdSeedEvery", 0, 0),
    ("kvColdSeedMinBlocks", 3, 3),
    ("kvMaxBlocks", 5000, 5000),
    ("kvDiscovery", "off", "off"),
]


def test_every_mutable_field_is_patched_in_place_and_null_takes_it_back(tmp_path):
    with Gateway(tmp_path) as gw:
        body = rule(gw.vip(), ["127.0.7.1:1", "127.0.7.2:1"])
        first = gw.create(body)
        for name, value, in_force in MUTABLE:
            reply = patch(gw, body, {"serviceArguments": {name: value}})
            assert reply.status == 200, (name, reply.body)
            entry = gw.rules()[0]
            assert entry["serviceArguments"][name] == value, name
            assert entry["effective"][name] == in_force, name
            assert identity(entry) == identity(first), name
            assert patch(gw, body, {"serviceArguments": {name: None}}).status == 200, name
        last = gw.rules()[0]
        assert last["generation"] == 1 + 2 * len(MUTABLE)
        assert last["effective"] == first["effective"] and identity(last) == identity(first)


def test_a_patch_survives_kill_9_and_one_that_changes_nothing_is_no_change(tmp_path):
    with Gateway(tmp_path) as gw:
        body = rule(gw.vip(), ["127.0.7.1:1"])
        gw.create(body)
        assert patch(gw, body, {"serviceArguments": {"adminStateUp": False}}).status == 200
        before = stable(gw.rules()[0])
        gw.kill()
        gw.start()
        entry = gw.rules()[0]
        assert stable(entry) == before
        assert entry["serviceArguments"]["adminStateUp"] is False
        for change in ({}, {"serviceArguments": {"adminStateUp": False}}, entry):
            reply = patch(gw, body, change)
            assert reply.status == 200 and reply.json()["generation"] == 2, reply.body
        # A POST does not switch it on, and the very same rule is still a conflict.
        assert refused(post(gw, entry))[:2] == (409, "lbrule_exists")
        assert post(gw, {**body, "serviceArguments": {**body["serviceArguments"], "name": "n"}}
                    ).status == 200
        assert gw.rules()[0]["serviceArguments"]["adminStateUp"] is False


REFUSED = [
    ({"serviceArguments": {"port": 1}}, 409, "immutable", "port"),
    ({"serviceArguments": {"externalIP": "127.0.0.9"}}, 409, "immutable", "externalIP"),
    ({"serviceArguments": {"model_name": "m"}}, 409, "immutable", "model_name"),
    ({"serviceArguments": {"host": "h"}}, 409, "immutable", "host"),
    ({"serviceArguments": {"mode": 0}}, 409, "immutable", "mode"),
    ({"serviceArguments": {"security": 1}}, 409, "immutable", "security"),
    ({"serviceArguments": {"egress": True}}, 409, "immutable", "egress"),
    ({"serviceArguments": {"kvEngineType": "sglang"}}, 409, "immutable", "kvEngineType"),
    ({"serviceArguments": {"id": "x"}}, 409, "immutable", "id"),
    ({"serviceArguments": {"probetimeout": 5}}, 400, "unknown_field", "probetimeout"),
    ({"serviceArguments": {"probeRetries": "5"}}, 422, "wrong_type", "probeRetries"),
    ({"serviceArguments": {"breaker": {"failures": 6}}}, 400, "breaker_needs_cb_enable", "breaker"),
    ({"serviceArguments": None}, 400, "required", "serviceArguments"),
    ({"endpoints": []}, 400, "endpoints_range", "endpoints"),
    ({"allowedSources": [{"prefix": "x"}]}, 400, "malformed_source", "allowedSources[0].prefix"),
]


def test_a_refused_patch_changes_nothing(tmp_path):
    with Gateway(tmp_path) as gw:
        body = rule(gw.vip(), ["127.0.7.1:1"])
        before = stable(gw.create(body))
        for change, *want in REFUSED:
            assert refused(patch(gw, body, change)) == tuple(want), change
            assert stable(gw.rules()[0]) == before
        assert refused(patch(gw, body, {}, "?model_name=m")) == (404, "no_rule", "")
        assert refused(patch(gw, body, {}, content_type="text/plain"))[0] == 415
        assert patch(gw, body, b"{").status == 400
        assert stable(gw.rules()[0]) == before


def test_endpoints_are_attached_and_detached_and_the_others_keep_their_identity(tmp_path):
    with Gateway(tmp_path) as gw:
        vip = gw.vip()
        first = gw.create(rule(vip, ["127.0.7.1:1", "127.0.7.2:1"], name="pool", sel=4))

        def oper(number, *addresses, **more):
            return post(gw, rule(vip, addresses, **{"sel": 4, "oper": number, **more}))

        assert oper(1, "127.0.7.0:1").status == 200
        grown = gw.rules()[0]
        assert [e["ep_idx"] for e in grown["endpoints"]] == [0, 1, 2]
        assert identity(grown)[2][:2] == identity(first)[2]
        assert grown["serviceArguments"]["name"] == "pool"
        assert "oper" not in grown["serviceArguments"]
        assert oper(2, "127.0.7.1:1", "127.0.7.2:1").status == 200
        assert [e["ep_idx"] for e in gw.rules()[0]["endpoints"]] == [2]
        assert oper(1, "127.0.7.1:1").status == 200
        assert [e["ep_idx"] for e in gw.rules()[0]["endpoints"]] == [2, 3]  # never used again
        before = stable(gw.rules()[0])
        assert refused(oper(2, "127.0.7.9:1")) == (404, "no_endpoint", "endpoints")
        assert refused(oper(2, "127.0.7.0:1", "127.0.7.1:1")) == (400, "endpoints_range",
                                                                  "endpoints")
        assert refused(oper(1, "127.0.7.4:1", name="x")) == (400, "oper_conflict", "name")
        assert refused(oper(1, "127.0.7.4:1", model_name="none")) == (404, "no_rule", "")
        assert stable(gw.rules()[0]) == before


@pytest.fixture
def key_file(tmp_path):
    path = str(tmp_path / "engine.key")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
        f.write("sk-engine\n")
    return path


def test_a_key_file_is_kept_and_shown_nowhere(tmp_path, key_file):
    with Gateway(tmp_path) as gw:
        body = rule(gw.vip(), ["127.0.7.1:1"], backend_auth_file=key_file)
        assert post(gw, body).status == 200
        entry = gw.rules()[0]
        text = json.dumps(entry) + gw.log()
        assert key_file not in text and "sk-engine" not in text
        assert entry["serviceArguments"]["backend_auth_file"] == "***"
        assert patch(gw, body, entry).status == 200
        assert refused(post(gw, rule(gw.vip(), ["127.0.7.1:1"], backend_auth_file="***"))) == (
            400, "auth_file_hidden", "backend_auth_file")
        os.chmod(key_file, 0o644)
        assert refused(post(gw, rule(gw.vip(), ["127.0.7.1:1"], backend_auth_file=key_file))) == (
            400, "auth_file_unusable", "backend_auth_file")
        assert len(gw.rules()) == 1
