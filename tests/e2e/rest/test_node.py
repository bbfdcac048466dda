"""Routes about the running gateway as a whole: readiness, maintenance, switches, what it says of itself."""

import os
import socket
import threading

import pytest
from gateway import API, Gateway, complete, rule
from harness import MINI_TOKENIZER, RawClient, exchange, start_sim, wait_until
from test_access import ADMIN, VIEWER, Guarded
from test_rules import LB, post

TINY = ("--model", MINI_TOKENIZER, "--served-model-name", "tiny")


def put(gw, path, body, headers=()):
    return exchange(gw.api, "PUT", API + path, body, headers)


def test_readiness_needs_no_token_and_tells_its_details_only_with_one(tmp_path):
    with Guarded(tmp_path) as gw:
        path = f"{API}/status/ready"
        assert exchange(gw.api, "GET", path).json() == {"ready": True, "reasons": []}
        assert "boot" in exchange(gw.api, "GET", path, headers=VIEWER).json()
        assert put(gw, "/maintenance", {"enabled": True}, ADMIN).status == 200
        anonymous = exchange(gw.api, "GET", path)
        assert anonymous.status == 503
        assert anonymous.json() == {"ready": False, "reasons": ["maintenance"]}


def test_in_maintenance_running_requests_finish_and_new_ones_hear_why(tmp_path):
    with start_sim(*TINY, "--decode-us-per-token", 20000) as engine, Gateway(tmp_path) as gw:
        vip = gw.vip()
        gw.create(rule(vip, [engine.address]))
        ask = {"max_tokens": 60, "ignore_eos": True, "seed": 3}
        whole = complete(vip, "one two three", **ask).json()["choices"][0]["text"]
        answers = []
        runner = threading.Thread(
            target=lambda: answers.append(complete(vip, "one two three", **ask)))
        runner.start()
        wait_until(lambda: gw.get("/maintenance").json()["in_flight_requests"] == 1, 10, "in flight")
        status = put(gw, "/maintenance", {"enabled": True, "drain_timeout_seconds": 60}).json()
        assert status["state"] == "maintenance" and status["refusing_new_inference"]
        refused = complete(vip, "four")
        assert refused.status == 503 and refused.json()["error"]["code"] == "maintenance"
        assert int(refused.header("Retry-After")) > 0
        runner.join(30)
        assert answers[0].status == 200
        assert answers[0].json()["choices"][0]["text"] == whole
        assert gw.get("/maintenance").json()["in_flight_requests"] == 0

        # Changes wait, too; what changes nothing does not.
        frozen = post(gw, rule(gw.vip(), ["127.0.7.1:1"]))
        assert frozen.status == 503 and frozen.json()["code"] == "maintenance"
        assert len(gw.rules()) == 1

        # It survives a crash, and not one request gets in at the start.
        gw.kill()
        gw.start()
        assert complete(vip, "four").status == 503
        assert gw.get("/status/ready").status == 503
        for _ in range(2):
            assert put(gw, "/maintenance", {"enabled": False}).json()["state"] == "active"
        assert complete(vip, "four").status == 200
        assert gw.get("/status/ready").status == 200


def test_the_log_level_is_switched_at_once_and_survives(tmp_path):
    with Gateway(tmp_path) as gw:
        def level():
            return gw.get("/config/params").json()
        assert level() == {"logLevel": "info", "effective": "info"}

        def switch(word):
            return exchange(gw.api, "POST", f"{API}/config/params", {"logLevel": word}).status

        def log_of_a_change():
            before = len(gw.log())
            for on in (True, False):
                assert put(gw, "/maintenance", {"enabled": on}).status == 200
            return gw.log()[before:]
        assert "maintenance begins" in log_of_a_change()
        assert switch("critical") == 200
        assert log_of_a_change() == ""
        gw.kill()
        gw.start()
        assert level() == {"logLevel": "critical", "effective": "error"}
        assert log_of_a_change() == ""
        bad = exchange(gw.api, "POST", f"{API}/config/params", {"logLevel": "loud"})
        assert bad.status == 422 and "critical" in bad.json()["allowed"]
        # The configuration says another level than it did when the switch was set: it is newer.
        gw.stop()
        gw.flags += ["--log-level", "warn"]
        gw.start()
        assert level() == {"logLevel": "warning", "effective": "warn"}


def test_it_tells_of_its_process_machine_and_disk(tmp_path):
    with Gateway(tmp_path) as gw:
        process = gw.get("/status/process").json()["processAttr"]
        assert [p["pid"] for p in process] == [str(gw.child.pid)]
        assert process[0]["command"] == "sluiced" and process[0]["threads"] > 2
        assert gw.get("/status/device").json()["hostName"] == socket.gethostname()
        disk = gw.get("/status/filesystem").json()["filesystemAttr"][0]
        stat = os.statvfs(tmp_path)
        assert disk["size_bytes"] == stat.f_blocks * stat.f_frsize
        names = {c["name"]: c for c in gw.get("/status/capabilities").json()["capabilities"]}
        assert names["kv_exact_vllm"]["ready"] and names["engine_vllm"]["ready"]
        assert names["http2"] == {"name": "http2", "ready": False, "code": "NOT_BUILT"}


