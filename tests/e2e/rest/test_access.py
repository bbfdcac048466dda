"""Who may ask the running gateway, and what the interface says about itself."""

import os

from gateway import API, Gateway, free_port, rule
from harness import RawClient, exchange
from test_rules import LB, post, start_only

ADMIN = [("Authorization", "Bearer admin-token")]
VIEWER = [("Authorization", "Bearer viewer-token")]


class Guarded(Gateway):
    """A gateway with an admin and a viewer."""

    def __init__(self, folder, flags=()):
        tokens = os.path.join(folder, "tokens")
        with open(os.open(tokens, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write("# people\nann admin admin-token\nbob viewer viewer-token\n")
        super().__init__(folder, flags=["--api-token-file", tokens, *flags])


def test_roles(tmp_path):
    with Guarded(tmp_path) as gw:
        body = rule(gw.vip(), ["127.0.7.1:1"])
        ready = f"{API}/status/plugins"
        assert exchange(gw.api, "GET", ready).status == 401
        assert exchange(gw.api, "GET", ready, headers=VIEWER).status == 200
        assert exchange(gw.api, "GET", ready, headers=ADMIN).status == 200
        assert post(gw, body).status == 401
        denied = post(gw, body, VIEWER)
        assert denied.status == 403 and denied.json()["code"] == "forbidden"
        assert post(gw, body, ADMIN).status == 200
        assert exchange(gw.api, "DELETE", f"{LB}/all", headers=VIEWER).status == 403
        listed = exchange(gw.api, "GET", f"{LB}/all", headers=VIEWER).json()
        assert len(listed["lbAttr"]) == 1
        # Open to everyone: the version and the scrape.
        assert exchange(gw.api, "GET", f"{API}/version").status == 200
        assert exchange(gw.api, "GET", "/metrics").status == 200


def test_guessing_is_limited_and_counted(tmp_path):
    with Guarded(tmp_path) as gw:
        wrong = [("Authorization", "Bearer guess")]
        answers = [exchange(gw.api, "GET", f"{API}/status/plugins", headers=wrong).status
                   for _ in range(15)]
        assert answers[:10] == [401] * 10
        assert answers.count(429) >= 3
        limited = exchange(gw.api, "GET", f"{API}/status/plugins", headers=wrong)
        if limited.status == 429:
            assert int(limited.header("Retry-After")) > 0
        assert gw.metric("sluice_api_auth_failures_total", reason="unknown") >= 10
        assert gw.metric("sluice_api_auth_failures_total", reason="limited") >= 3
        assert "admin-token" not in gw.log() and "guess" not in gw.log()


def test_off_loopback_or_with_an_open_token_file_it_does_not_start(tmp_path):
    code, said = start_only(tmp_path, api=f"0.0.0.0:{free_port()}")
    assert code != 0 and "token file" in said
    tokens = tmp_path / "tokens"
    tokens.write_text("ann admin t\n")
    tokens.chmod(0o644)
    code, said = start_only(tmp_path, "--api-token-file", str(tokens))
    assert code != 0 and "0600" in said


def test_routes_it_does_not_have_say_so(tmp_path):
    with Gateway(tmp_path) as gw:
        assert gw.get("/nowhere").status == 404
        absent = gw.get("/logs")
        assert absent.status == 501 and absent.json()["message"]
        wrong = exchange(gw.api, "PUT", LB, {})
        assert wrong.status == 405 and wrong.header("Allow") == "POST"
        assert exchange(gw.api, "OPTIONS", LB).header("Access-Control-Allow-Origin") is None
        crossed = post(gw, rule(gw.vip(), ["127.0.7.1:1"]), [("Origin", "http://page.example")])
        assert crossed.status == 403 and gw.rules() == []


def test_the_plugins_that_are_loaded_are_listed(tmp_path):
    with Gateway(tmp_path) as gw:
        listed = gw.get("/status/plugins").json()["plugins"]
        aliases = {p["alias"] for f in listed for p in f["plugins"]}
        assert {"vllm", "rr", "lc", "wrr"} <= aliases


def test_the_metrics_switch_survives_a_restart(tmp_path):
    with Gateway(tmp_path) as gw:
        gw.create(rule(gw.vip(), ["127.0.7.1:1"]))
        assert gw.metric("loxilb_persist_total", result="ok") == 1
        assert exchange(gw.api, "DELETE", f"{API}/config/metrics").status == 200
        off = gw.get("/metrics")
        assert off.status == 503 and off.body == b"Prometheus option is disabled."
        gw.kill()
        gw.start()
        assert gw.get("/config/metrics").json() == {"prometheus": False}
        assert exchange(gw.api, "GET", "/metrics").status == 503
        assert exchange(gw.api, "POST", f"{API}/config/metrics").json() == {"result": "Success"}
        assert gw.get("/metrics").status == 200


def test_slow_and_broken_clients_do_not_stop_the_interface(tmp_path):
    with Gateway(tmp_path) as gw:
        slow = [RawClient(gw.api) for _ in range(6)]
        for i, client in enumerate(slow):
            client.send(b"GET /netlox/v1/version HTTP/1.1\r\nX: " + b"a" * i)
        for broken in (b"\x00\xff" * 100, b"GET\r\n\r\n", b"A" * 70000):
            with RawClient(gw.api) as client:
                try:
                    client.send(broken)
                    client.read_reply()
                except OSError:
                    pass  # closed on us
        assert gw.get("/version").status == 200
        for client in slow:
            client.close()
