"""What goes wrong between the legs never gives a wrong text, and the blocks come back."""
import time

import pytest

from answers import say
from harness import RawClient, request_bytes, wait_until
from pair import LEASE_S
from tap import Tap


def leave(pair, ask, when, name):
    """Asks and goes when `when()` is true."""
    path, body = ask
    with RawClient(pair.vip, limit_s=60) as client:
        client.send(request_bytes("POST", path, body, [("X-Request-Id", name)]))
        wait_until(when, 60, "the moment to leave")


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_client_that_leaves_between_the_legs_lets_the_blocks_go(pair, is_streamed):
    pair.check(pair.ids(700))  # an engine's first request can take longer than the lease
    took = []
    for i in range(5):
        ask = pair.ids(700)
        ask = pair.streamed(ask) if is_streamed else ask
        expired = pair.expired()
        name = f"left-{is_streamed}-{i}"
        pair.door.hold()
        try:
            leave(pair, ask, lambda: b"kv_transfer_params" in pair.door.kept, name)
            wait_until(pair.is_holding, 3, "prefill shows that it holds the blocks")
        finally:
            # At once: an engine that hears of a request when its sender is gone may drop it unread.
            pair.door.pass_on()
        took.append(pair.wait_blocks_back())
        assert pair.gateway.receipt(name)["outcome"] == "client_closed"
        assert pair.expired() == expired, "the blocks came back only when their time was over"
        assert pair.gateway.metric("loxilb_pd_leases_outstanding") == 0
        pair.check(ask)
    say([f"client gone between the legs: 0 wrong of {len(took)}, blocks back within {max(took):.2f} s"])


def test_decode_that_is_reached_when_the_blocks_are_gone_is_not_given_the_hand_off(pair):
    ask = pair.ids(900)
    want = pair.right(ask)
    begun, expired = time.monotonic(), pair.expired()
    with Tap(pair.decode.address, is_shut=True) as shut:
        vip = pair.rule([shut.address], timeouts={"connect_ms": 170_000})
        answer = pair.background(ask, vip)
        wait_until(pair.is_holding, 60, "prefill has answered")
        wait_until(lambda: pair.expired() > expired, 60, "the engine let the blocks go")
        gone_s = time.monotonic() - begun
        pair.overwrite_prefill()
        shut.open_up()
        got, name = answer()
    assert not pair.differs(got, want), pair.differs(got, want)
    legs = pair.legs(name)
    say([f"lease run out: right, legs {legs}, blocks gone after {gone_s:.1f} s of {LEASE_S}"])
    assert legs == [("prefill", "handed_over"), ("decode", "outdated"), ("decode", "relayed")]
    pair.check(ask)


def test_an_old_hand_off_is_dropped_on_the_way_to_another_decode_engine(pair):
    outstanding = "loxilb_pd_leases_outstanding"
    wait_until(lambda: pair.gateway.metric(outstanding) == 0, 60, "no hand-off is out")
    dropped = pair.gateway.metric("loxilb_pd_recomputed_total")
    asks = [pair.ids(600), pair.ids(600)]
    wants = [pair.right(ask) for ask in asks]
    with Tap(pair.decode.address, is_shut=True) as shut:
        vip = pair.rule([shut.address, pair.door.address],
                        timeouts={"connect_ms": LEASE_S * 1000})
        # By load: while one of them is at the door, the other is sent where nobody gets in.
        pair.door.hold()
        try:
            answers = [pair.background(ask, vip) for ask in asks]
            wait_until(lambda: pair.gateway.metric(outstanding) == 2, 60, "both are handed over")
        finally:
            pair.door.pass_on()
        told = [answer() for answer in answers]
    problems = [pair.differs(got, want) for (got, _), want in zip(told, wants)]
    assert not any(problems), problems
    first, second = sorted((pair.legs(name) for _, name in told), key=len)
    say([f"late decode: 0 wrong of 2, legs {first}, {second}"])
    assert first == [("prefill", "handed_over"), ("decode", "relayed")]
    assert second[:2] == [("prefill", "handed_over"), ("decode", "outdated")]
    assert second[-1] == ("decode", "relayed")
    assert pair.gateway.metric("loxilb_pd_recomputed_total") == dropped + 1
    pair.wait_blocks_back()
    for ask in asks:
        pair.check(ask)


