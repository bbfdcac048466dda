"""One test a row of what can fail on either leg. The text is never a wrong one."""

import json

import pytest

from conftest import held, legs, pd_rule
from gateway import API, complete, free_port, split_address
from harness import RawClient, exchange, request_bytes, wait_until
from pairs import error, header, message, posts, prompt, same_text
from via import Via


# --- prefill

def test_a_prefill_that_refuses_connections_is_replaced(gateway, pool, plain):
    vip, (first, second), (decode,), _ = pool(2, 1)
    first.kill()
    for i in range(4):
        words = prompt()
        assert same_text(complete(vip, words, request_id=f"f{i}"), plain, words)
    assert gateway.metric("loxilb_pd_connect_failover_total") >= 1
    ids = {header(r, "X-Request-Id") for r in posts(second)}
    assert len(ids) == 4


def test_when_all_prefills_refuse_it_is_said(gateway, pool):
    vip, prefills, _, _ = pool(2, 1)
    for p in prefills:
        p.kill()
    reply = complete(vip, prompt())
    assert error(reply) == (503, "pd_pool_unavailable")
    assert message(reply) == "all prefill endpoints unreachable"
    assert reply.header("Retry-After")


@pytest.mark.parametrize("fault", ["reset", "close"])
def test_a_prefill_that_dies_is_asked_once_more(gateway, pool, plain, fault):
    vip, (prefill,), _, _ = pool(1, 1)
    prefill.arm(fault)
    words = prompt()
    assert same_text(complete(vip, words, request_id="again"), plain, words)
    ids = [header(r, "X-Request-Id") for r in posts(prefill)]
    assert len(ids) == 2 and ids[0] != ids[1]
    assert gateway.metric("loxilb_pd_prefill_ep_died_total") == 1
    prefill.arm(fault, 0)
    reply = complete(vip, prompt())
    assert error(reply) == (503, "pd_pool_unavailable")
    assert message(reply) == "prefill backend connection dropped"


def test_a_slow_prefill_is_a_timeout(gateway, pool):
    vip, (prefill,), (decode,), _ = pool(1, 1, pd_prefill_timeout_ms=300)
    prefill.arm("hang")
    assert error(complete(vip, prompt())) == (504, "pd_prefill_timeout")
    assert not posts(decode)
    wait_until(lambda: gateway.metric("loxilb_ai_pd_requests_total", phase="prefill",
                                      status="timeout") == 1, 5, "it is counted")


def test_a_4xx_of_prefill_is_the_clients(gateway, pool):
    vip, _, (decode,), _ = pool(1, 1)
    reply = exchange(vip, "POST", "/v1/completions",
                     {"model": "tiny", "prompt": prompt(), "temperature": -1, "stream": True})
    assert reply.status == 400 and reply.header("Content-Type").startswith("application/json")
    assert not posts(decode)
    assert gateway.metric("loxilb_pd_sg_prefill_reject_relay_total") == 1


def test_a_5xx_of_prefill_goes_elsewhere_and_then_decode_computes(gateway, pool, plain):
    vip, (first, second), (decode,), _ = pool(2, 1)
    words = prompt()
    for engine in (first, second):
        engine.arm("status:500", 0)
    for i in range(3):
        assert same_text(complete(vip, words, request_id=f"c{i}"), plain, words)
    assert legs(gateway, "c0")[-1][0] == "whole"
    assert gateway.metric("loxilb_pd_recomputed_total") >= 1


def test_e11_a_busy_prefill_is_load_and_no_fault(gateway, pool, plain):
    vip, (prefill,), _, _ = pool(1, 1)
    prefill.arm("status:429", 8)
    for _ in range(8):
        assert complete(vip, prompt()).status == 429
    words = prompt()
    assert same_text(complete(vip, words), plain, words)
    breakers = {e["breaker"] for e in gateway.rules()[0]["endpoints"]}
    assert breakers == {"closed"}


