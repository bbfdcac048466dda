"""KV-exact over the prefill endpoints of a rule (`kvExactMode` 1)."""

import pytest

from conftest import legs, pd_rule
from gateway import complete
from harness import events_config, wait_until
from pairs import posts, prompt

EXACT = {"kvExactMode": 1, "kvColdSeedEvery": 0, "kvLbMode": "off"}


@pytest.fixture
def listening(engines):
    """Engines that publish their blocks."""
    return lambda count: engines(count, "--kv-events-config", events_config())


@pytest.mark.parametrize("holder", [0, 2])
def test_the_prefill_that_holds_the_blocks_is_chosen(gateway, listening, holder):
    prefills, decodes = listening(3), listening(1)
    vip = gateway.vip()
    # Decode stands between them: the indexes of one role are not adjacent.
    body = pd_rule(vip, prefills, decodes, **EXACT)
    body["endpoints"].insert(1, body["endpoints"].pop())
    gateway.create(body)
    words = prompt()
    held = prefills[holder]
    assert complete(held.address, words).status == 200
    gateway.wait_blocks(body, held.address, 1)
    for i in range(3):
        assert complete(vip, words, request_id=f"exact-{i}").status == 200
        leg = gateway.receipt(f"exact-{i}")["legs"][0]
        assert (leg["endpoint"], leg["tier"]) == (held.address, "kv_exact")
        assert leg["matched_blocks"] > 0
    assert gateway.metric("loxilb_pd_kv_tier15_hits_total") == 3


def test_without_the_holder_the_second_best_is_chosen(gateway, listening):
    prefills, decodes = listening(2), listening(1)
    vip = gateway.vip()
    body = pd_rule(vip, prefills, decodes, breaker={"failures": 1, "open_ms": 3_600_000}, **EXACT)
    gateway.create(body)
    words = prompt()
    best, second = prefills
    complete(best.address, words)
    complete(second.address, words[:len(words) * 2 // 3])
    for engine in prefills:
        gateway.wait_blocks(body, engine.address, 1)
    best.arm("reset", 0)
    complete(vip, words, request_id="turned")
    assert [leg[1] for leg in legs(gateway, "turned")][0] == best.address
    complete(vip, words, request_id="second")
    leg = gateway.receipt("second")["legs"][0]
    assert (leg["endpoint"], leg["tier"]) == (second.address, "kv_exact")


def test_a_prompt_nobody_holds_falls_through_with_a_reason(gateway, listening):
    prefills, decodes = listening(2), listening(1)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, prefills, decodes, **EXACT))
    complete(vip, prompt(), request_id="cold")
    receipt = gateway.receipt("cold")
    assert receipt["legs"][0]["tier"] == "selector"
    assert any(m["tier"] == "kv_exact" and m["reason"] for m in receipt["misses"])
    assert gateway.metric("loxilb_pd_kv_tier15_miss_reason_total") >= 1
    assert sum(len(posts(e)) for e in prefills) == 1
