"""Engines that close kept connections: after an idle time, or under the next request."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import legs, pd_rule
from gateway import complete
from harness import wait_until
from pairs import posts, prompt, same_text
from tap import Tap
from via import Via


class Closing(Via):
    """Passes everything on, and closes each connection when it has answered, saying nothing of it."""

    def __init__(self, engine):
        super().__init__(engine, lambda reply: reply.body)

    def _pass_on(self, call):
        super()._pass_on(call)
        call.close()


class Dropping(Via):
    """Answers the first generation request of a connection, and hangs up at the next one."""

    def __init__(self, engine):
        super().__init__(engine, lambda reply: reply.body)
        self.used, self.dropped = [], 0

    def _pass_on(self, call):
        if call.path.startswith("/v1/completions"):
            if call.conn in self.used:
                self.dropped += 1
                call.close()
                return
            self.used.append(call.conn)
        super()._pass_on(call)


@pytest.mark.parametrize("kind", [Closing, Dropping])
@pytest.mark.parametrize("leg", ["prefill", "decode"])
def test_e10_a_kept_connection_that_was_closed_costs_no_request(gateway, engines, plain, kind, leg):
    prefill, decode = engines(2)
    with kind(prefill if leg == "prefill" else decode) as via:
        vip = gateway.vip()
        pair = [via, decode] if leg == "prefill" else [prefill, via]
        gateway.create(pd_rule(vip, pair[:1], pair[1:]))
        for i in range(16):
            words = prompt()
            assert same_text(complete(vip, words, request_id=f"r{i}"), plain, words)
            verdicts = [verdict for _, _, verdict in legs(gateway, f"r{i}")]
            assert set(verdicts) <= {"handed_over", "stale_connection", "relayed"}
            # At most one of them was sent where nobody heard it.
            assert verdicts[-1] == "relayed" and len(verdicts) <= 4
        assert kind is Closing or via.dropped > 0
    # What one prefill gave is read by one decode leg, and what nobody heard ran nowhere.
    assert len(posts(decode)) == 16
    wait_until(lambda: gateway.metric("loxilb_pd_leases_total", end="read") == 16, 10, "read")


def test_e10_after_an_idle_time_both_legs_are_answered_at_once(gateway, engines, plain):
    prefill, decode = engines(2)
    with Tap(prefill.address) as first, Tap(decode.address) as second:
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [first], [second]))
        for i in range(6):
            for _ in range(4):
                words = prompt()
                assert same_text(complete(vip, words), plain, words)
            for tap in (first, second):
                tap.drop()
            words = prompt()
            assert same_text(complete(vip, words, request_id=f"after-{i}"), plain, words)
    assert len(posts(prefill)) == len(posts(decode)) == 30


def test_e10_a_pair_meets_one_broken_connection_and_no_second(gateway, engines, plain):
    prefill, decode = engines(2)
    with Dropping(decode) as via:
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [prefill], [via]))
        # Many connections at once, each of which hangs up when it is used again.
        decode.arm("slow-head:300", 8)
        with ThreadPoolExecutor(8) as clients:
            assert all(r.status == 200 for r in clients.map(lambda _: complete(vip, prompt()), range(8)))
        for i in range(4):
            words = prompt()
            assert same_text(complete(vip, words, request_id=f"again-{i}"), plain, words)
        assert via.dropped > 0


class Noting(Via):
    """Keeps the connection that each generation request came on."""

    def __init__(self, engine):
        super().__init__(engine, lambda reply: reply.body)
        self.used = []

    def _pass_on(self, call):
        if call.path.startswith("/v1/completions"):
            self.used.append(call.conn)
        super()._pass_on(call)


def test_e10_what_is_sent_once_goes_over_no_connection_that_was_idle_for_long(gateway, engines, plain):
    prefill, decode = engines(2)
    with Noting(decode) as via:
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [prefill], [via]))
        for _ in range(3):
            for _ in range(6):
                assert complete(vip, prompt()).status == 200
            time.sleep(1.5)
            known = list(via.used)
            assert len(set(known)) < len(known), "connections are kept"
            words = prompt()
            assert same_text(complete(vip, words), plain, words)
            assert via.used[-1] not in known
