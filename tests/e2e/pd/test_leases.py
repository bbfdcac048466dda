"""Blocks that wait for a decode engine: given back when a client leaves, counted by endpoint, never read
from another process than the one that computed them."""

import json

import pytest

from conftest import held, legs, pd_rule
from gateway import complete, free_port, rule
from harness import RawClient, wait_until
from pairs import ask, is_known, posts, prompt, same_text, text_of
from raw_engine import RawEngine
from tap import Tap

LONG = {"plugin_config": {"vllm": {"kv_lease_duration": 120}}}
LONG_FLAGS = ("--kv-lease-ms", 120_000)


def ended(engine):
    """How the hand-offs of an engine ended: read or expired."""
    rank, = engine.get("/sim/leases").json()["ranks"]
    return rank["read"], rank["expired"]


def handed(request):
    return json.loads(request["body"]).get("kv_transfer_params")


@pytest.mark.parametrize("streams", [False, True])
def test_when_a_client_leaves_after_prefill_the_decode_leg_gives_the_blocks_back(
        gateway, engines, plain, streams):
    (prefill,), (decode,) = engines(1, *LONG_FLAGS), engines(1)
    words = prompt()
    with Tap(decode.address) as door:
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [prefill], [door], **LONG))
        door.hold()
        with RawClient(vip) as client:
            ask(client, "left", words, stream=streams)
            wait_until(lambda: b"kv_transfer_params" in door.kept, 10, "decode was asked")
        assert gateway.receipt("left")["outcome"] == "client_closed"
        assert len(held(prefill)) == 1
        door.pass_on()
        wait_until(lambda: not held(prefill), 20, "the blocks are free")
        assert ended(prefill) == (1, 0)
        assert gateway.metric("loxilb_pd_leases_outstanding") == 0
        assert gateway.metric("loxilb_pd_leases_total", end="released") == 1
        assert same_text(complete(vip, words), plain, words)


def test_a_client_that_leaves_while_prefill_computes_leaves_no_blocks_behind(gateway, engines, plain):
    (prefill,), (decode,) = engines(1, "--prefill-us-per-token", 50_000, *LONG_FLAGS), engines(1)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode], **LONG))
    with RawClient(vip) as client:
        ask(client, "gone")
        wait_until(lambda: prefill.metric("num_requests_running") == 1, 10, "it computes")
    assert gateway.receipt("gone")["outcome"] == "client_closed"
    wait_until(lambda: prefill.metric("num_requests_running") == 0, 10, "it stopped")
    assert not held(prefill) and ended(prefill) == (0, 0)
    assert not posts(decode)
    assert gateway.metric("loxilb_pd_leases_outstanding") == 0


def test_hand_offs_are_counted_for_the_endpoint_that_holds_the_blocks(gateway, engines):
    prefills, (decode,) = engines(2, "--kv-lease-ms", 1000), engines(1)
    vip = gateway.vip()
    made = gateway.create(pd_rule(vip, prefills, [decode],
                                  plugin_config={"vllm": {"kv_lease_duration": 1}}))
    index = {f"{e['endpointIP']}:{e['targetPort']}": str(e["ep_idx"]) for e in made["endpoints"]}

    def outstanding(address):
        return gateway.metric("loxilb_pd_leases_outstanding", ep_idx=index[address])

    decode.arm("status:400", 0)
    assert complete(vip, prompt(), request_id="no").status == 400
    used = legs(gateway, "no")[0][1]
    other = next(e.address for e in prefills if e.address != used)
    assert outstanding(other) == 0
    wait_until(lambda: outstanding(used) == 0, 20, "its time has passed")
    assert gateway.metric("loxilb_pd_leases_total", end="expired") == 1
    assert gateway.metric("loxilb_pd_leases_total", end="read") == 0
    wait_until(lambda: sum(ended(e)[1] for e in prefills) == 1, 20, "the engine let them go")


def test_e8_a_request_that_decode_refuses_leaves_one_lease_that_is_counted(gateway, engines):
    prefills, (decode,) = engines(2, *LONG_FLAGS), engines(1)
    vip = gateway.vip()
    made = gateway.create(pd_rule(vip, prefills, [decode], **LONG))
    for prefill in prefills:
        is_known(prefill)
    decode.arm("status:400", 0)
    reply = complete(vip, prompt(), request_id="no")
    assert reply.status == 400 and reply.header("Content-Type").startswith("application/json")
    used = legs(gateway, "no")[0][1]
    for row in made["endpoints"][:2]:
        address = f"{row['endpointIP']}:{row['targetPort']}"
        assert gateway.metric("loxilb_pd_leases_outstanding",
                              ep_idx=str(row["ep_idx"])) == (address == used)
    # What prefill can see is wrong before it computed never gets as far.
    asked = len(posts(decode))
    assert complete(vip, prompt(), temperature=-1).status == 400
    assert len(posts(decode)) == asked
    assert gateway.metric("loxilb_pd_leases_outstanding") == 1


def test_a_decode_that_never_answers_holds_up_no_refusal_of_its_own(gateway, engines):
    prefill, = engines(1, *LONG_FLAGS)

    def refuse_once(call):
        if not call.body:
            return call.reply(404)
        if sum(bool(c.body) for c in decode.calls) == 1:
            return call.reply(400, {"error": {"message": "no", "code": 400}})
        return call.hang()

    with RawEngine(refuse_once) as decode:
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [prefill], [decode], **LONG))
        assert complete(vip, prompt(), request_id="no").status == 400
        assert [leg[0::2] for leg in legs(gateway, "no")] == [
            ("prefill", "handed_over"), ("decode", "relayed"), ("decode", "released")]
        # The object went out a second time because it was refused the first time, and never again.
        assert sum(bool(c.body) for c in decode.calls) == 2
        assert all(e["inflight"] == 0 for e in gateway.rules()[0]["endpoints"])