WEAPONS = {
    "alone": lambda known: {"do_remote_prefill": True},
    "remote decode": lambda known: {"do_remote_decode": True},
    "no object": lambda known: "x",
    "null": lambda known: None,
    "empty": lambda known: {},
    "foreign": lambda known: known,
    "no request id": lambda known: {k: v for k, v in known.items() if k != "remote_request_id"},
    "unknown request id": lambda known: {**known, "remote_request_id": "cmpl-nobody-0"},
    "no blocks": lambda known: {**known, "remote_block_ids": None},
    "empty group": lambda known: {**known, "remote_block_ids": [[]]},
    "flat": lambda known: {**known, "remote_block_ids": [1, 2, 3]},
    "too few": lambda known: {**known, "remote_block_ids": [[1]]},
    "out of range": lambda known: {**known, "remote_block_ids": [[10 ** 6] * 40]},
    "other engine": lambda known: {**known, "remote_engine_id": "nobody"},
    "dead port": lambda known: {**known, "remote_port": 1},
}


def test_a_clients_own_transfer_fields_do_no_harm(pair):
    # A true object of another prompt, whose blocks are held as long as this takes.
    asked = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None,
             "remote_block_ids": None, "remote_host": None, "remote_port": None}
    first, _ = pair.send(pair.prefill.address, pair.ids(800), kv_transfer_params=asked)
    known = first.json()["kv_transfer_params"]
    assert known["do_remote_prefill"] is True
    count = 0
    for title, make in WEAPONS.items():
        for ask in (pair.ids(500), pair.chat(), pair.streamed(pair.text(100))):
            want = pair.right(ask)
            got, name = pair.through(ask, kv_transfer_params=make(known))
            assert not pair.differs(got, want), f"{title}: {pair.differs(got, want)}"
            assert pair.legs(name)[-1] == ("decode", "relayed"), title
            count += 1
    ask = pair.ids(500)
    want = pair.right(ask)
    got, _ = pair.through(ask, vllm_xargs={"kv_transfer_params": "x"})
    assert not pair.differs(got, want)
    assert all(engine.is_ready() for engine in pair.engines)
    pair.wait_blocks_back()
    say([f"clients' own transfer fields: 0 wrong of {count + 1}, the engines live"])


def test_a_prefill_killed_between_the_legs_costs_no_wrong_text(pair):
    results = []
    for i in range(2):
        known = pair.ids(400)
        assert pair.legs(pair.check(known))[0] == ("prefill", "handed_over")
        ask = pair.ids(800) if i else pair.streamed(pair.text(200))
        want = pair.right(ask)
        pair.door.hold()
        try:
            answer = pair.background(ask)
            wait_until(lambda: b"kv_transfer_params" in pair.door.kept, 60, "decode was asked")
            pair.prefill.kill()
        finally:
            pair.door.pass_on()
        got, name = answer()
        assert not pair.differs(got, want), pair.differs(got, want)
        results.append(pair.legs(name))
        assert results[-1][-1][0] == "whole"
        # Decode alone as long as there is no prefill.
        for _ in range(5):
            pair.check(pair.chat())
        pair.prefill.start()
        pair.prefill.wait_ready()

        def is_split():
            return pair.legs(pair.check(pair.ids(200)))[0] == ("prefill", "handed_over")
        wait_until(is_split, 60, "prefill is used again")
        pair.check(ask)
    say(["prefill killed between the legs: 0 wrong", *(f"  {legs}" for legs in results)])
