"""A prefill endpoint that takes so many at a time: who waits, and what gives a place back."""

import json
import threading

import pytest

from conftest import legs, pd_rule
from gateway import complete
from harness import RawClient, exchange, wait_until
from pairs import ask, error, posts, prompt, same_text
from via import Via

ONE = {"pd_max_inflight_per_ep": 1, "pd_queue_depth_per_ep": 4, "pd_max_park_ms": 60_000}


def waiting(gateway, number):
    wait_until(lambda: gateway.metric("loxilb_pd_admission_waiting") == number, 10, f"{number} wait")


def test_a_full_prefill_queues_in_order_and_then_turns_away(gateway, pool):
    vip, (prefill,), _, _ = pool(1, 1, pd_max_inflight_per_ep=1, pd_queue_depth_per_ep=2,
                                 pd_max_park_ms=20000)
    prefill.arm("slow-head:1500", 1)
    clients = [RawClient(vip, limit_s=60) for _ in range(4)]
    try:
        for i, client in enumerate(clients):
            ask(client, f"q{i}")
            if i == 0:
                wait_until(lambda: posts(prefill), 10, "the first is there")
            elif i < 3:
                waiting(gateway, i)
        last = clients[3].read_reply()
        assert error(last) == (429, "pd_overloaded") and last.header("Retry-After") == "1"
        assert [c.read_reply().status for c in clients[:3]] == [200, 200, 200]
    finally:
        for client in clients:
            client.close()
    served = [json.loads(r["body"])["prompt"][:2] for r in posts(prefill)]
    assert served == ["q0", "q1", "q2"]
    assert gateway.metric("loxilb_pd_admission_queued_total") == 2
    assert gateway.metric("loxilb_pd_admission_shed_total") == 1
    assert gateway.receipt("q2")["legs"][0]["queued_us"] > 0


def test_waiting_for_a_prefill_has_an_end(gateway, pool):
    vip, (prefill,), _, _ = pool(1, 1, pd_max_inflight_per_ep=1, pd_queue_depth_per_ep=4,
                                 pd_max_park_ms=300)
    prefill.arm("hang")
    with RawClient(vip) as client:
        ask(client, "first")
        wait_until(lambda: posts(prefill), 10, "the first is there")
        assert error(complete(vip, prompt())) == (504, "pd_admission_park_timeout")


# --- a place is given back on every way out

class Desk(Via):
    """A prefill that keeps the request whose prompt begins with "first" until it is told what to do."""

    def __init__(self, engine):
        super().__init__(engine, lambda reply: reply.body)
        self.there, self.go = threading.Event(), threading.Event()
        self.way = None
        self.prompts = []

    def _pass_on(self, call):
        if not call.body:
            return super()._pass_on(call)
        self.prompts.append(call.json()["prompt"])
        way = None
        if self.prompts[-1].startswith("first") and self.prompts.count(self.prompts[-1]) == 1:
            self.there.set()
            self.go.wait(60)
            way = self.way
        return way(call) if way else super()._pass_on(call)


WAYS = {
    "it answers": None,
    "4xx": lambda call: call.reply(400, {"error": {"message": "no", "code": 400}}),
    "busy": lambda call: call.reply(429),
    "5xx": lambda call: call.reply(500, {"error": {"message": "oh", "code": 500}}),
    "no hand-off": lambda call: call.reply(200, {"choices": []}),
    "no JSON": lambda call: call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n["),
    "it dies": lambda call: call.close(),
    "it dies within its answer": lambda call: (
        call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"), call.close()),
}
ENDS = {"it answers": 200, "4xx": 400, "busy": 429, "5xx": 200, "no hand-off": 200, "no JSON": 502,
        "it dies": 200, "it dies within its answer": 200}


@pytest.mark.parametrize("way", WAYS)
def test_however_prefill_ends_the_next_is_let_in(gateway, engines, plain, way):
    prefill, decode = engines(2)
    with Desk(prefill) as desk:
        desk.way = WAYS[way]
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [desk], [decode], **ONE))
        with RawClient(vip, limit_s=60) as first, RawClient(vip, limit_s=60) as second:
            ask(first, "first")
            assert desk.there.wait(10)
            words = prompt("second")
            ask(second, "second", words)
            waiting(gateway, 1)
            assert len(desk.prompts) == 1
            desk.go.set()
            assert same_text(second.read_reply(), plain, words)
            assert first.read_reply().status == ENDS[way]
        # Who was asked again came after who had waited.
        assert desk.prompts[1].startswith("second")
        words = prompt("third")
        assert same_text(complete(vip, words), plain, words)
    waiting(gateway, 0)
    assert gateway.metric("loxilb_pd_admission_queued_total") >= 1
    assert all(e["inflight"] == 0 and e["queued"] == 0 for e in gateway.rules()[0]["endpoints"])


def test_a_prefill_that_is_late_gives_its_place_to_the_next(gateway, engines, plain):
    prefill, decode = engines(2)
    prefill.arm("hang", 1)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode], pd_prefill_timeout_ms=5000, **ONE))
    with RawClient(vip, limit_s=60) as first, RawClient(vip, limit_s=60) as second:
        ask(first, "first")
        wait_until(lambda: posts(prefill), 10, "the first is there")
        words = prompt("second")
        ask(second, "second", words)
        waiting(gateway, 1)
        assert error(first.read_reply()) == (504, "pd_prefill_timeout")
        assert same_text(second.read_reply(), plain, words)
    waiting(gateway, 0)


