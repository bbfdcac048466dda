"""Start, check and reload: what the configuration says, and when it comes into force."""

import re
import signal
import socket
import subprocess
import threading

import pytest
from gateway import API, Gateway, complete, free_port, rule
from harness import RawClient, binary, exchange, start_sim, wait_until
from test_access import ADMIN
from test_node import TINY

BODY = b'{"model":"tiny","prompt":"one two","max_tokens":200,"ignore_eos":true}'
ENDLESS = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
           b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY))
SIGTERM_END = -signal.SIGTERM


class Configured(Gateway):
    """A gateway that reads a file."""

    def __init__(self, folder, text="", flags=()):
        self.conf = folder / "sluice.conf"
        self.conf.write_text(text)
        super().__init__(folder, flags=["--config", str(self.conf), *flags])

    def outcomes(self):
        return (self.metric("sluice_config_reloads_total", result="ok"),
                self.metric("sluice_config_reloads_total", result="refused"))

    def reload(self, text=None):
        """(taken, refused) grew by."""
        if text is not None:
            self.conf.write_text(text)
        before = self.outcomes()
        self.child.send_signal(signal.SIGHUP)
        wait_until(lambda: self.outcomes() != before, 10, "reload")
        after = self.outcomes()
        return after[0] - before[0], after[1] - before[1]


def check(*flags):
    done = subprocess.run([binary("sluiced"), "--check", *map(str, flags)], capture_output=True,
                          text=True, timeout=30, check=False)
    return done.returncode, done.stdout + done.stderr


def test_good_bad_good_works_and_the_bad_one_changes_nothing(tmp_path):
    with Configured(tmp_path, "[log]\nlevel = info\n") as gw:
        assert gw.reload("[log]\nlevel = warn\n") == (1, 0)
        assert gw.get("/config/params").json()["effective"] == "warn"
        assert gw.reload("[log]\nlevel = debug\n[data]\nworkers = many\n") == (0, 1)
        assert gw.get("/config/params").json()["effective"] == "warn"
        assert "sluice.conf:4: [data] workers" in gw.log() and "0..256" in gw.log()
        # The same good text as before, and a new one.
        assert gw.reload("[log]\nlevel = warn\n") == (1, 0)
        assert gw.reload("[log]\nlevel = info\n") == (1, 0)
        assert gw.get("/config/params").json()["effective"] == "info"
        gw.conf.unlink()
        assert gw.reload() == (0, 1)
        assert gw.reload("") == (1, 0)
        reloads = gw.get("/diagnostics").json()["daemon"]["reloads"]
        assert reloads == {"taken": 4, "refused": 2, "last_refusal": ""}


