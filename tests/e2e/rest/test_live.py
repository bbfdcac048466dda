"""What the running gateway shows of its rules, and what an operator steers while it serves."""

import contextlib
import json
import socket

from gateway import API, Gateway, complete, rule, split_address
from harness import MINI_TOKENIZER, RawClient, exchange, request_bytes, start_sim, wait_until


def start_engine(*flags):
    return start_sim("--model", MINI_TOKENIZER, "--served-model-name", "tiny", *flags)


def key_path(body, leaf):
    s = body["serviceArguments"]
    return (f"/config/loadbalancer/externalipaddress/{s['externalIP']}/port/{s['port']}"
            f"/protocol/tcp/{leaf}")


def set_state(gw, address, state, whole_host=False):
    host, port = split_address(address)
    return exchange(gw.api, "POST", f"{API}/config/endpointhoststate",
                    {"hostName": host, "state": state, **({} if whole_host else {"epPort": port})})


def row_of(gw, body, address):
    host, port = split_address(address)
    return next(e for e in gw.find(body)["endpoints"]
                if (e["endpointIP"], e["targetPort"]) == (host, port))


def used_by(gw, vip, ids):
    """The endpoints that one request each, named so, went to."""
    for name in ids:
        assert complete(vip, [1, 2, 3], request_id=name).status == 200
    return {gw.receipt(name)["legs"][-1]["endpoint"] for name in ids}


def probed(vip, engines, **more):
    """A rule whose endpoints are asked every second for /health."""
    port = split_address(engines[0].address)[1]
    return rule(vip, [e.address for e in engines], probetype="http", probeport=port,
                probereq="/health", probeTimeout=1, probeRetries=1, **more)


def status(gw, body):
    return gw.get(key_path(body, "status")).json()["operatingStatus"]


@contextlib.contextmanager
def slow_stream(vip):
    """An open stream of which the first event has come."""
    with RawClient(vip, 60) as client:
        client.send(request_bytes("POST", "/v1/completions",
                                  {"model": "tiny", "prompt": [1, 2, 3], "stream": True,
                                   "max_tokens": 60}, [("X-Request-Id", "slow")]))
        assert client.read_head().status == 200
        assert client.read_until(b"\n\n") is not None
        yield client


def progress(gw):
    rows = gw.get("/config/endpointhoststate").json()["hostStates"]
    return [(r["state"], r["inflight"], r["drained"]) for r in rows]


def ends(stream):
    """Whether the stream comes to its end, and the message after it."""
    return (stream.read_until(b"data: [DONE]") is not None
            and stream.read_until(b"0\r\n\r\n") is not None)


def test_a_host_drains_while_its_stream_ends_and_others_take_what_is_new(tmp_path):
    with start_engine("--decode-us-per-token", 30000) as a, \
            start_engine("--decode-us-per-token", 30000) as b, Gateway(tmp_path) as gw:
        vip = gw.vip()
        body = rule(vip, [a.address, b.address])
        gw.create(body)
        with slow_stream(vip) as stream:
            busy = next(e for e in (a, b) if row_of(gw, body, e.address)["inflight"] == 1)
            other = b if busy is a else a
            assert set_state(gw, busy.address, "yellow").json() == {"result": "Success"}
            assert used_by(gw, vip, ["y1", "y2", "y3"]) == {other.address}
            row = row_of(gw, body, busy.address)
            assert (row["state"], row["reason"]) == ("draining", "host state yellow")
            assert row["inflight"] == 1 and "inActiveEP" not in row
            assert progress(gw) == [("yellow", 1, False)]
            assert ends(stream)
        receipt = gw.receipt("slow")
        assert receipt["outcome"] == "ok" and receipt["legs"][-1]["endpoint"] == busy.address
        wait_until(lambda: row_of(gw, body, busy.address)["inflight"] == 0, 5, "drained")
        assert progress(gw) == [("yellow", 0, True)]
        # Taken back, it gets what is new again.
        assert set_state(gw, busy.address, "green").status == 200
        assert progress(gw) == []
        assert used_by(gw, vip, ["g1", "g2", "g3"]) == {a.address, b.address}
        assert set_state(gw, busy.address, "yellow").status == 200
        hosts = gw.get("/config/endpoint/all").json()["hostStates"]
        assert [(h["epPort"], h["state"]) for h in hosts] == [
            (split_address(busy.address)[1], "yellow")]


