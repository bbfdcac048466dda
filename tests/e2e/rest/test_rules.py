"""Rules over REST against the running gateway: what is taken, refused, kept."""

import itertools
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import threading

import pytest
from gateway import API, Gateway, free_port, rule
from harness import binary, exchange, wait_until

LB = f"{API}/config/loadbalancer"


def post(gw, body, headers=()):
    return exchange(gw.api, "POST", LB, body, headers)


def key_path(body):
    s = body["serviceArguments"]
    return f"{LB}/externalipaddress/{s['externalIP']}/port/{s['port']}/protocol/tcp"


def identity(entry):
    return (entry["id"], entry["number"],
            [(e["id"], e["ep_idx"], e["endpointIP"], e["targetPort"]) for e in entry["endpoints"]])


def stable(entry):
    """What must not change by itself: everything but live state."""
    kept = {k: entry[k] for k in ("id", "number", "generation", "serviceArguments", "effective")}
    return {**kept, "endpoints": identity(entry)[2]}


def start_only(folder, *flags, state="sluice.db", api=None):
    """Runs sluiced until it ends by itself: (exit code, what it said)."""
    done = subprocess.run(
        [binary("sluiced"), "--api-listen", api or f"127.0.0.1:{free_port()}", "--state",
         os.path.join(folder, state), *flags],
        capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stderr


def test_the_documented_rule_is_created_read_back_and_deleted(tmp_path):
    with Gateway(tmp_path) as gw:
        body = {"serviceArguments": {
            "externalIP": "127.0.0.1", "port": free_port(), "protocol": "tcp", "sel": 0, "mode": 4,
            "security": 0, "backend_protocol": "http1", "monitor": True, "probetype": "http",
            "probeport": 8000, "probereq": "/health", "probeTimeout": 5, "probeRetries": 2},
            "endpoints": [{"endpointIP": "127.0.7.1", "targetPort": 8000, "weight": 1},
                          {"endpointIP": "127.0.7.2", "targetPort": 8000, "weight": 1}]}
        reply = post(gw, body)
        assert reply.status == 200 and reply.json()["result"] == "Success"
        entry = gw.find(body)
        for name, value in body["serviceArguments"].items():
            assert entry["serviceArguments"][name] == value
        assert [e["endpointIP"] for e in entry["endpoints"]] == ["127.0.7.1", "127.0.7.2"]
        assert entry["number"] == 1 and entry["generation"] == 1
        assert entry["effective"]["kvZmqPort"] == 5557

        # Nobody listens there: the probe takes both out, and says why.
        def both_out():
            return all(e["state"] == "inactive" and e["inActiveEP"] and e["reason"]
                       for e in gw.find(body)["endpoints"])
        wait_until(both_out, 20, "both endpoints inactive")

        assert post(gw, body).status == 409
        assert exchange(gw.api, "DELETE", key_path(body)).status == 200
        assert gw.rules() == []
        assert exchange(gw.api, "DELETE", key_path(body)).status == 404


def test_a_rule_read_back_can_be_posted_to_another_gateway(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with Gateway(tmp_path / "a") as one, Gateway(tmp_path / "b") as two:
        body = rule(one.vip(), ["127.0.7.1:1", "[::1]:2"], name="moved", kvMinMatchTokens=3)
        entry = one.create(body)
        one.delete("/config/loadbalancer/all")
        assert post(two, entry).status == 200
        assert stable(two.find(body)) == stable(entry)


REFUSED = [
    ("{", 400, "malformed_json", ""),
    ("{}", 400, "required", "serviceArguments"),
    ({"mode": 0}, 400, "mode_not_supported", "mode"),
    ({"mode": None}, 422, "wrong_type", "mode"),
    ({"port": 70000}, 400, "serv_port_range", "port"),
    ({"externalIP": "localhost"}, 400, "malformed_service", "externalIP"),
    ({"sel": 8}, 400, "not_supported_yet", "sel"),
    ({"sel": 99}, 422, "out_of_range", "sel"),
    ({"colour": 1}, 400, "unknown_field", "colour"),
    ({"probeport": 5}, 400, "malformed_service_pport", "probeport"),
    ({"kvExactMode": 2}, 400, "kv_exact_mode_reserved", "kvExactMode"),
    ({"kvExactMode": 1}, 400, "kv_exact_mode_needs_pd", "kvExactMode"),
    ({"pd_disagg_mode": True}, 400, "pd_roles_required", "endpoints"),
    ({"breaker": {"failures": 6}}, 400, "breaker_needs_cb_enable", "breaker"),
    ({"cb_enable": True, "breaker": {"open_ms": 0}}, 422, "out_of_range", "breaker.open_ms"),
    ({"kvDpRankCount": 9}, 422, "out_of_range", "kvDpRankCount"),
    ({"engine": "nobody"}, 400, "engine_unknown", "engine"),
    ({"selector": "nobody"}, 400, "selector_unknown", "selector"),
    ({"inactiveTimeOut": 86401}, 400, "service_args", "inactiveTimeOut"),
]


def test_a_refusal_is_typed_and_changes_nothing(tmp_path):
    with Gateway(tmp_path) as gw:
        gw.create(rule(gw.vip(), ["127.0.7.1:1"], name="kept"))
        before = [stable(e) for e in gw.rules()]
        for change, status, code, field in REFUSED:
            if isinstance(change, str):
                body = change.encode()
            else:
                body = rule(gw.vip(), ["127.0.7.1:1"], **change)
            reply = post(gw, body)
            said = reply.json()
            assert (reply.status, said["code"], said["field"]) == (status, code, field), change
            assert said["message"] and said["result"] == said["message"]
            assert [stable(e) for e in gw.rules()] == before
        too_big = b"{" + b" " * (1 << 20) + b"}"
        assert post(gw, too_big).status == 413


def test_endpoints_keep_their_identity_over_edits_and_a_crash(tmp_path):
    with Gateway(tmp_path) as gw:
        vip = gw.vip()
        first = gw.create(rule(vip, ["127.0.7.1:1", "127.0.7.2:1"]))
        assert [(e["id"], e["ep_idx"]) for e in first["endpoints"]] == [(1, 0), (2, 1)]
        second = gw.create(rule(vip, ["127.0.7.0:1", "127.0.7.2:1"]))
        assert [(e["endpointIP"], e["id"], e["ep_idx"]) for e in second["endpoints"]] == [
            ("127.0.7.2", 2, 1), ("127.0.7.0", 3, 2)]
        assert (second["id"], second["number"]) == (first["id"], first["number"])
        assert second["generation"] == 2
        gw.kill()
        gw.start()
        assert stable(gw.rules()[0]) == stable(second)
        third = gw.create(rule(vip, ["127.0.7.1:1", "127.0.7.2:1"]))
        assert [(e["endpointIP"], e["id"], e["ep_idx"]) for e in third["endpoints"]] == [
            ("127.0.7.2", 2, 1), ("127.0.7.1", 4, 3)]


def test_numbers_are_not_used_again(tmp_path):
    with Gateway(tmp_path) as gw:
        assert gw.create(rule(gw.vip(), ["127.0.7.1:1"]))["number"] == 1
        assert gw.delete("/config/loadbalancer/all").status == 200
        gw.stop()
        gw.start()
        assert gw.create(rule(gw.vip(), ["127.0.7.1:1"]))["number"] == 2


def test_kill_9_under_load_loses_nothing_acknowledged(tmp_path):
    with Gateway(tmp_path) as gw:
        ports = itertools.count()
        vip = gw.vip()
        acknowledged, asked_away, gone = set(), set(), set()
        rng = random.Random(20250131)
        for _ in range(4):
            stop = threading.Event()

            def write():
                while not stop.is_set():
                    name = f"m{next(ports)}"
                    try:
                        if post(gw, rule(vip, ["127.0.7.1:1"], model_name=name)).status != 200:
                            return
                        acknowledged.add(name)
                        if int(name[1:]) % 3 == 0:
                            path = key_path(rule(vip, [])) + f"?model_name={name}"
                            asked_away.add(name)  # from here on either is right ...
                            if exchange(gw.api, "DELETE", path).status == 200:
                                gone.add(name)  # ... and from here on it is not there
                    except (OSError, AttributeError):
                        return  # the gateway is gone; whether this one was stored is open

            writers = [threading.Thread(target=write) for _ in range(3)]
            goal = len(acknowledged) + rng.randint(1, 12)
            for w in writers:
                w.start()
            wait_until(lambda: len(acknowledged) >= goal, 30, "acknowledged writes")
            gw.child.send_signal(signal.SIGKILL)
            gw.kill()
            stop.set()
            for w in writers:
                w.join(20)
            gw.start()
            found = {e["serviceArguments"]["model_name"] for e in gw.rules()}
            assert acknowledged - asked_away <= found
            assert not gone & found
            numbers = [e["number"] for e in gw.rules()]
            assert len(set(numbers)) == len(numbers)


def test_an_address_in_use_is_409_and_nothing_is_stored(tmp_path):
    with Gateway(tmp_path) as gw, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        vip = f"127.0.0.1:{taken.getsockname()[1]}"
        reply = post(gw, rule(vip, ["127.0.7.1:1"]))
        assert reply.status == 409 and reply.json()["code"] == "listener_unavailable"
        assert gw.rules() == []
        assert gw.get("/status/ready").status == 200


def test_at_a_start_an_address_in_use_keeps_the_rule_and_readiness_names_it(tmp_path):
    with Gateway(tmp_path) as gw:
        vip = gw.vip()
        entry = gw.create(rule(vip, ["127.0.7.1:1"]))
        gw.stop()
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", int(vip.rsplit(":", 1)[1])))
            taken.listen()
            gw.start()
            reply = gw.get("/status/ready")
            assert reply.status == 503
            assert any(vip in reason for reason in reply.json()["reasons"])
            assert stable(gw.rules()[0]) == stable(entry)
        wait_until(lambda: gw.get("/status/ready").status == 200, 15, "listener retried")
        assert "listener bound at last" in gw.log()


def test_a_rule_whose_address_is_missing_can_be_edited_and_its_warning_ends(tmp_path):
    with Gateway(tmp_path) as gw:
        vip = gw.vip()
        body = rule(vip, ["127.0.7.1:1"])
        gw.create(body)
        gw.stop()
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", int(vip.rsplit(":", 1)[1])))
            taken.listen()
            gw.start()
            reply = exchange(gw.api, "PATCH", key_path(body), {"serviceArguments": {"name": "n"}})
            assert reply.status == 200
            assert [w["code"] for w in reply.json()["warnings"]] == ["listener_unavailable"]
            assert post(gw, rule(vip, ["127.0.7.1:1"], probeRetries=9)).status == 200
            assert [w["code"] for w in gw.rules()[0]["warnings"]] == ["listener_unavailable"]
            # A rule that is not there yet is another matter.
            other = post(gw, rule(vip, ["127.0.7.1:1"], model_name="m"))
            assert (other.status, other.json()["code"]) == (409, "listener_unavailable")
            assert len(gw.rules()) == 1
        wait_until(lambda: gw.get("/status/ready").status == 200, 15, "listener retried")
        assert gw.rules()[0]["warnings"] == []


def test_a_damaged_database_is_set_aside_and_said(tmp_path):
    gw = Gateway(tmp_path)
    with gw:
        gw.create(rule(gw.vip(), ["127.0.7.1:1"]))
        gw.stop()
        path = tmp_path / "sluice.db"
        spoiled = bytearray(path.read_bytes())
        spoiled[4096:8192] = b"\x7f" * 4096
        path.write_bytes(spoiled)
        gw.start()
        boot = gw.get("/status/ready").json()["boot"]
        assert boot["degraded"] and boot["quarantine_path"]
        assert open(boot["quarantine_path"], "rb").read() == bytes(spoiled)
        assert gw.rules() == []
        assert "set aside" in gw.log()
        gw.create(rule(gw.vip(), ["127.0.7.1:1"]))


def test_a_database_of_a_newer_version_stops_the_start_and_is_left_alone(tmp_path):
    with Gateway(tmp_path) as gw:
        gw.create(rule(gw.vip(), ["127.0.7.1:1"]))
    path = tmp_path / "sluice.db"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    before = path.read_bytes()
    code, said = start_only(tmp_path)
    assert code != 0 and "newer" in said
    assert path.read_bytes() == before


def test_a_second_gateway_on_one_database_is_refused(tmp_path):
    with Gateway(tmp_path) as gw:
        code, said = start_only(tmp_path)
        assert code != 0 and "another process" in said
        gw.create(rule(gw.vip(), ["127.0.7.1:1"]))


def test_a_missing_folder_is_named(tmp_path):
    code, said = start_only(tmp_path, state="missing/s.db")
    assert code != 0 and "no such folder" in said


def test_the_audit_trail_has_every_change_and_no_refusal(tmp_path):
    with Gateway(tmp_path) as gw:
        vip = gw.vip()
        gw.create(rule(vip, ["127.0.7.1:1"]))
        gw.create(rule(vip, ["127.0.7.2:1"]))
        assert post(gw, rule(vip, ["127.0.7.2:1"], mode=1)).status == 400
        assert gw.delete("/config/loadbalancer/all").status == 200
        gw.stop()
        db = sqlite3.connect(tmp_path / "sluice.db")
        rows = db.execute("SELECT action, origin, before, after FROM audit ORDER BY seq").fetchall()
        db.close()
        assert [r[0] for r in rows] == ["rule.create", "rule.replace", "rule.delete"]
        assert {r[1] for r in rows} == {"127.0.0.1"}
        assert json.loads(rows[1][2])["endpoints"][0]["endpointIP"] == "127.0.7.1"
        assert json.loads(rows[1][3])["endpoints"][0]["endpointIP"] == "127.0.7.2"
        assert rows[0][2] == "" and rows[2][3] == ""
        gw.start()


@pytest.mark.parametrize("variable, value, field, effective", [
    ("LLB_KV_MIN_MATCH_TOKENS", "64", "kvMinMatchTokens", 64),
    ("LOXILB_KV_LB_MODE", "off", "kvLbMode", "off"),
    ("LOXILB_KV_MEAN_LOAD_FACTOR", "300", "kvMeanLoadFactor", 300),
    ("LOXILB_KV_MAX_BLOCKS", "5000", "kvMaxBlocks", 5000),
])
def test_a_process_default_is_in_force_and_shown(tmp_path, monkeypatch, variable, value, field,
                                                 effective):
    monkeypatch.setenv(variable, value)
    with Gateway(tmp_path) as gw:
        entry = gw.create(rule(gw.vip(), ["127.0.7.1:1"]))
        assert entry["effective"][field] == effective
        assert field not in entry["serviceArguments"]


def test_a_process_default_out_of_range_stops_the_start(tmp_path, monkeypatch):
    monkeypatch.setenv("LLB_KV_MIN_MATCH_TOKENS", "many")
    code, said = start_only(tmp_path)
    assert code != 0 and "LLB_KV_MIN_MATCH_TOKENS" in said