class Busy(Via):
    """A prefill that says it is busy so many times, and then is not."""

    def __init__(self, engine, times):
        self.left = times
        super().__init__(engine, lambda reply: reply.body)

    def _pass_on(self, call):
        if call.body and self.left > 0:
            self.left -= 1
            return call.reply(503, {"error": {"message": "The server is busy", "code": 503}})
        return super()._pass_on(call)


@pytest.mark.parametrize("others", [0, 1])
def test_e11_a_prefill_that_says_it_is_busy_is_used_again_at_once(gateway, engines, plain, others):
    prefill, decode = engines(2)
    spare = engines(others)
    with Busy(prefill, 8) as busy:
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [busy, *spare], [decode]))
        while busy.left > 0:
            words = prompt()
            reply = complete(vip, words)
            if spare:
                assert same_text(reply, plain, words)
            else:
                assert reply.status == 503 and reply.header("Retry-After")
        assert {e["breaker"] for e in gateway.rules()[0]["endpoints"]} == {"closed"}
        for _ in range(4):
            words = prompt()
            assert same_text(complete(vip, words), plain, words)
        assert posts(prefill)


def test_b3_a_client_that_leaves_in_prefill_ends_it(gateway, pool):
    vip, (prefill,), (decode,), _ = pool(1, 1)
    prefill.arm("hang")
    with RawClient(vip) as client:
        client.send(request_bytes("POST", "/v1/completions",
                                  {"model": "tiny", "prompt": prompt(), "max_tokens": 2},
                                  [("X-Request-Id", "gone")]))
        wait_until(lambda: posts(prefill), 10, "prefill was asked")
    receipt = gateway.receipt("gone")
    assert receipt["outcome"] == "client_closed"
    assert not posts(decode)
    assert gateway.rules()[0]["endpoints"][0]["inflight"] == 0


# --- between the legs

def test_no_healthy_prefill_or_decode_is_said(gateway, engines):
    prefill, = engines(1)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [f"127.0.0.1:{free_port()}"], monitor=True,
                           probetype="http", probeport=1, probereq="/health", probeTimeout=1,
                           probeRetries=1))
    wait_until(lambda: all(e["state"] == "inactive" for e in gateway.rules()[0]["endpoints"]), 20,
               "probes took them out")
    reply = complete(vip, prompt())
    assert error(reply) == (503, "pd_pool_unavailable")
    assert message(reply) == "no healthy prefill or decode endpoint"


def test_an_endpoint_without_a_role_serves_in_need(gateway, pool, plain):
    vip, (prefill,), _, (spare,) = pool(1, 1, 1)
    prefill.kill()
    words = prompt()
    assert same_text(complete(vip, words, request_id="need"), plain, words)
    assert legs(gateway, "need")[-1][:2] == ("whole", spare.address)
    assert gateway.receipt("need")["legs"][-1]["tier"] == "rescue"
    assert gateway.metric("loxilb_pd_fallback_to_normal_total") == 1


def test_decode_serves_alone_if_the_rule_says_so(gateway, pool, plain):
    vip, (prefill,), (decode,), _ = pool(1, 1, pd_decode_only_fallback=True)
    prefill.kill()
    words = prompt()
    assert same_text(complete(vip, words), plain, words)
    assert "kv_transfer_params" not in json.loads(posts(decode)[0]["body"])


def test_e7_a_decode_that_is_gone_leaves_a_lease_that_ends(gateway, pool):
    vip, (prefill,), (decode,), _ = pool(1, 1, flags=("--kv-lease-ms", 3000))
    decode.kill()
    reply = complete(vip, prompt())
    assert error(reply) == (503, "pd_pool_unavailable")
    assert message(reply) == "decode endpoint unreachable"
    assert gateway.metric("loxilb_pd_leases_outstanding") == 1


def weighed(gateway, body, address, weight):
    host, port = split_address(address)
    rows = [{**e, "weight": weight} if (e["endpointIP"], e["targetPort"]) == (host, port) else e
            for e in body["endpoints"]]
    gateway.create({**body, "endpoints": rows})