def test_what_a_rule_loses_finishes_and_is_seen_until_it_has(tmp_path):
    with start_engine("--decode-us-per-token", 30000) as a, \
            start_engine("--decode-us-per-token", 30000) as b, Gateway(tmp_path) as gw:
        vip = gw.vip()
        body = rule(vip, [a.address])
        gw.create(body)
        with slow_stream(vip) as stream:
            gw.create(rule(vip, [b.address]))
            assert progress(gw) == [("removed", 1, False)]
            assert used_by(gw, vip, ["n1", "n2"]) == {b.address}
            assert gw.delete("/config/loadbalancer/all").status == 200
            assert progress(gw) == [("removed", 1, False)]
            assert ends(stream)
        wait_until(lambda: progress(gw) == [], 5, "finished")


def test_red_takes_a_host_out_green_takes_it_back_and_a_restart_changes_nothing(tmp_path):
    with start_engine() as a, start_engine() as b, Gateway(tmp_path) as gw:
        vip = gw.vip()
        body = rule(vip, [a.address, b.address])
        gw.create(body)
        assert set_state(gw, a.address, "red").status == 200
        row = row_of(gw, body, a.address)
        assert (row["state"], row["reason"]) == ("disabled", "host state red")
        assert row["inActiveEP"] is True
        assert status(gw, body) == "DEGRADED"
        assert used_by(gw, vip, ["r1", "r2", "r3"]) == {b.address}
        gw.kill()
        gw.start()
        assert row_of(gw, body, a.address)["state"] == "disabled"
        assert used_by(gw, vip, ["k1", "k2", "k3"]) == {b.address}
        # Of the whole host: the port's own word is replaced.
        assert set_state(gw, a.address, "red", whole_host=True).status == 200
        assert status(gw, body) == "OFFLINE"
        refused = complete(vip, [1, 2, 3])
        assert (refused.status, refused.json()["error"]["code"]) == (503, "no_healthy_backend")
        assert set_state(gw, a.address, "green", whole_host=True).status == 200
        assert used_by(gw, vip, ["g1", "g2", "g3", "g4"]) == {a.address, b.address}
        assert status(gw, body) == "NO_MONITOR"
        unknown = set_state(gw, "127.0.9.9:1", "yellow")
        assert (unknown.status, unknown.json()["code"]) == (404, "no_endpoint")


def test_stats_agree_with_what_was_sent(tmp_path):
    with start_engine("--decode-us-per-token", 20000) as engine, Gateway(tmp_path) as gw:
        vip = gw.vip()
        body = rule(vip, [engine.address])
        gw.create(body)
        zero = gw.get(key_path(body, "stats")).json()
        assert zero == {"activeConnections": 0, "totalConnections": 0, "bytesIn": 0, "bytesOut": 0}
        received = sum(len(complete(vip, [1, 2, 3]).body) for _ in range(5))
        with slow_stream(vip) as stream:
            wait_until(lambda: gw.get(key_path(body, "stats")).json()["activeConnections"] == 1, 5,
                       "the others have ended")
            now = gw.get(key_path(body, "stats")).json()
            assert now["totalConnections"] == 6
            assert now["bytesOut"] > received and now["bytesIn"] > 5 * 30
            assert ends(stream)
        wait_until(lambda: gw.get(key_path(body, "stats")).json()["activeConnections"] == 0, 5,
                   "nothing in flight")
        after = gw.get(key_path(body, "stats")).json()
        requests, carried = map(int, gw.find(body)["endpoints"][0]["counter"].split(":"))
        assert requests == after["totalConnections"] == 6
        assert carried == after["bytesIn"] + after["bytesOut"]
        # An edit of the rule begins nothing anew.
        gw.create(rule(vip, [(engine.address, {"weight": 7})]))
        assert gw.get(key_path(body, "stats")).json() == after


