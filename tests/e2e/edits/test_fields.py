"""Rule fields at work on the data plane, each switched on a live rule."""

import json
import os
import threading

import pytest

from conftest import edited
from gateway import API, complete, rule, split_address
from harness import RawClient, exchange, request_bytes, wait_until


def error_of(reply):
    return reply.status, reply.json()["error"]["code"]


def stream(client, tokens=200, request_id="it"):
    client.send(request_bytes("POST", "/v1/chat/completions",
                              {"model": "tiny", "stream": True, "max_tokens": tokens,
                               "ignore_eos": True, "messages": [{"role": "user", "content": "go"}]},
                              [("X-Request-Id", request_id)]))


def patch(gateway, body, arguments):
    """A merge patch of the rule with this body."""
    ip, port = split_address(f'{body["serviceArguments"]["externalIP"]}:{body["serviceArguments"]["port"]}')
    reply = exchange(gateway.api, "PATCH",
                     f"{API}/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/tcp",
                     {"serviceArguments": arguments})
    assert reply.status == 200, reply.body


def test_a_rule_that_is_switched_off_refuses_and_keeps_everything(gateway, site, ends):
    one = site(1, "--decode-us-per-token", 15_000)
    vip = gateway.vip()
    body = one.rule(vip, [0], monitor=True, probetype="http", probereq="/health", probeTimeout=1,
                    probeport=one.http[0].port)
    gateway.create(body)
    gateway.wait_signal(body, ("ok", "quiet"))
    connects = one.connects(0)
    running = ends.enter_context(RawClient(vip, limit_s=60))
    stream(running, 120)
    assert running.read_until(b"data: ") is not None
    patch(gateway, body, {"adminStateUp": False})
    with RawClient(vip) as client:  # the listener is there, and stays
        for _ in range(2):
            client.send(request_bytes("POST", "/v1/completions", {"model": "tiny", "prompt": "x"},
                                      [("X-Request-Id", "off")]))
            reply = client.read_reply()
            assert error_of(reply) == (503, "rule_disabled")
            assert reply.header("retry-after")
    would = gateway.explain({"listener": vip, "body": {"model": "tiny", "prompt": "x"}}).json()
    assert (would["outcome"], would["error_code"]) == ("refused", "rule_disabled")
    receipt = gateway.receipt("off")
    assert (receipt["outcome"], receipt["error_code"]) == ("refused", "rule_disabled")
    assert one.connects(0) == connects
    probed = len([r for r in one.engines[0].requests() if r["target"] == "/health"])
    wait_until(lambda: len([r for r in one.engines[0].requests() if r["target"] == "/health"]) > probed,
               10, "probes go on")
    while b"0\r\n\r\n" not in running.buffer and running.read_more(20):
        pass
    assert b"data: [DONE]" in running.buffer
    patch(gateway, body, {"adminStateUp": True})
    assert complete(vip, "x").status == 200
    assert one.connects(0) == connects


@pytest.mark.parametrize("leave", ["finish", "close", "reset"])
def test_a_connection_limit_holds_over_all_workers_and_is_given_back_on_every_way_out(
        gateway, engines, leave):
    engine = engines(1, "--decode-us-per-token", 15_000)[0]
    vip = gateway.vip()
    body = rule(vip, [engine.address])
    gateway.create(body)
    clients = [RawClient(vip, limit_s=60) for _ in range(3)]
    for i, client in enumerate(clients[:2]):
        stream(client, 100 if leave == "finish" else 400, f"held-{i}")
        assert client.read_until(b"data: ") is not None
    # Set on a live rule, it counts what runs already.
    gateway.create(edited(body, connectionLimit=3))
    stream(clients[2], 100 if leave == "finish" else 400, "held-2")
    assert clients[2].read_until(b"data: ") is not None
    for i in range(8):  # on connections that land on either worker
        reply = complete(vip, "x", request_id=f"over-{i}")
        assert error_of(reply) == (503, "connection_limit")
        assert reply.header("retry-after")
    assert engine.metric("num_requests_running") == 3
    if leave == "reset":
        engine.kill()
        for client in clients:
            while client.read_more(20):
                pass
        assert error_of(complete(vip, "x"))[1] == "backend_unreachable"
        return
    for client in clients:
        while leave == "finish" and b"0\r\n\r\n" not in client.buffer and client.read_more(20):
            pass
        client.close()
    wait_until(lambda: complete(vip, "x", max_tokens=1).status == 200, 10, "a free place")
    for _ in range(20):
        assert complete(vip, "x", max_tokens=1).status == 200