def host_state(gateway, address, state):
    host, port = split_address(address)
    state = {"hostName": host, "epPort": port, "state": state}
    assert exchange(gateway.api, "POST", f"{API}/config/endpointhoststate", state).status == 200


@pytest.mark.parametrize("spare", [0, 1])
@pytest.mark.parametrize("how", ["weight 0", "yellow", "replaced"])
def test_a_decode_that_drains_finishes_what_was_prefilled_for_it(gateway, engines, plain, how, spare):
    prefill, decode, fresh, *others = engines(3 + spare)
    vip = gateway.vip()
    body = pd_rule(vip, [prefill], [decode, *others])
    gateway.create(body)
    prefill.arm("slow-head:1500", 1)
    for other in others:
        host_state(gateway, other.address, "yellow")
    with RawClient(vip, limit_s=30) as client:
        words = prompt("in time")
        asked = {"model": "tiny", "prompt": words, "max_tokens": 4}
        client.send(request_bytes("POST", "/v1/completions", asked, [("X-Request-Id", "drained")]))
        wait_until(lambda: posts(prefill), 10, "it is at prefill")
        for other in others:
            host_state(gateway, other.address, "green")
        if how == "weight 0":
            weighed(gateway, body, decode.address, 0)
        elif how == "yellow":
            host_state(gateway, decode.address, "yellow")
        else:
            gateway.create(pd_rule(vip, [prefill], [fresh, *others]))
        assert same_text(client.read_reply(), plain, words)
    served = legs(gateway, "drained")
    assert [kind for kind, _, _ in served] == ["prefill", "decode"]
    # Rather one that takes new work, if the request knew of one.
    assert served[1][1] == (others[0] if spare else decode).address
    after = complete(vip, prompt())
    if spare or how == "replaced":
        assert after.status == 200
    else:
        assert error(after) == (503, "pd_pool_unavailable")
    assert len(posts(decode)) == (0 if spare else 1)


def test_another_decode_gets_the_same_hand_off(gateway, pool, plain):
    vip, (prefill,), (first, second), _ = pool(1, 2)
    first.kill()
    for _ in range(3):
        words = prompt()
        assert same_text(complete(vip, words), plain, words)
    assert all("kv_transfer_params" in json.loads(r["body"]) for r in posts(second))
    assert not held(prefill)


# --- decode

def test_a10_a_4xx_of_decode_is_relayed_and_the_blocks_are_given_back(gateway, pool):
    vip, (prefill,), (decode,), _ = pool(1, 1)
    decode.arm("status:400")
    reply = exchange(vip, "POST", "/v1/completions",
                     {"model": "tiny", "prompt": prompt(), "stream": True},
                     [("X-Request-Id", "refused")])
    assert reply.status == 400 and reply.header("Content-Type").startswith("application/json")
    assert [leg[0::2] for leg in legs(gateway, "refused")] == [
        ("prefill", "handed_over"), ("decode", "relayed"), ("decode", "released")]
    assert gateway.metric("loxilb_pd_leases_outstanding") == 0
    assert not held(prefill)


def test_e8_a_4xx_of_decode_that_refuses_to_give_back_is_counted_as_a_lease(gateway, pool):
    vip, _, (decode,), _ = pool(1, 1)
    decode.arm("status:400", 0)
    assert complete(vip, prompt(), request_id="kept").status == 400
    assert gateway.receipt("kept")["legs"][-1]["verdict"] == "refused"
    assert gateway.metric("loxilb_pd_leases_outstanding") == 1


@pytest.mark.parametrize("fields", [
    {"stream_options": {"include_usage": True}}, {"max_tokens": -1}, {"max_tokens": "abc"},
    {"min_tokens": 9, "max_tokens": 4}, {"stream": "maybe"}])
def test_what_only_decode_would_refuse_is_not_prefilled(gateway, pool, plain, fields):
    vip, (prefill,), _, _ = pool(1, 1)
    body = {"model": "tiny", "prompt": prompt(), "max_tokens": 4, **fields}
    ours, theirs = (exchange(a, "POST", "/v1/completions", body) for a in (vip, plain.address))
    assert ours.status == theirs.status == 400
    assert not posts(prefill)


