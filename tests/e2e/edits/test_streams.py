"""Edits while streams run: none is cut, none differs by a byte."""

import re
import socket
import threading

import pytest

from conftest import edited, endpoint_of, row
from gateway import complete, rule, split_address
from harness import RawClient, request_bytes, wait_until


class Streams:
    """Chat streams on connections of their own, read to the end by threads."""

    def __init__(self, vip, count, tokens):
        self.replies = [None] * count
        self.threads = [threading.Thread(target=self._run, args=(vip, i, tokens)) for i in range(count)]
        for t in self.threads:
            t.start()

    def _run(self, vip, i, tokens):
        body = {"model": "tiny", "stream": True, "max_tokens": tokens, "ignore_eos": True,
                "messages": [{"role": "user", "content": f"story number {i}"}]}
        with RawClient(vip, limit_s=60) as client:
            client.send(request_bytes("POST", "/v1/chat/completions", body,
                                      [("X-Request-Id", f"stream-{i}")]))
            self.replies[i] = client.read_reply()

    def join(self):
        for t in self.threads:
            t.join(60)
        return self.replies


def plain(reply):
    """A stream's bytes without what tells the time."""
    return re.sub(rb'"created":\d+', b'"created":0', reply.body)


def inflight(gateway, body):
    return sum(e["inflight"] for e in gateway.find(body)["endpoints"])


def edits_of(body, spare):
    """Twenty different edits of one rule, which end at another rule than they began with."""
    first, second = body["endpoints"]
    for n in range(20):
        kind = n % 5
        if kind == 0:
            yield edited(body, [{**first, "weight": n + 2}, second])
        elif kind == 1:
            yield edited(body, [first, second, row(spare, 0)], name=f"name-{n}")
        elif kind == 2:
            yield edited(body, [second, first], timeouts={"chunk_gap_ms": 60_000 + n})
        elif kind == 3:
            yield edited(body, [first], name=f"one-left-{n}")
        else:
            yield edited(body, [first, second], sel=4, max_body_bytes=1_000_000 + n)


def test_twenty_streams_over_two_engines_do_not_notice_twenty_edits(gateway, engines):
    slow = engines(2, "--decode-us-per-token", 15_000)
    spare = engines(1)[0]
    vip = gateway.vip()
    body = rule(vip, [e.address for e in slow], kvEngineType="vllm")
    gateway.create(body)
    streams = Streams(vip, 20, 300)
    wait_until(lambda: inflight(gateway, body) == 20, 20, "twenty streams")
    for change in edits_of(body, spare.address):
        gateway.create(change)
    running = sum(e.metric("num_requests_running") for e in slow)
    assert running == 20, "the edits came too late to disturb anything"
    disturbed = streams.join()
    gateway.create(body)
    calm = Streams(vip, 20, 300).join()
    for one, other in zip(disturbed, calm):
        assert one.status == other.status == 200 and one.is_complete
        assert one.events()[-1] == "[DONE]"
        assert plain(one) == plain(other)
    for i in range(20):
        assert gateway.receipt(f"stream-{i}")["outcome"] == "ok"
    wait_until(lambda: inflight(gateway, body) == 0, 5, "nothing held")


def test_an_endpoint_removed_under_a_stream_lets_it_finish_and_gets_nothing_new(gateway, engines):
    leaving, staying = engines(2, "--decode-us-per-token", 15_000)
    vip = gateway.vip()
    body = rule(vip, [leaving.address])
    gateway.create(body)
    streams = Streams(vip, 4, 100)
    wait_until(lambda: leaving.metric("num_requests_running") == 4, 20, "streams")
    gateway.create(edited(body, [row(staying.address)]))
    before = len(leaving.requests())
    for i in range(6):
        assert complete(vip, "new", request_id=f"new-{i}").status == 200
        assert gateway.receipt(f"new-{i}")["legs"][-1]["endpoint"] == staying.address
    assert leaving.metric("num_requests_running") == 4
    for reply in streams.join():
        assert reply.is_complete and reply.events()[-1] == "[DONE]"
    assert [r for r in leaving.requests()[before:] if r["method"] == "POST"] == []


def test_a_request_whose_body_is_still_coming_meets_the_rule_as_it_is_then(gateway, engines):
    leaving, staying = engines(2)
    vip = gateway.vip()
    body = rule(vip, [leaving.address])
    gateway.create(body)
    message = request_bytes("POST", "/v1/completions", {"model": "tiny", "prompt": "x" * 300,
                                                        "max_tokens": 1}, [("X-Request-Id", "slow")])
    with RawClient(vip) as client:
        client.send(message[:-100])
        wait_until(lambda: gateway.metric("loxilb_proxy_active_connections") >= 1, 5, "connection")
        gateway.create(edited(body, [row(staying.address)]))
        client.send(message[-100:])
        assert client.read_reply().status == 200
    assert gateway.receipt("slow")["legs"][-1]["endpoint"] == staying.address


@pytest.mark.parametrize("how", ["the last rule", "all rules"])
def test_a_deleted_rule_lets_its_streams_finish_and_its_listener_go(gateway, engines, how):
    engine = engines(1, "--decode-us-per-token", 15_000)[0]
    vip = gateway.vip()
    gateway.create(rule(vip, [engine.address]))
    ip, port = split_address(vip)
    streams = Streams(vip, 4, 100)
    wait_until(lambda: engine.metric("num_requests_running") == 4, 20, "streams")
    idle = RawClient(vip)
    path = (f"/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/tcp"
            if how == "the last rule" else "/config/loadbalancer/all")
    assert gateway.delete(path).status == 200
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((ip, port), timeout=5)
    assert idle.end_state(5) == "eof"
    idle.close()
    assert engine.metric("num_requests_running") == 4
    for reply in streams.join():
        assert reply.is_complete and reply.events()[-1] == "[DONE]"
    # The VIP can be had again at once.
    gateway.create(rule(vip, [engine.address]))
    assert complete(vip, "again").status == 200


def test_a_rule_made_anew_under_its_streams_knows_what_still_runs(gateway, engines):
    engine = engines(1, "--decode-us-per-token", 15_000)[0]
    vip = gateway.vip()
    body = rule(vip, [engine.address])
    gateway.create(body)
    streams = Streams(vip, 3, 100)
    wait_until(lambda: inflight(gateway, body) == 3, 20, "streams")
    assert gateway.delete("/config/loadbalancer/all").status == 200
    gateway.create(body)
    assert endpoint_of(gateway.find(body), engine.address)["inflight"] == 3
    for reply in streams.join():
        assert reply.events()[-1] == "[DONE]"
    wait_until(lambda: inflight(gateway, body) == 0, 5, "nothing held")