def test_a_stream_beyond_its_cap_is_ended_in_band(gateway, engines):
    engine = engines(1, "--decode-us-per-token", 15_000)[0]
    vip = gateway.vip()
    gateway.create(rule(vip, [engine.address], max_stream_duration_sec=1))
    with RawClient(vip, limit_s=60) as client:
        stream(client, 3000)
        reply = client.read_reply()
        assert reply.status == 200 and reply.is_complete
        events = reply.events()
        assert json.loads(events[-1])["error"]["code"] == "max_stream_duration"
        assert "[DONE]" not in events and len(events) > 3
        for event in events:
            json.loads(event)
        assert client.end_state(5) == "eof"
    receipt = gateway.receipt("it")
    assert (receipt["outcome"], receipt["error_code"]) == ("timeout", "max_stream_duration")
    wait_until(lambda: engine.metric("num_requests_running") == 0, 5, "the engine was told")
    assert gateway.metric("loxilb_ai_requests_total", outcome="timeout") == 1
    assert gateway.metric("loxilb_ai_active_streams") == 0


def test_a_cap_that_passes_before_any_answer_is_a_504(gateway, engines):
    engine = engines(1)[0]
    vip = gateway.vip()
    gateway.create(rule(vip, [engine.address], max_stream_duration_sec=1))
    engine.arm("hang")
    assert error_of(complete(vip, "x", request_id="late")) == (504, "max_stream_duration")
    assert gateway.receipt("late")["outcome"] == "timeout"
    assert complete(vip, "x").status == 200


def test_the_key_of_a_file_goes_to_the_engine_and_nowhere_else(gateway, engines, tmp_path):
    engine = engines(1)[0]
    vip = gateway.vip()
    key = tmp_path / "backend.key"

    def put(text):
        fresh = tmp_path / "fresh"
        fresh.write_text(text)
        os.chmod(fresh, 0o600)
        os.rename(fresh, key)

    def sent():
        complete(vip, "x", max_tokens=1)
        last = [r for r in engine.requests() if r["method"] == "POST"][-1]
        return [v for k, v in last["headers"] if k.lower() == "authorization"]
    body = rule(vip, [engine.address], backend_auth_file=str(key))
    plain = edited(body, backend_auth_file=None)

    def ask_with_clients_key():
        with RawClient(vip) as client:
            client.send(request_bytes("POST", "/v1/completions", {"model": "tiny", "prompt": "x"},
                                      [("Authorization", "Bearer client-key")]))
            assert client.read_reply().status == 200
        last = [r for r in engine.requests() if r["method"] == "POST"][-1]
        return [v for k, v in last["headers"] if k.lower() == "authorization"]
    gateway.create(plain)
    assert ask_with_clients_key() == ["Bearer client-key"]
    refused = exchange(gateway.api, "POST", f"{API}/config/loadbalancer", body)
    assert refused.status == 400 and refused.json()["field"] == "backend_auth_file"
    assert ask_with_clients_key() == ["Bearer client-key"]
    put("sk-first-key\n")
    gateway.create(body)
    assert ask_with_clients_key() == ["Bearer sk-first-key"]
    put("sk-second-key\n")
    wait_until(lambda: sent() == ["Bearer sk-second-key"], 20, "the rotated key")
    put("two\nlines\n")
    wait_until(lambda: "backend key cannot be read" in gateway.log(), 20, "the complaint")
    assert sent() == ["Bearer sk-second-key"]
    shown = (gateway.log() + json.dumps(gateway.rules()) + json.dumps(gateway.flows())
             + gateway.get("/metrics").body.decode())
    assert "sk-first-key" not in shown and "sk-second-key" not in shown
    gateway.create(plain)
    assert ask_with_clients_key() == ["Bearer client-key"]


def test_without_its_key_a_rule_stays_in_force_and_sends_no_other(gateway, engines, tmp_path):
    engine = engines(1)[0]
    vip = gateway.vip()
    key = tmp_path / "backend.key"
    key.write_text("sk-the-key\n")
    os.chmod(key, 0o600)
    gateway.create(rule(vip, [engine.address], backend_auth_file=str(key)))
    os.rename(key, tmp_path / "away")
    gateway.kill()
    gateway.start()
    for _ in range(2):
        with RawClient(vip) as client:
            client.send(request_bytes("POST", "/v1/completions", {"model": "tiny", "prompt": "x"},
                                      [("Authorization", "Bearer client-key")]))
            assert error_of(client.read_reply()) == (503, "backend_key_unavailable")
    assert not [r for r in engine.requests() if r["method"] == "POST"]
    os.rename(tmp_path / "away", key)
    wait_until(lambda: complete(vip, "x", max_tokens=1).status == 200, 20, "the key is read")
    last = [r for r in engine.requests() if r["method"] == "POST"][-1]
    assert [v for k, v in last["headers"] if k.lower() == "authorization"] == ["Bearer sk-the-key"]


