"""A client that leaves gives back what it held: its place in a queue, the blocks of its hand-off."""

import json
import socket

from conftest import held, legs, pd_rule
from gateway import free_port
from harness import RawClient, request_bytes, wait_until
from pairs import posts, prompt


def ask(client, name):
    client.send(request_bytes("POST", "/v1/completions",
                              {"model": "tiny", "prompt": prompt(name), "max_tokens": 1},
                              [("X-Request-Id", name)]))


def test_a_parked_client_that_leaves_gives_its_place_to_the_next(gateway, engines):
    prefill, decode = engines(2)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode], pd_max_inflight_per_ep=1,
                           pd_queue_depth_per_ep=4, pd_max_park_ms=60000))
    prefill.arm("hang", 1)

    def waiting(number):
        wait_until(lambda: gateway.metric("loxilb_pd_admission_waiting") == number, 10,
                   f"{number} wait")

    with RawClient(vip) as first, RawClient(vip, limit_s=60) as third:
        ask(first, "p1")
        wait_until(lambda: posts(prefill), 10, "the first is there")
        with RawClient(vip) as second:
            ask(second, "p2")
            waiting(1)
            ask(third, "p3")
            waiting(2)
        waiting(1)
        assert gateway.receipt("p2")["outcome"] == "client_closed"
        first.close()
        assert third.read_reply().status == 200
    assert [json.loads(r["body"])["prompt"][:2] for r in posts(prefill)] == ["p1", "p3"]
    waiting(0)
    assert all(e["inflight"] == 0 for e in gateway.rules()[0]["endpoints"])


def test_blocks_go_through_another_decode_when_the_chosen_one_cannot_be_reached(gateway, engines):
    prefill, = engines(1, "--kv-lease-ms", 120_000)
    decode, = engines(1)
    with socket.socket() as silent, socket.socket() as filler:
        silent.bind(("127.0.0.1", free_port()))
        silent.listen(0)
        filler.connect(silent.getsockname())  # nobody else gets in
        address = "%s:%d" % silent.getsockname()
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [prefill], [address, decode], timeouts={"connect_ms": 60_000},
                               plugin_config={"vllm": {"kv_lease_duration": 120}}))
        hung = []
        for i in range(12):
            name = f"left-{i}"
            with RawClient(vip) as client:
                ask(client, name)
                wait_until(lambda: gateway.metric("loxilb_ai_pd_kv_params_found_total") == i + 1, 10,
                           "prefill has answered")
            if any(leg[1] == address for leg in legs(gateway, name)):
                hung.append(legs(gateway, name)[-1])
    assert hung and all(leg[1:] == (decode.address, "released") for leg in hung), hung
    wait_until(lambda: not held(prefill), 10, "prefill holds nothing")
