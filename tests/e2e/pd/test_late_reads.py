"""A decode engine that reads blocks when their time is over reads another prompt's, and answers 200.

The gateway sends an object in time, but an engine may stand still before its scheduler hears of it.
What such an engine answers never reaches a client. An answer that only took long does.
"""

import contextlib
import random
import threading

import pytest

from conftest import legs, pd_rule
from gateway import complete
from harness import RawClient, wait_until
from pairs import ask, error, is_known, prompt, same_text
from via import Via

SHORT = {"plugin_config": {"vllm": {"kv_lease_duration": 1}}}
LEASE = ("--kv-lease-ms", 1000, "--num-gpu-blocks-override", 160, "--max-model-len", 2048)


class Asked:
    """A request in a thread; reply() waits for its end."""

    def __init__(self, vip, words, **more):
        self.out = []
        self.thread = threading.Thread(target=lambda: self.out.append(complete(vip, words, **more)))
        self.thread.start()

    def reply(self):
        self.thread.join(60)
        return self.out[0]


class Gate(Via):
    """Generation requests reach the engine when `go` is set; the head of a stream is sent before.
    With `refuses` they are answered with that status instead."""

    def __init__(self, engine, refuses=0, head_first=False):
        self.go, self.refuses, self.head_first = threading.Event(), refuses, head_first
        super().__init__(engine, lambda reply: reply.body)

    def _pass_on(self, call):
        if not call.path.startswith("/v1/completions"):
            super()._pass_on(call)
            return
        if self.head_first:
            call.stream()
        self.go.wait(30)
        if self.refuses:
            call.reply(self.refuses, {"error": {"message": "no", "code": self.refuses}})
        elif self.head_first:
            with RawClient(self.engine.address, 60) as client:
                client.send(call.head + b"\r\n\r\n" + call.body)
                for event in client.read_reply().events():
                    call.event(event)
            call.send(b"0\r\n\r\n")
        else:
            super()._pass_on(call)


def expired(engine):
    return engine.metric("nixl_num_kv_expired_reqs_total")


def overwrite(engine):
    """Other prompts go over every block of an engine."""
    rng = random.Random(1)
    for _ in range(12):
        assert complete(engine.address, [rng.randrange(200, 1000) for _ in range(320)]).status == 200


@contextlib.contextmanager
def at_work(engine):
    """The engine has other requests all the time."""
    done = threading.Event()

    def work():
        while not done.wait(0.1):
            complete(engine.address, prompt())
    thread = threading.Thread(target=work)
    thread.start()
    yield
    done.set()
    thread.join()


@pytest.fixture
def gated(gateway, engines):
    """gated(**Gate's): a rule with a gate before its decode engine; vip, prefill, decode, gate."""
    with contextlib.ExitStack() as ends:
        def make(**how):
            (prefill,), (decode,) = engines(1, *LEASE), engines(1)
            gate = ends.enter_context(Gate(decode, **how))
            vip = gateway.vip()
            gateway.create(pd_rule(vip, [prefill], [gate], **SHORT))
            is_known(prefill)
            return vip, prefill, decode, gate
        yield make


@pytest.fixture
def slow(gateway, engines):
    """slow(us, *flags of prefill): a rule with a decode engine that takes so long for each token."""
    def make(us, *flags):
        (prefill,), (decode,) = engines(1, *LEASE, *flags), engines(1, "--decode-us-per-token", us)
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [prefill], [decode], **SHORT))
        is_known(prefill)
        return vip, prefill, decode
    return make


@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answer_from_blocks_that_were_let_go_is_dropped(gateway, gated, plain, is_stream):
    vip, prefill, decode, gate = gated()
    words = prompt("late") * 4
    asked = Asked(vip, words, request_id="late", stream=is_stream)
    wait_until(lambda: expired(prefill) == 1, 10, "the engine has let them go")
    overwrite(prefill)
    gate.go.set()
    assert error(asked.reply()) == (502, "pd_decode_failed")
    assert legs(gateway, "late")[-1][2] == "read_late"
    assert gateway.metric("loxilb_pd_late_reads_total") == 1
    assert "may have read blocks too late" in gateway.log()
    # What the client was spared, and what an operator is told to reset.
    assert not same_text(complete(decode.address, words), plain, words)
    words = prompt("after")
    assert same_text(complete(vip, words), plain, words)


