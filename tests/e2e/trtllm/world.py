"""What the tests of this folder do again and again: rules, prompts, waiting for inventories."""

import json

from gateway import complete, rule, split_address
from harness import wait_until

BLOCK = 16
PROMPT = "The harbour master wrote down every ship that came in with the tide. " * 12


def trt_rule(vip, engines, **more):
    """A single pool with exact routing."""
    arguments = {"kvEngineType": "trtllm", "kvExactMode": 3, "kvColdSeedEvery": 0, **more}
    return rule(vip, [e.address for e in engines], **arguments)


def endpoint_of(gateway, body, engine):
    host, port = split_address(engine.address)
    return next(e for e in gateway.find(body)["endpoints"]
                if (e["endpointIP"], e["targetPort"]) == (host, port))


def kv_of(gateway, body, engine):
    return endpoint_of(gateway, body, engine)["kv"]


def wait_kv(gateway, body, engine, limit_s=20, **wanted):
    """Until `signal`, `reason` and so on of the endpoint are as given; the words of then."""
    def met():
        kv = kv_of(gateway, body, engine)
        return all(_fits(kv.get(k, ""), v) for k, v in wanted.items()) and kv
    try:
        return wait_until(met, limit_s, f"kv {wanted}")
    except AssertionError as e:
        raise AssertionError(f"{e}; it is {kv_of(gateway, body, engine)}") from None


def _fits(have, want):
    return want(have) if callable(want) else have in want if isinstance(want, tuple) else have == want


def wait_drained(engine, limit_s=20):
    """Until whatever the engine has told so far has been drained."""
    before = engine.drains()["count"]
    wait_until(lambda: engine.drains()["count"] > before + 1, limit_s, "drained")


def settled(gateway, body, engine, rank_count=1, limit_s=20):
    """Until the inventory is the engine's cache; how many blocks that are."""
    wait_drained(engine, limit_s)  # equal numbers alone may be those of before

    def agree():
        held = sum(len(engine.cache(r)) for r in range(rank_count))
        return held == kv_of(gateway, body, engine)["blocks"] and (held + 1)
    return wait_until(agree, limit_s, "the inventory as the cache") - 1


def ask(gateway, vip, prompt, name, **more):
    """A completion and its receipt."""
    reply = complete(vip, prompt, request_id=name, **more)
    assert reply.status == 200, reply.body
    return reply, gateway.receipt(name)


def cached_of(reply):
    """What the engine reports of a plain or a streamed reply."""
    if "event-stream" in (reply.header("content-type") or ""):
        chunks = [json.loads(e) for e in reply.events() if e != "[DONE]"]
        usage = next(c["usage"] for c in reversed(chunks) if c.get("usage"))
    else:
        usage = reply.json()["usage"]
    return usage["prompt_tokens_details"]["cached_tokens"]


def assert_exact(reply, receipt, at_least=0):
    """The prediction is what the engine reports."""
    cached = cached_of(reply)
    assert receipt["tokens"]["predicted_cached"] == cached, receipt
    assert receipt["tokens"]["reported_cached"] == cached
    assert cached >= at_least, receipt


def assert_lone_reader(engine):
    """Nobody but one drained, one at a time, and nobody read what a reader takes from others."""
    counts = engine.drains()
    assert counts["overlaps"] == 0 and counts["max_in_flight"] <= 1, counts
    for name in ("metrics", "perf_metrics", "health_generate"):
        assert counts["reads"][name] == 0, counts


def key_path(vip, rest=""):
    """The rule's path under the management interface's root."""
    ip, port = split_address(vip)
    return f"/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/tcp{rest}"


def delete_rule(gateway, vip):
    assert gateway.delete(key_path(vip)).status == 200