@pytest.mark.parametrize("fault", ["reset", "close"])
def test_a_decode_that_ends_without_a_byte_is_said(gateway, pool, fault):
    vip, _, (decode,), _ = pool(1, 1)
    decode.arm(fault)
    assert error(complete(vip, prompt())) == (502, "pd_decode_backend_died")
    assert len(posts(decode)) == 1
    assert gateway.metric("loxilb_pd_decode_zero_byte_eof_total") == 1


def test_a_decode_that_does_not_begin_in_time_is_a_timeout(gateway, pool):
    vip, _, (decode,), _ = pool(1, 1, pd_decode_first_byte_ms=300)
    decode.arm("hang")
    assert error(complete(vip, prompt())) == (504, "pd_decode_timeout")


@pytest.mark.parametrize("fault, code", [("cut-after:2", "stream_truncated"),
                                         ("reset-after:2", "stream_truncated"),
                                         ("stall-after:2", "pd_decode_stream_timeout")])
def test_a_stream_that_breaks_off_says_so_in_its_last_event(gateway, pool, fault, code):
    vip, _, (decode,), _ = pool(1, 1, timeouts={"chunk_gap_ms": 500})
    decode.arm(fault)
    reply = exchange(vip, "POST", "/v1/completions",
                     {"model": "tiny", "prompt": prompt(), "max_tokens": 8, "stream": True})
    events = reply.events()
    assert "[DONE]" not in events
    assert json.loads(events[-1])["error"]["code"] == code


def test_a_failed_transfer_is_run_once_more_with_new_ids(gateway, pool, plain):
    vip, (prefill,), (decode,), _ = pool(1, 1)
    decode.arm("status:500")
    words = prompt()
    assert same_text(complete(vip, words, request_id="twice"), plain, words)
    kinds = [leg[0] for leg in legs(gateway, "twice")]
    assert kinds == ["prefill", "decode", "prefill", "decode"]
    ids = [header(r, "X-Request-Id") for r in posts(decode)]
    assert len(set(ids)) == 2
    objects = [json.loads(r["body"])["kv_transfer_params"]["remote_request_id"]
               for r in posts(decode)]
    assert len(set(objects)) == 2


def test_a_client_that_leaves_after_prefill_lets_the_blocks_go(gateway, pool):
    vip, (prefill,), (decode,), _ = pool(1, 1)
    decode.arm("slow-head:3000")
    with RawClient(vip) as client:
        client.send(request_bytes("POST", "/v1/completions",
                                  {"model": "tiny", "prompt": prompt(), "max_tokens": 2},
                                  [("X-Request-Id", "left")]))
        wait_until(lambda: posts(decode), 10, "decode was asked")
    assert gateway.receipt("left")["outcome"] == "client_closed"
    assert gateway.metric("loxilb_pd_leases_outstanding") == 0
    assert gateway.metric("loxilb_pd_leases_total", end="released") == 1


def test_a_hand_off_whose_time_is_half_over_is_not_passed_on(gateway, engines, plain):
    prefill, = engines(1, "--kv-lease-ms", 2000)
    late, decode = engines(2)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [late, decode], plugin_config={
        "vllm": {"kv_lease_duration": 1}}, timeouts={"connect_ms": 1000}))
    words = prompt()
    assert same_text(complete(vip, words), plain, words)


def test_ti_a_breaker_takes_a_prefill_out_and_another_serves(gateway, pool, plain):
    vip, (first, second), _, _ = pool(2, 1, breaker={"failures": 2, "open_ms": 60000})
    first.arm("reset", 0)
    for _ in range(6):
        words = prompt()
        assert same_text(complete(vip, words), plain, words)
    states = {e["targetPort"]: e["breaker"] for e in gateway.rules()[0]["endpoints"]}
    assert states[int(first.address.rsplit(":", 1)[1])] == "open"
    assert len(posts(first)) == 2
    assert gateway.metric("loxilb_pd_cb_flips_total") == 1