def test_status_follows_the_probes(tmp_path):
    with contextlib.ExitStack() as stack:
        # A rule probes one port, so the second engine has that of the first.
        engines = [stack.enter_context(start_engine())]
        port = split_address(engines[0].address)[1]
        engines.append(stack.enter_context(start_engine("--host", "127.0.0.2", "--port", port)))
        gw = stack.enter_context(Gateway(tmp_path))
        body = probed(gw.vip(), engines)
        gw.create(body)
        listed = lambda: {e["hostName"]: e for e in gw.get("/config/endpoint/all").json()["Attr"]}
        wait_until(lambda: all(e["avgDelay"] for e in listed().values()), 20, "probes answered")
        assert status(gw, body) == "ONLINE"
        entry = listed()["127.0.0.2"]
        assert (entry["probeType"], entry["probePort"], entry["urlPath"], entry["currState"]) == (
            "http", port, "/health", "ok")
        assert entry["minDelay"].endswith("ms") and entry["rules"] == [1]
        engines[1].kill()
        wait_until(lambda: status(gw, body) == "DEGRADED", 20, "one of two is down")
        assert listed()["127.0.0.2"]["currState"] == "nok"
        engines[0].kill()
        wait_until(lambda: status(gw, body) == "OFFLINE", 20, "both are down")
        assert gw.get(key_path(body, "status")).json()["lastUpdated"].endswith("Z")
        assert gw.get(key_path(body, "kvexactstatus")).json() == {"kvExactStatusAttr": []}


def test_a_health_object_probes_without_a_rule_and_survives_a_restart(tmp_path):
    with start_engine() as engine, Gateway(tmp_path) as gw:
        host, port = split_address(engine.address)
        body = {"hostName": host, "name": "mine", "probeType": "http", "probePort": port,
                "probeReq": "/health", "probeDuration": 1, "inactiveReTries": 1}
        post = lambda b: exchange(gw.api, "POST", f"{API}/config/endpoint", b)
        mine = lambda: next(e for e in gw.get("/config/endpoint/all").json()["Attr"]
                            if e["name"] == "mine")
        assert post(body).json() == {"result": "Success"}
        wait_until(lambda: mine()["avgDelay"], 20, "probe answered")
        assert mine()["currState"] == "ok" and mine()["isObject"] is True
        assert post({**body, "probeType": "ping"}).json()["code"] == "malformed_health_object"
        gw.kill()
        gw.start()
        wait_until(lambda: mine()["avgDelay"], 20, "probe answered again")
        # A rule that probes the same way shares the probe.
        shared = rule(gw.vip(), [engine.address], probetype="http", probeport=port,
                      probereq="/health", probeTimeout=1, probeRetries=1)
        gw.create(shared)
        assert [e["rules"] for e in gw.get("/config/endpoint/all").json()["Attr"]] == [[1]]
        engine.kill()
        wait_until(lambda: mine()["currState"] == "nok", 20, "probe failed")
        assert row_of(gw, shared, engine.address)["state"] == "inactive"
        where = f"/config/endpoint/epipaddress/{host}"
        assert gw.delete(f"{where}?name=mine&probe_type=http&probe_port={port}").status == 200
        in_use = gw.delete(where)
        assert (in_use.status, in_use.json()["code"]) == (409, "probe_in_use")
        assert gw.delete("/config/loadbalancer/all").status == 200
        assert gw.delete(where).status == 404
        assert gw.get("/config/endpoint/all").json()["Attr"] == []


@contextlib.contextmanager
def receipts(gw, query=""):
    """A stream of receipts whose head has come."""
    with RawClient(gw.api, 30) as client:
        client.send(request_bytes("GET", f"{API}/status/flows/stream{query}"))
        head = client.read_head()
        assert head.status == 200 and head.header("Content-Type") == "text/event-stream"
        yield client


def next_receipt(client):
    while True:
        event = client.read_until(b"\n\n")
        assert event is not None, "the stream ended"
        if event.startswith(b"data: "):
            return json.loads(event[6:])


