"""The symptom table of the integration page: what an operator sees, one test a row."""

import pytest

from gateway import API, complete
from harness import MINI_TOKENIZER, exchange, start_trt, wait_until

from world import BLOCK, PROMPT, ask, key_path, kv_of, trt_rule, wait_kv


def start(gateway, pool, **fields):
    vip = gateway.vip()
    body = trt_rule(vip, pool, **fields)
    gateway.create(body)
    return vip, body


def refused(gateway, engine, **fields):
    body = trt_rule(gateway.vip(), [engine], **fields)
    reply = exchange(gateway.api, "POST", f"{API}/config/loadbalancer", body)
    assert reply.status == 400, reply.body
    assert gateway.rules() == []
    return reply.json()


def test_traffic_works_and_the_inventory_is_empty_because_admission_failed(gateway, engines):
    (engine,) = engines(1, "--tokens-per-block", 64)
    vip, body = start(gateway, [engine], kvBlockSize=32)
    assert complete(vip, PROMPT).status == 200
    words = wait_kv(gateway, body, engine, signal="refused", reason="block_size", blocks=0)
    assert "64" in words["detail"] and "32" in words["detail"]  # both values
    assert gateway.metric("loxilb_kv_subscriber_connected") == 0
    assert gateway.metric("loxilb_pd_kv_blocks") == 0


def test_traffic_works_and_the_inventory_is_empty_because_the_buffer_is_off(gateway, engines):
    (engine,) = engines(1, "--event-buffer-max-size", 0)
    vip, body = start(gateway, [engine])

    def named():
        assert complete(vip, PROMPT).status == 200
        return "events_empty" in kv_of(gateway, body, engine).get("reason", "")
    wait_until(named, 30, "events_empty")
    assert "event_buffer_max_size" in kv_of(gateway, body, engine)["advice"]


def test_endless_resynchronisation_has_a_name(gateway, engines):
    """Told apart in test_signals.py; here one of the two names shows, whatever it is."""
    (engine,) = engines(1)
    vip, body = start(gateway, [engine])
    gateway.wait_signal(body, ("ok", "quiet"))

    def named():
        engine.skip_ids(1)
        complete(vip, f"{named.n} " + PROMPT)
        named.n += 1
        return kv_of(gateway, body, engine).get("reason")
    named.n = 0
    reason = wait_until(named, 30, "a reason")
    assert set(reason.split(",")) <= {"ring_overflow", "second_consumer", "gap"}


@pytest.mark.parametrize("port", [1, 5556, 5558, 8355, 65535])
def test_kv_zmq_port_is_refused_with_the_allowed_values(gateway, engines, port):
    error = refused(gateway, engines(1)[0], kvZmqPort=port)
    assert (error["code"], error["field"]) == ("kv_zmq_port_unused", "kvZmqPort")
    assert "5557" in error["allowed"] and "absent" in error["allowed"]
    assert "serving port" in error["message"]


def test_kv_zmq_port_may_be_left_out_or_be_what_other_engines_have(gateway, engines):
    (engine,) = engines(1)
    for fields in ({}, {"kvZmqPort": 0}, {"kvZmqPort": 5557}):
        start(gateway, [engine], **fields)
    assert len(gateway.rules()) == 3


def test_kv_dp_rank_count_is_refused_with_the_allowed_values(gateway, engines):
    error = refused(gateway, engines(1)[0], kvDpRankCount=2)
    assert error["field"] == "kvDpRankCount"
    assert error["code"] and "1" in error["allowed"]
    start(gateway, engines(1), kvDpRankCount=1)


def test_a_mode_or_a_hash_that_is_not_this_engines_is_refused(gateway, engines):
    (engine,) = engines(1)
    assert refused(gateway, engine, kvExactMode=2)["field"] == "kvExactMode"
    error = refused(gateway, engine, kvHashAlgo="sha256_cbor")
    assert error["field"] == "kvHashAlgo" and "blockhash_trtllm" in error["allowed"]
    start(gateway, [engine], kvHashAlgo="blockhash_trtllm")


def test_the_engine_of_a_live_rule_does_not_change(gateway, engines):
    (engine,) = engines(1)
    vip, body = start(gateway, [engine])
    reply = exchange(gateway.api, "PATCH", API + key_path(vip),
                     {"serviceArguments": {"kvEngineType": "vllm"}},
                     [("Content-Type", "application/merge-patch+json")])
    assert reply.status == 409, reply.body
    other = {**body, "serviceArguments": {**body["serviceArguments"], "kvEngineType": "vllm"}}
    reply = exchange(gateway.api, "POST", f"{API}/config/loadbalancer", other)
    assert reply.status == 409, reply.body
    assert gateway.find(body)["serviceArguments"]["kvEngineType"] == "trtllm"


def test_hits_stay_zero_and_the_attestation_says_why(gateway):
    """The engine tokenizes otherwise: its tokens are bytes, the gateway's are those of `tiny`."""
    with start_trt("--served-model-name", "tiny", "--tokens-per-block", BLOCK) as engine:
        vip, body = start(gateway, [engine])
        for i in range(60):
            assert complete(vip, PROMPT, max_tokens=1).status == 200
        assert kv_of(gateway, body, engine)["blocks"] > 0
        assert gateway.metric("loxilb_pd_kv_tier15_hits_total") == 0
        status = gateway.get(key_path(vip, "/kvexactstatus")).json()
        told = str(status) + str(kv_of(gateway, body, engine)) + gateway.log()
        assert "tokenizer" in told, told


def test_tokenizer_of_the_tests_is_the_engines(gateway, engines):
    """The contrast to the test before: with equal tokens hits come."""
    assert MINI_TOKENIZER.is_dir()
    (engine,) = engines(1)
    vip, body = start(gateway, [engine])
    ask(gateway, vip, PROMPT, "first")
    wait_until(lambda: kv_of(gateway, body, engine)["blocks"] > 5, 10, "blocks")
    ask(gateway, vip, PROMPT, "second")
    assert gateway.metric("loxilb_pd_kv_tier15_hits_total") == 1
