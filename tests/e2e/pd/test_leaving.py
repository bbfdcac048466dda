"""A client that leaves while it waits gives its place back."""

import json

from conftest import pd_rule, posts, prompt
from harness import RawClient, request_bytes, wait_until


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
    waiting = lambda n: wait_until(
        lambda: gateway.metric("loxilb_pd_admission_waiting") == n, 10, f"{n} wait")
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