def test_a_stream_of_receipts_shows_each_request_once(tmp_path):
    with start_engine() as engine, Gateway(tmp_path) as gw:
        vip, other = gw.vip(), gw.vip()
        gw.create(rule(vip, [engine.address], name="one"))
        gw.create(rule(other, [engine.address], name="two"))
        assert complete(vip, [1], request_id="before").status == 200
        gw.receipt("before")
        with receipts(gw) as every, receipts(gw, "?every=2&rule=one") as half, \
                receipts(gw, "?rule=two") as two, receipts(gw, "?outcome=refused") as refused:
            names = [f"n{i}" for i in range(10)]
            for name in names:
                assert complete(vip, [1, 2], request_id=name).status == 200
            assert complete(other, [1, 2], request_id="last").status == 200
            assert [next_receipt(every)["id"] for _ in range(11)] == [*names, "last"]
            assert [next_receipt(half)["id"] for _ in range(5)] == names[::2]
            assert next_receipt(two)["id"] == "last"
            bad = exchange(vip, "POST", "/v1/completions", b"{", [("X-Request-Id", "bad")])
            assert bad.status == 400
            assert next_receipt(refused)["id"] == "bad"
            assert gw.metric("sluice_api_streams") == 4


def test_too_many_streams_are_refused_and_the_interface_goes_on(tmp_path):
    with Gateway(tmp_path) as gw, contextlib.ExitStack() as stack:
        readers = [stack.enter_context(receipts(gw)) for _ in range(8)]
        refused = gw.get("/status/flows/stream")
        assert (refused.status, refused.json()["code"]) == (503, "too_many_streams")
        assert int(refused.header("Retry-After")) > 0
        assert gw.get("/version").status == 200
        readers[0].close()
        wait_until(lambda: gw.metric("sluice_api_streams") == 7, 10, "the gone reader is noticed")
        stack.enter_context(receipts(gw))
        assert gw.stop() == 0
        assert not readers[1].read_more(10)


def test_a_reader_that_does_not_read_is_dropped_and_counted(tmp_path):
    with start_engine() as engine, Gateway(tmp_path) as gw:
        vip = gw.vip()
        idle = [(f"127.0.8.{i}:9", {"weight": 0}) for i in range(1, 31)]
        gw.create(rule(vip, [engine.address, *idle]))  # receipts name them all, so they are long
        host, port = split_address(gw.api)
        with socket.socket() as stuck, receipts(gw) as reader:
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stuck.connect((host, port))
            stuck.sendall(request_bytes("GET", f"{API}/status/flows/stream"))
            wait_until(lambda: gw.metric("sluice_api_streams") == 2, 10, "both streams")
            sent = 0
            while gw.metric("sluice_api_streams_dropped_total") == 0:
                assert sent < 20000
                with RawClient(vip) as client:
                    for _ in range(40):
                        client.send(request_bytes("POST", "/v1/completions",
                                                  {"model": "tiny", "prompt": [1], "max_tokens": 1}))
                        assert client.read_reply().status == 200
                        next_receipt(reader)  # who reads loses nothing
                        sent += 1
            assert gw.metric("sluice_api_streams") == 1
            assert gw.metric("sluice_api_streams_dropped_total") == 1


def test_blocks_of_another_size_are_no_attestation(tmp_path):
    events = json.dumps({"enable_kv_cache_events": True, "endpoint": "tcp://*:0",
                         "replay_endpoint": "tcp://127.0.0.1:0"})
    with start_engine("--kv-events-config", events, "--block-size", "32") as engine, \
            Gateway(tmp_path) as gw:
        vip = gw.vip()
        body = rule(vip, [engine.address], kvExactMode=3, kvBlockSize=16, kvHashAlgo="sha256")
        gw.create(body)

        def kv():
            assert complete(vip, list(range(100, 200))).status == 200
            return row_of(gw, body, engine.address)["kv"]
        wait_until(lambda: kv()["signal"] == "refused", 20, "blocks of another size are refused")
        wait_until(lambda: kv()["attestation"] == "mismatch:block_size", 20, "no attestation")
        assert kv()["reason"] == "block_size"
        repaired = exchange(gw.api, "PATCH", API + key_path(body, "").rstrip("/"),
                            {"serviceArguments": {"kvBlockSize": 32}})
        assert repaired.status == 200
        wait_until(lambda: kv()["signal"] == "ok", 20, "the right size is taken")
        assert not kv()["attestation"].startswith("mismatch")