def test_a_stream_whose_head_came_first_ends_with_an_error(gateway, gated):
    vip, prefill, _, gate = gated(head_first=True)
    asked = Asked(vip, prompt("late") * 4, request_id="late", stream=True)
    wait_until(lambda: expired(prefill) == 1, 10, "the engine has let them go")
    overwrite(prefill)
    gate.go.set()
    reply = asked.reply()
    assert reply.status == 200
    (event,) = reply.events()
    assert '"pd_decode_failed"' in event
    assert legs(gateway, "late")[-1][2] == "read_late"


def test_an_error_that_comes_late_is_the_clients(gateway, gated):
    vip, prefill, _, gate = gated(refuses=422)
    asked = Asked(vip, prompt("late"), request_id="late")
    wait_until(lambda: expired(prefill) == 1, 10, "the engine has let them go")
    gate.go.set()
    assert asked.reply().status == 422
    assert legs(gateway, "late")[-1][2] == "relayed"
    assert gateway.metric("loxilb_pd_late_reads_total") == 0


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_long_answer_from_blocks_that_were_read_in_time_is_the_clients(
        gateway, slow, plain, is_stream):
    vip, prefill, _ = slow(500_000)
    words = prompt("long")
    reply = complete(vip, words, request_id="long", stream=is_stream)
    assert reply.status == 200 and (is_stream or same_text(reply, plain, words))
    assert legs(gateway, "long")[-1][2] == "relayed"
    assert expired(prefill) == 0


@pytest.mark.parametrize("is_at_work, ranks", [(False, 1), (True, 1), (True, 2)])
def test_what_others_gave_up_counts_while_the_engine_does_not_say_whose_it_was(
        gateway, slow, plain, is_at_work, ranks):
    """An engine at work would have heard of a late read; one that is not may not have, nor one of
    whose ranks another is."""
    vip, prefill, decode = slow(700_000, *(["--data-parallel-size", ranks] if ranks > 1 else []))
    decode.arm("close", 1)
    assert complete(vip, prompt("died")).status == 502
    words = prompt("long")
    with at_work(prefill) if is_at_work else contextlib.nullcontext():
        reply = complete(vip, words, request_id="long")
    assert expired(prefill) == 1
    is_sure = is_at_work and ranks == 1
    if is_sure:
        assert same_text(reply, plain, words)
    else:
        assert error(reply) == (502, "pd_decode_failed")
    assert gateway.metric("loxilb_pd_late_reads_total") == (0 if is_sure else 1)


def test_a_long_answer_whose_prefill_was_taken_out_meanwhile_waits_for_no_word(
        gateway, slow, engines, plain):
    vip, prefill, decode = slow(700_000)
    (other,) = engines(1)
    words = prompt("long")
    asked = Asked(vip, words, request_id="long")
    wait_until(lambda: decode.metric("num_requests_running") == 1, 10, "decode computes")
    gateway.create(pd_rule(vip, [other], [decode], **SHORT))
    assert same_text(asked.reply(), plain, words)


def test_a_client_that_leaves_while_its_answer_is_kept_back_has_left(gateway, slow):
    vip, _, decode = slow(500_000)
    with RawClient(vip) as client:
        ask(client, "left", prompt("left"))
        wait_until(lambda: decode.metric("request_success_total") == 1, 20, "decode has answered")
    assert gateway.receipt("left")["outcome"] == "client_closed"
    assert legs(gateway, "left")[-1][2] != "read_late"
    assert gateway.metric("loxilb_pd_late_reads_total") == 0
    wait_until(lambda: gateway.metric("loxilb_pd_leases_outstanding") == 0, 10, "it has ended")