def test_a_client_that_leaves_in_prefill_gives_its_place_to_the_next(gateway, engines, plain):
    prefill, decode = engines(2)
    prefill.arm("hang", 1)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode], **ONE))
    with RawClient(vip) as first, RawClient(vip, limit_s=60) as second:
        ask(first, "first")
        wait_until(lambda: posts(prefill), 10, "the first is there")
        words = prompt("second")
        ask(second, "second", words)
        waiting(gateway, 1)
        first.close()
        assert same_text(second.read_reply(), plain, words)
    assert gateway.receipt("first")["outcome"] == "client_closed"
    waiting(gateway, 0)


def test_a_parked_client_whose_patience_is_over_leaves_no_place_behind(gateway, engines, plain):
    prefill, decode = engines(2)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode], **{**ONE, "pd_max_park_ms": 300}))
    prefill.arm("hang", 1)
    with RawClient(vip) as first:
        ask(first, "first")
        wait_until(lambda: posts(prefill), 10, "the first is there")
        for _ in range(3):
            assert error(complete(vip, prompt())) == (504, "pd_admission_park_timeout")
        waiting(gateway, 0)
    words = prompt()

    def is_let_in():
        reply = complete(vip, words)
        return reply.status == 200 and same_text(reply, plain, words)

    wait_until(is_let_in, 20, "the place is free")


def test_decode_holds_no_place_at_prefill(gateway, engines, plain):
    prefill, decode = engines(2)
    decode.arm("hang", 1)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode], **{**ONE, "pd_queue_depth_per_ep": 0}))
    with RawClient(vip) as first:
        ask(first, "first")
        wait_until(lambda: posts(decode), 10, "it is at decode")
        words = prompt()
        assert same_text(complete(vip, words), plain, words)


def test_who_is_parked_at_an_endpoint_that_is_removed_waits_at_another(gateway, engines, plain):
    prefills, (decode,) = engines(2), engines(1)
    vip = gateway.vip()
    body = pd_rule(vip, prefills, [decode], **ONE)
    gateway.create(body)
    for prefill in prefills:
        prefill.arm("hang", 1)
    holders = [RawClient(vip, limit_s=60) for _ in prefills]
    try:
        for i, holder in enumerate(holders):
            ask(holder, f"holder-{i}")
            wait_until(lambda i=i: sum(len(posts(p)) for p in prefills) == i + 1, 10, "it is there")
        with RawClient(vip, limit_s=60) as parked:
            words = prompt("parked")
            ask(parked, "parked", words)
            waiting(gateway, 1)
            rows = gateway.find(body)["endpoints"]
            port = next(e["targetPort"] for e in rows if e["queued"] == 1)
            stays = next(p for p in prefills if not p.address.endswith(f":{port}"))
            gateway.create(pd_rule(vip, [stays], [decode], **ONE))
            wait_until(lambda: [e["queued"] for e in gateway.rules()[0]["endpoints"]
                                if stays.address.endswith(f":{e['targetPort']}")] == [1], 10,
                       "it waits at the other")
            # A third in line behind it, and the place goes to both in turn.
            with RawClient(vip, limit_s=60) as third:
                ask(third, "third")
                waiting(gateway, 2)
                holder = next(h for i, h in enumerate(holders)
                              if json.loads(posts(stays)[0]["body"])["prompt"].startswith(f"holder-{i}"))
                holder.close()
                assert same_text(parked.read_reply(), plain, words)
                assert third.read_reply().status == 200
        assert legs(gateway, "parked")[0][1] == stays.address
        assert [json.loads(r["body"])["prompt"][:5] for r in posts(stays)[1:]] == ["parke", "third"]
    finally:
        for holder in holders:
            holder.close()
    waiting(gateway, 0)


def test_who_is_parked_when_the_last_prefill_is_removed_is_told(gateway, engines):
    prefill, other, decode = engines(3)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode], **ONE))
    prefill.arm("hang", 1)
    with RawClient(vip, limit_s=60) as first, RawClient(vip, limit_s=60) as parked:
        ask(first, "first")
        wait_until(lambda: posts(prefill), 10, "the first is there")
        ask(parked, "parked")
        waiting(gateway, 1)
        gateway.create(pd_rule(vip, [other], [decode], **ONE))
        assert error(parked.read_reply()) == (503, "pd_pool_unavailable")
        assert complete(vip, prompt()).status == 200
    waiting(gateway, 0)


def test_an_edit_that_lifts_the_limit_lets_everybody_in(gateway, engines, plain):
    prefill, decode = engines(2)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode], **ONE))
    prefill.arm("hang", 1)
    with RawClient(vip) as first, RawClient(vip, limit_s=60) as second:
        ask(first, "first")
        wait_until(lambda: posts(prefill), 10, "the first is there")
        words = prompt("second")
        ask(second, "second", words)
        waiting(gateway, 1)
        gateway.create(pd_rule(vip, [prefill], [decode], **{**ONE, "pd_max_inflight_per_ep": 2}))
        assert same_text(second.read_reply(), plain, words)


def test_a_limit_that_is_set_under_load_turns_nobody_away(gateway, pool):
    """Who chose without a limit and finds one at the door waits like anybody."""
    vip, _, _, _ = pool(1, 1, pd_queue_depth_per_ep=64, pd_max_park_ms=20_000)
    ip, port = vip.rsplit(":", 1)
    path = f"/netlox/v1/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/tcp"
    is_over, statuses = threading.Event(), []

    def load():
        while not is_over.is_set():
            statuses.append(complete(vip, "limit", max_tokens=1).status)

    clients = [threading.Thread(target=load) for _ in range(8)]
    for client in clients:
        client.start()
    try:
        for limit in [1, 0] * 15:
            change = {"serviceArguments": {"pd_max_inflight_per_ep": limit}}
            assert exchange(gateway.api, "PATCH", path, change).status == 200
    finally:
        is_over.set()
        for client in clients:
            client.join(30)
    assert set(statuses) == {200}