# --- another process

def is_known(engine):
    """The gateway asks it again: it has read what this process said first."""
    return sum(r["target"] == "/metrics" for r in engine.requests()) >= 2


@pytest.mark.parametrize("policy", ["fail", "recompute"])
@pytest.mark.parametrize("noticed", [True, False])
def test_e12_blocks_of_a_prefill_that_started_anew_are_not_read(
        gateway, engines, plain, noticed, policy):
    (prefill,) = engines(1, "--side-channel-port", free_port(), *LONG_FLAGS)
    (decode,) = engines(1, "--kv-load-failure-policy", policy)
    words = prompt()
    with Tap(decode.address, is_shut=True) as shut:
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [prefill], [shut], timeouts={"connect_ms": 60_000}, **LONG))
        wait_until(lambda: is_known(prefill), 20, "the gateway knows the process")
        with RawClient(vip, limit_s=90) as client:
            ask(client, "restarted", words)
            wait_until(lambda: gateway.metric("loxilb_ai_pd_kv_params_found_total") == 1, 20,
                       "prefill has answered")
            old = prefill.get("/sim/leases").json()["ranks"][0]["engine_id"]
            prefill.restart()
            assert prefill.get("/sim/leases").json()["ranks"][0]["engine_id"] != old
            if noticed:
                wait_until(lambda: is_known(prefill), 20, "the gateway knows of the other one")
            shut.open_up()
            assert same_text(client.read_reply(), plain, words)
        sent = [handed(r) for r in posts(decode)]
        if noticed:
            assert old not in [s["remote_engine_id"] for s in sent if s]
        # Nothing wrong was left in a cache.
        assert same_text(complete(decode.address, words), plain, words)
        assert same_text(complete(vip, words, request_id="then"), plain, words)
        assert [leg[0::2] for leg in legs(gateway, "then")] == [
            ("prefill", "handed_over"), ("decode", "relayed")]
    wait_until(lambda: gateway.metric("loxilb_pd_leases_outstanding") == 0, 10, "no lease is out")


def test_a_decode_that_started_anew_between_the_legs_reads_them_all_the_same(gateway, engines, plain):
    (prefill,), (decode,) = engines(1, *LONG_FLAGS), engines(1)
    words = prompt()
    with Tap(decode.address, is_shut=True) as shut:
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [prefill], [shut], timeouts={"connect_ms": 60_000}, **LONG))
        is_known(prefill)
        with RawClient(vip, limit_s=90) as client:
            ask(client, "fresh", words)
            wait_until(lambda: gateway.metric("loxilb_ai_pd_kv_params_found_total") == 1, 20,
                       "prefill has answered")
            decode.restart()
            shut.open_up()
            assert same_text(client.read_reply(), plain, words)
    assert [leg[0::2] for leg in legs(gateway, "fresh")] == [
        ("prefill", "handed_over"), ("decode", "relayed")]
    wait_until(lambda: not held(prefill), 10, "they were read")


# --- client_handoff_fields: pass

ASK = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None,
       "remote_block_ids": None, "remote_host": None, "remote_port": None}


def test_with_pass_another_orchestrator_runs_both_legs_through_rules_without_pairs(
        gateway, engines, plain):
    prefill, decode = engines(2)
    vips = [gateway.vip(), gateway.vip()]
    for vip, engine in zip(vips, (prefill, decode)):
        gateway.create(rule(vip, [engine.address], client_handoff_fields="pass"))
    words = prompt()
    first = complete(vips[0], words, request_id="theirs", max_tokens=1, kv_transfer_params=ASK)
    known = first.json()["kv_transfer_params"]
    assert len(held(prefill)) == 1 and known["do_remote_prefill"] is True
    second = complete(vips[1], words, request_id="theirs", kv_transfer_params=known)
    assert same_text(second, plain, words)
    wait_until(lambda: not held(prefill), 10, "they were read")
    assert handed(posts(decode)[0]) == known


def test_with_pass_a_pair_still_hands_over_only_what_its_own_prefill_gave(gateway, engines, plain):
    prefill, decode, stranger = engines(3)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode], client_handoff_fields="pass"))
    foreign = complete(stranger.address, prompt(), max_tokens=1,
                       kv_transfer_params=ASK).json()["kv_transfer_params"]
    for value in (foreign, {"do_remote_prefill": True}, "x", None):
        words = prompt()
        assert same_text(complete(vip, words, kv_transfer_params=value), plain, words)
        assert handed(posts(prefill)[-1]) == ASK
        given = handed(posts(decode)[-1])
        assert given["do_remote_prefill"] is True
        assert given["remote_engine_id"] != foreign["remote_engine_id"]


@pytest.mark.parametrize("policy", ["drop", None])
def test_without_pass_a_clients_fields_reach_no_engine_of_any_rule(gateway, engines, plain, policy):
    prefill, decode = engines(2)
    fields = {"client_handoff_fields": policy} if policy else {}
    vips = [gateway.vip(), gateway.vip()]
    gateway.create(rule(vips[0], [decode.address], **fields))
    gateway.create(pd_rule(vips[1], [prefill], [decode], pd_min_prompt_tokens=100_000, **fields))
    words = prompt()
    for vip in vips:
        assert same_text(complete(vip, words, kv_transfer_params={"do_remote_prefill": True}), plain,
                         words)
    assert all(not handed(r) for r in posts(decode)) and len(posts(decode)) == 2