def test_only_the_sources_of_a_rule_may_use_it(gateway, engines):
    engine = engines(1)[0]
    vip = gateway.vip()
    body = rule(vip, [engine.address], model_name="tiny")
    guarded = {**body, "allowedSources": [{"prefix": "127.0.0.2/32"}]}

    def ask(source, model="tiny", payload=None):
        import socket
        s = socket.create_connection(split_address(vip), timeout=10, source_address=(source, 0))
        client = RawClient.__new__(RawClient)
        client.socket, client.buffer, client.is_eof = s, b"", False
        with client:
            client.send(payload or request_bytes("POST", "/v1/completions",
                                                 {"model": model, "prompt": "x", "max_tokens": 1}))
            return client.read_reply()
    gateway.create(guarded)
    assert ask("127.0.0.2").status == 200
    seen = len(engine.requests())
    assert error_of(ask("127.0.0.1")) == (403, "source_not_allowed")
    # Before anything else: neither a broken body nor an unknown model is looked at.
    assert error_of(ask("127.0.0.1", model="big")) == (403, "source_not_allowed")
    assert error_of(ask("127.0.0.1", payload=request_bytes("POST", "/v1/completions", b"{")))[0] == 403
    half = request_bytes("POST", "/v1/completions", {"model": "tiny", "prompt": "x" * 5000})[:1000]
    assert error_of(ask("127.0.0.1", payload=half)) == (403, "source_not_allowed")
    assert len(engine.requests()) == seen
    # A rule for everybody beside it.
    gateway.create(rule(vip, [engine.address], model_name="other"))
    assert error_of(ask("127.0.0.1")) == (403, "source_not_allowed")
    assert ask("127.0.0.1", model="other").status != 403
    gateway.create(body)
    assert ask("127.0.0.1").status == 200


def test_a_limit_under_load_never_lets_more_through(gateway, engines):
    engine = engines(1, "--decode-us-per-token", 2_000)[0]
    vip = gateway.vip()
    gateway.create(rule(vip, [engine.address], connectionLimit=4))
    statuses, lock, most = [], threading.Lock(), [0]
    done = threading.Event()

    def watch():
        while not done.is_set():
            most[0] = max(most[0], engine.metric("num_requests_running"))
    def run():
        for _ in range(20):
            reply = complete(vip, "x", max_tokens=8)
            with lock:
                statuses.append(reply.status)
    watcher = threading.Thread(target=watch)
    threads = [threading.Thread(target=run) for _ in range(12)]
    watcher.start()
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    done.set()
    watcher.join(10)
    assert set(statuses) <= {200, 503} and statuses.count(200) >= 4
    assert most[0] <= 4
    assert complete(vip, "x").status == 200


def test_ipv6_clients_are_told_apart_too(gateway, engines):
    engine = engines(1)[0]
    vip = gateway.vip("::1")
    host, port = split_address(vip)
    body = rule(vip, [engine.address])

    def ask():
        import socket
        client = RawClient.__new__(RawClient)
        client.socket = socket.create_connection((host, port), timeout=10)
        client.buffer, client.is_eof = b"", False
        with client:
            client.send(request_bytes("POST", "/v1/completions",
                                      {"model": "tiny", "prompt": "x", "max_tokens": 1}))
            return client.read_reply()
    gateway.create({**body, "allowedSources": [{"prefix": "10.0.0.0/8"}, {"prefix": "::1/128"}]})
    assert ask().status == 200
    gateway.create({**body, "allowedSources": [{"prefix": "0.0.0.0/0"}, {"prefix": "fd00::/8"}]})
    assert error_of(ask()) == (403, "source_not_allowed")


def keepalive_timers(port):
    """Seconds until the kernel asks, for each connection to this port that carries nothing now."""
    tick = os.sysconf("SC_CLK_TCK")
    with open("/proc/net/tcp") as f:
        rows = [line.split() for line in f.readlines()[1:]]
    timers = [r[5].split(":") for r in rows if r[2].endswith(f":{port:04X}") and r[3] == "01"]
    return [int(when, 16) / tick for kind, when in timers if int(kind, 16) == 2]


def test_keepalive_of_a_rule_is_set_on_its_upstream_connections(gateway, engines):
    asked, usual = engines(2)
    vip, other_vip = gateway.vip(), gateway.vip()
    gateway.create(rule(vip, [asked.address], backend_keepalive_interval_sec=5))
    gateway.create(rule(other_vip, [usual.address]))
    ports = [int(e.address.rsplit(":", 1)[1]) for e in (asked, usual)]
    assert complete(vip, "x").status == complete(other_vip, "x").status == 200
    soon, later = (wait_until(lambda p=p: keepalive_timers(p), 5, "a kept connection") for p in ports)
    assert all(s <= 5 for s in soon)
    assert all(s > 5 for s in later)


def test_a_request_beyond_its_own_limit_says_so_in_the_stream(gateway, engines):
    engine = engines(1, "--decode-us-per-token", 15_000)[0]
    vip = gateway.vip()
    gateway.create(rule(vip, [engine.address], timeouts={"total_ms": 700}))
    with RawClient(vip, limit_s=60) as client:
        stream(client, 3000)
        events = client.read_reply().events()
    assert json.loads(events[-1])["error"]["code"] == "total_timeout" and "[DONE]" not in events
    assert gateway.receipt("it")["outcome"] == "timeout"
    engine.arm("hang")
    assert error_of(complete(vip, "x")) == (504, "upstream_timeout")
