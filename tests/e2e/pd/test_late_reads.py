"""A decode engine that reads blocks when their time is over reads another prompt's, and answers 200.

The gateway sends an object in time, but an engine may stand still before its scheduler hears of it.
What such an engine answers never reaches a client.
"""

import random
import threading

import pytest

from conftest import legs, pd_rule
from gateway import complete
from harness import RawClient, wait_until
from pairs import error, prompt, same_text
from via import Via

SHORT = {"plugin_config": {"vllm": {"kv_lease_duration": 1}}}
LEASE = ("--kv-lease-ms", 1000)


class Asked:
    """A request in a thread; reply() waits for its end."""

    def __init__(self, vip, words, **more):
        self.out = []
        self.thread = threading.Thread(target=lambda: self.out.append(complete(vip, words, **more)))
        self.thread.start()

    def reply(self):
        self.thread.join(60)
        return self.out[0]


def expired(engine):
    return engine.metric("nixl_num_kv_expired_reqs_total")


def overwrite(engine):
    """Other prompts go over every block of an engine."""
    rng = random.Random(1)
    for _ in range(12):
        ids = [rng.randrange(200, 1000) for _ in range(320)]
        assert complete(engine.address, ids).status == 200


def is_known(prefill):
    """The gateway has seen what the engine counts."""
    wait_until(lambda: sum(r["target"] == "/metrics" for r in prefill.requests()) >= 2, 10,
               "it was asked for its counters")


class Late(Via):
    """The head of a stream at once, and the request to the engine when `go` is set."""

    def __init__(self, engine):
        self.go = threading.Event()
        super().__init__(engine, lambda reply: reply.body)

    def _pass_on(self, call):
        if b'"stream": true' not in call.body:
            super()._pass_on(call)
            return
        call.stream()
        self.go.wait(30)
        with RawClient(self.engine.address, 60) as client:
            client.send(call.head + b"\r\n\r\n" + call.body)
            for event in client.read_reply().events():
                call.event(event)
        call.send(b"0\r\n\r\n")


@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answer_from_blocks_that_were_let_go_is_dropped(gateway, engines, plain, is_stream):
    prefill, = engines(1, *LEASE, "--num-gpu-blocks-override", 160, "--max-model-len", 2048)
    decode, = engines(1)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode], **SHORT))
    is_known(prefill)
    decode.arm("slow-head:3000", 1)
    words = prompt("late") * 4
    asked = Asked(vip, words, request_id="late", stream=is_stream)
    wait_until(lambda: expired(prefill) == 1, 10, "the engine has let them go")
    overwrite(prefill)
    assert error(asked.reply()) == (502, "pd_decode_failed")
    assert legs(gateway, "late")[-1][2] == "read_late"
    assert gateway.metric("loxilb_pd_late_reads_total") == 1
    assert "may have read blocks too late" in gateway.log()
    # What the client was spared, and what an operator is told to reset.
    assert not same_text(complete(decode.address, words), plain, words)
    assert same_text(complete(vip, prompt("after")), plain, prompt("after"))


def test_a_stream_whose_head_came_first_ends_with_an_error(gateway, engines, plain):
    prefill, = engines(1, *LEASE, "--num-gpu-blocks-override", 160, "--max-model-len", 2048)
    decode, = engines(1)
    with Late(decode) as late:
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [prefill], [late], **SHORT))
        is_known(prefill)
        words = prompt("late") * 4
        asked = Asked(vip, words, request_id="late", stream=True)
        wait_until(lambda: expired(prefill) == 1, 10, "the engine has let them go")
        overwrite(prefill)
        late.go.set()
        reply = asked.reply()
    assert reply.status == 200
    (event,) = reply.events()
    assert '"pd_decode_failed"' in event
    assert legs(gateway, "late")[-1][2] == "read_late"


def test_a_long_answer_from_blocks_that_were_read_in_time_is_the_clients(gateway, engines, plain):
    prefill, = engines(1, *LEASE)
    decode, = engines(1, "--decode-us-per-token", 500_000)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode], **SHORT))
    is_known(prefill)
    words = prompt("long")
    assert same_text(complete(vip, words, request_id="long"), plain, words)
    assert legs(gateway, "long")[-1][2] == "relayed"
    assert expired(prefill) == 0


def test_what_other_requests_gave_up_does_not_count_against_a_long_answer(gateway, engines, plain):
    prefill, = engines(1, *LEASE)
    decode, = engines(1, "--decode-us-per-token", 700_000)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode], **SHORT))
    is_known(prefill)
    decode.arm("close", 2)
    for _ in range(2):
        assert complete(vip, prompt("died")).status == 502
    words = prompt("long")
    before = expired(prefill)
    assert same_text(complete(vip, words, request_id="long"), plain, words)
    assert expired(prefill) > before
    assert gateway.metric("loxilb_pd_late_reads_total") == 0