def test_tokens_are_read_anew_and_a_broken_file_keeps_the_old_ones(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("ann admin admin-token\n")
    tokens.chmod(0o600)
    new = [("Authorization", "Bearer other-token")]
    with Configured(tmp_path, f"[api]\ntoken_file = {tokens}\n") as gw:
        def status(headers):
            return exchange(gw.api, "GET", f"{API}/status/plugins", headers=headers).status
        tokens.write_text("ann admin other-token\nbob nobody x\n")
        assert gw.reload() == (0, 1)
        assert "line 2" in gw.log()
        assert (status(ADMIN), status(new)) == (200, 401)
        tokens.chmod(0o644)
        assert gw.reload() == (0, 1)
        tokens.chmod(0o600)
        tokens.write_text("ann admin other-token\n")
        assert gw.reload() == (1, 0)
        assert (status(ADMIN), status(new)) == (401, 200)
        assert "other-token" not in gw.log() and "admin-token" not in gw.log()


def test_defaults_of_rules_reach_rules_in_force(tmp_path):
    with Configured(tmp_path, "[rules]\nkvMinMatchTokens = 20\n") as gw:
        silent = rule(gw.vip(), ["127.0.7.1:1"])
        says = rule(gw.vip(), ["127.0.7.1:1"], kvMinMatchTokens=5)
        before = gw.create(silent)
        gw.create(says)
        assert before["effective"]["kvMinMatchTokens"] == 20
        assert gw.reload("[rules]\nkvMinMatchTokens = 30\n") == (1, 0)
        after = gw.find(silent)
        assert after["effective"]["kvMinMatchTokens"] == 30
        assert (after["id"], after["generation"]) == (before["id"], before["generation"])
        assert gw.find(says)["effective"]["kvMinMatchTokens"] == 5
        assert gw.reload("[rules]\nkvMinMatchTokens = 5000\n") == (0, 1)
        assert gw.find(silent)["effective"]["kvMinMatchTokens"] == 30


def test_a_changed_setting_that_needs_a_restart_is_named(tmp_path):
    with Configured(tmp_path, "[tokenizers]\npath = " + str(tmp_path) + "\n") as gw:
        assert gw.reload("[tokenizers]\npath = /elsewhere\n[data]\nio = epoll\n") == (1, 0)
        named = [line for line in gw.log().splitlines() if "needs a restart" in line]
        assert len(named) == 2
        assert "[tokenizers] path" in named[0] and "/elsewhere" in named[0]
        assert "[data] io" in named[1]


def test_openness_of_metrics_and_origins_come_with_a_reload(tmp_path):
    page = [("Origin", "http://127.0.0.1:3000")]
    with Configured(tmp_path) as gw:
        def off():
            return exchange(gw.api, "GET", "/metrics").status == 503

        def allowed():
            reply = exchange(gw.api, "GET", f"{API}/version", headers=page)
            return reply.header("Access-Control-Allow-Origin")
        assert not off() and allowed() is None
        gw.conf.write_text("[api]\nmetrics = off\ncors_origins = http://127.0.0.1:3000\n")
        gw.child.send_signal(signal.SIGHUP)
        wait_until(off, 10, "metrics off")
        assert allowed() == "http://127.0.0.1:3000"
        gw.conf.write_text("")
        gw.child.send_signal(signal.SIGHUP)
        wait_until(lambda: not off(), 10, "metrics on")
        assert allowed() is None


def test_ten_reloads_disturb_no_stream_and_no_probe(tmp_path):
    with start_sim(*TINY, "--decode-us-per-token", 20000) as engine, Configured(tmp_path) as gw:
        vip = gw.vip()
        body = rule(vip, [engine.address], monitor=True, probetype="http", probereq="/health",
                    probeport=int(engine.address.rsplit(":", 1)[1]),
                    probeTimeout=1, probeRetries=1)
        gw.create(body)
        ask = {"max_tokens": 60, "ignore_eos": True, "seed": 3}
        quiet = complete(vip, "the same words", **ask).json()["choices"][0]["text"]
        texts = []
        streams = [threading.Thread(target=lambda: texts.append(
            complete(vip, "the same words", **ask).json()["choices"][0]["text"])) for _ in range(4)]
        for s in streams:
            s.start()
        wait_until(lambda: gw.get("/maintenance").json()["in_flight_requests"] == 4, 10, "streams")
        for i in range(10):
            assert gw.reload(f"[rules]\nkvMinMatchTokens = {20 + i}\n") == (1, 0)
        for s in streams:
            s.join(60)
        assert texts == [quiet] * 4
        assert gw.find(body)["effective"]["kvMinMatchTokens"] == 29
        # Probes still go: an engine that dies is noticed.
        engine.kill()
        wait_until(lambda: gw.find(body)["endpoints"][0]["state"] == "inactive", 20, "probe")


def test_a_second_sigterm_ends_at_once(tmp_path):
    with start_sim(*TINY, "--max-model-len", 512, "--decode-us-per-token", 200000) as engine:
        gw = Gateway(tmp_path, flags=["--drain-timeout", "600"])
        vip = gw.vip()
        gw.create(rule(vip, [engine.address]))
        with RawClient(vip) as client:
            client.send(ENDLESS)
            wait_until(lambda: gw.get("/maintenance").json()["in_flight_requests"] == 1, 10, "run")
            gw.child.send_signal(signal.SIGTERM)
            wait_until(lambda: "stopping" in gw.log(), 10, "drain begins")
            assert gw.child.poll() is None
            assert gw.get("/status/ready").json()["ready"] is False
            gw.child.send_signal(signal.SIGTERM)
            assert gw.child.wait(10) == SIGTERM_END
        gw.log_file.close()
        # What was acknowledged is there.
        gw.start()
        assert len(gw.rules()) == 1
        assert gw.stop() == 0


@pytest.mark.parametrize("flags, says", [
    (["--api-listen", "0.0.0.0:1"], "[api] token_file"),
    (["--api-listen", "192.0.2.1:1"], "[api] listen"),
    (["--tokenizers", "/no/such"], "[tokenizers] path"),
    (["--plugins", "/no/such"], "[plugins] path"),
    (["--state", "/no/such/s.db"], "[state] path"),
    (["--workers", "257"], "0..256"),
    (["--rule-default", "kvLbMode=fast"], "kvLbMode"),
    (["--config", "/no/such"], "/no/such"),
    (["--nothing"], "nothing"),
])
def test_a_check_and_a_start_agree_on_what_is_wrong(tmp_path, flags, says):
    state = ["--state", str(tmp_path / "s.db")]
    code, said = check(*state, *flags)
    assert code == 2 and says in said
    done = subprocess.run([binary("sluiced"), "--api-listen", f"127.0.0.1:{free_port()}", *state,
                           *flags], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode in (1, 2) and says in done.stderr
    assert not (tmp_path / "s.db").exists()


def test_a_good_check_touches_nothing_and_works_beside_a_running_gateway(tmp_path):
    with Gateway(tmp_path) as gw:
        code, said = check("--state", tmp_path / "sluice.db", "--api-listen", gw.api)
        assert (code, said) == (0, "configuration is good\n")
        assert gw.get("/version").status == 200
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert check("--state", tmp_path / "sluice.db")[0] == 0
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def as_host(gw, host):
    with RawClient(gw.api) as client:
        client.send(f"GET {API}/version HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return client.read_reply().status


def workers_of(gw):
    return gw.get("/diagnostics").json()["daemon"]["workers"]


# What each setting changes: two values, how to look, and what is seen.
OBSERVED = {
    "workers": [("1", workers_of, 1), ("3", workers_of, 3)],
    "log-level": [("error", lambda gw: "ready" in gw.log(), False),
                  ("info", lambda gw: "ready" in gw.log(), True)],
    "api-metrics": [("open", lambda gw: gw.get("/metrics").status, 200),
                    ("off", lambda gw: gw.get("/metrics").status, 503)],
    "api-names": [("gw.example", lambda gw: as_host(gw, "gw.example"), 200),
                  ("other.example", lambda gw: as_host(gw, "gw.example"), 421)],
    "api-cors-origins": [
        (origin, lambda gw: gw.get("/config/cors").json()["cors"], [origin])
        for origin in ("http://a.example", "https://b.example:8443")],
    "rule-default": [
        (f"kvMaxBlocks={n}", lambda gw: gw.create(rule(gw.vip(), ["127.0.7.1:1"]))["effective"]
         ["kvMaxBlocks"], n) for n in (7000, 8000)],
}
# Those whose effect has a test of its own, and where.
ELSEWHERE = {
    "api-listen": "every test", "state": "every test with a restart",
    "api-token-file": "test_access", "tokenizers": "path and clients: prompts are tokenized",
    "config": "this file", "check": "this file", "drain-timeout": "this file",
    "max-prefill-reply": "pd: a reply longer than is kept is not handed on",
    "plugins": "this file", "io": "this file", "version": "this file", "help": "this file",
}


@pytest.mark.parametrize("flag, value, observe, want",
                         [(flag, *row) for flag, rows in OBSERVED.items() for row in rows])
def test_a_setting_changes_what_can_be_seen(tmp_path, flag, value, observe, want):
    with Gateway(tmp_path, flags=[f"--{flag}", value]) as gw:
        assert observe(gw) == want


def test_every_flag_of_the_help_has_its_effect_tested():
    said = subprocess.run([binary("sluiced"), "--help"], capture_output=True, text=True, timeout=30,
                          check=True).stdout
    assert set(re.findall(r"--([a-z-]+)", said)) == set(OBSERVED) | set(ELSEWHERE)
    version = subprocess.run([binary("sluiced"), "--version"], capture_output=True, text=True,
                             timeout=30, check=True).stdout
    assert re.fullmatch(r"sluiced \d+\.\d+\.\d+\n", version)


def test_plugins_are_looked_for_in_the_folders_that_are_named(tmp_path):
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "broken.so").write_bytes(b"not a plugin")

    def found(gw):
        return [f for f in gw.get("/status/plugins").json()["plugins"] if "broken.so" in f["path"]]
    with Gateway(tmp_path) as gw:
        assert found(gw) == []
    with Gateway(tmp_path, flags=["--plugins", str(folder)]) as gw:
        assert found(gw) and found(gw)[0]["state"] != "loaded"


def test_a_back_end_that_is_not_there_is_refused_with_what_is():
    code, said = check("--io", "uring")
    assert code == 2 and "auto, epoll" in said
    assert check("--io", "select")[0] == 2


def test_the_drain_time_out_bounds_the_stop(tmp_path):
    with start_sim(*TINY, "--max-model-len", 512, "--decode-us-per-token", 200000) as engine:
        gw = Gateway(tmp_path, flags=["--drain-timeout", "0"])
        vip = gw.vip()
        gw.create(rule(vip, [engine.address]))
        with RawClient(vip) as client:
            client.send(ENDLESS)
            wait_until(lambda: gw.get("/maintenance").json()["in_flight_requests"] == 1, 10, "run")
            assert gw.stop(20) == 0


def test_an_address_in_use_is_named(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run([binary("sluiced"), "--api-listen", address, "--state",
                               str(tmp_path / "s.db")], capture_output=True, text=True, timeout=30,
                              check=False)
        assert done.returncode == 1 and address in done.stderr