def test_diagnostics_hold_settings_rules_and_plugins_and_no_secret(tmp_path):
    with Guarded(tmp_path) as gw:
        secret = tmp_path / "engine-key"
        secret.write_text("sk-very-secret\n")
        secret.chmod(0o600)
        body = rule(gw.vip(), ["127.0.7.1:1"], backend_auth_file=str(secret))
        assert post(gw, body, ADMIN).status == 200
        reply = exchange(gw.api, "GET", f"{API}/diagnostics", headers=ADMIN)
        report = reply.json()
        assert report["rules"] == 1 and report["plugins"]
        assert report["daemon"]["settings"]["[data] workers"] == "2"
        assert len(report["daemon"]["listeners"]) == 1
        text = reply.body.decode()
        for word in ("admin-token", "viewer-token", "sk-very-secret"):
            assert word not in text and word not in gw.log()
        assert exchange(gw.api, "GET", f"{API}/diagnostics", headers=VIEWER).status == 403


def test_worker_reports_are_taken_while_it_is_on_and_the_switch_survives(tmp_path):
    with Gateway(tmp_path) as gw:
        def push(**fields):
            return exchange(gw.api, "POST", f"{API}/config/worker/metrics", {
                "endpoint_ip": "127.0.7.1:8000", "queued_requests": 2, "kv_cache_usage_perc": 50,
                **fields})
        assert push().status == 400
        assert exchange(gw.api, "POST", f"{API}/config/gpu/enable").json()["enabled"]
        assert exchange(gw.api, "POST", f"{API}/config/gpu/enable").status == 400
        assert push().json()["queued_requests"] == 2
        assert push(timestamp="2020-01-01T00:00:00Z").json()["code"] == "stale_timestamp"
        status = gw.get("/config/gpu/status").json()
        assert status["worker_count"] == 1 and status["last_metrics_update"]
        gw.kill()
        gw.start()
        listed = gw.get("/config/worker/metrics").json()
        assert listed == {"workers": [], "monitoring_enabled": True}
        assert exchange(gw.api, "POST", f"{API}/config/gpu/disable").json()["enabled"] is False


def test_a_page_of_a_configured_origin_may_use_the_interface(tmp_path):
    page = [("Origin", "http://127.0.0.1:3000")]
    ask = page + [("Access-Control-Request-Method", "PATCH")]
    with Gateway(tmp_path) as gw:
        assert exchange(gw.api, "OPTIONS", LB, headers=ask).status == 403
        assert exchange(gw.api, "POST", f"{API}/config/cors",
                        {"cors": ["http://127.0.0.1:3000"]}).status == 200
        gw.kill()
        gw.start()
        allowed = exchange(gw.api, "OPTIONS", LB, headers=ask)
        assert allowed.status == 204
        assert allowed.header("Access-Control-Allow-Origin") == "http://127.0.0.1:3000"
        assert "PATCH" in allowed.header("Access-Control-Allow-Methods")
        assert allowed.header("Access-Control-Allow-Credentials") is None
        assert post(gw, rule(gw.vip(), ["127.0.7.1:1"]), page).status == 200
        other = [("Origin", "http://127.0.0.1:3001")]
        assert post(gw, rule(gw.vip(), ["127.0.7.1:1"]), other).status == 403


def test_a_rebound_name_is_told_off_where_no_token_protects(tmp_path):
    with Gateway(tmp_path) as gw:
        for host, status in (("attacker.example", 421), (gw.api, 200), ("localhost", 200)):
            with RawClient(gw.api) as client:
                client.send(f"GET {LB}/all HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                assert client.read_reply().status == status


@pytest.mark.parametrize("how, anonymous, known", [("open", 200, 200), ("token", 401, 200),
                                                   ("off", 503, 503)])
def test_metrics_are_open_or_closed_as_configured(tmp_path, how, anonymous, known):
    with Guarded(tmp_path, flags=["--api-metrics", how]) as gw:
        for path in ("/metrics", f"{API}/metrics"):
            assert exchange(gw.api, "GET", path).status == anonymous
            assert exchange(gw.api, "GET", path, headers=VIEWER).status == known


def test_two_hundred_slow_clients_of_one_address_do_not_lock_out_others(tmp_path):
    with Gateway(tmp_path) as gw:
        host, port = gw.api.rsplit(":", 1)
        slow = []
        for _ in range(200):
            s = socket.create_connection((host, int(port)), 10)
            s.send(b"GET /netlox/v1/version HTTP/1.1\r\nX: ")
            slow.append(s)
        other = socket.create_connection((host, int(port)), 10, source_address=("127.0.0.2", 0))
        other.send(b"GET /netlox/v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert other.recv(64).startswith(b"HTTP/1.1 200")
        for s in slow:
            s.close()
        wait_until(lambda: gw.is_up(), 10, "places come back")
