"""Two gateways in front of TensorRT-LLM engines: the first drains, the second follows it."""

import pytest

from conftest import TEXT, Pair, endpoint_kv
from gateway import complete
from harness import MINI_TOKENIZER, start_trt, wait_until


@pytest.fixture
def trt(ends):
    """trt(*flags): a simulated trtllm-serve with KV events."""
    def start(*flags):
        return ends.enter_context(start_trt(
            "--model", MINI_TOKENIZER, "--served-model-name", "tiny", "--tokens-per-block", 16,
            "--decode-us-per-token", 0, "--prefill-us-per-token", 0, *flags))
    return start


def pair_of(start_gateway, engines):
    pair = Pair(start_gateway, [e.address for e in engines], kvEngineType="trtllm")
    pair.join()
    for gateway, body in pair.sides():
        gateway.wait_signal(body, ("ok", "quiet"), 30)
    return pair


def test_one_drains_and_both_route_alike(start_gateway, trt):
    engines = [trt(), trt()]
    pair = pair_of(start_gateway, engines)
    by = {e.address: e for e in engines}
    matched = 0
    for i in range(60):
        prompt = f"Ship {i % 12}. " + TEXT + "And then the next one. " * (i // 12 * 4)
        pair.settled(by)
        sides = [(pair.first, pair.first_vip), (pair.second, pair.second_vip)]
        (here, vip), (there, other_vip) = sides if i % 2 else sides[::-1]
        would = there.explain({"listener": other_vip, "body": {"model": "tiny", "prompt": prompt}}).json()
        assert complete(vip, prompt, request_id=f"r{i}").status == 200
        receipt = here.receipt(f"r{i}")
        leg, other = receipt["legs"][-1], would["legs"][-1]
        assert (leg["tier"], leg["matched_blocks"]) == (other["tier"], other["matched_blocks"]), i
        if leg["tier"] == "kv_exact":
            matched += 1
            assert leg["endpoint"] == other["endpoint"], i
    assert matched >= 40
    for engine in engines:
        drains = engine.drains()
        assert drains["count"] > 0
        assert drains["overlaps"] == 0 and drains["max_in_flight"] == 1
        assert drains["reads"].get("metrics", 0) == 0
    # Only one of the two takes events away: nothing was lost to the other.
    pair.first.stop()
    counts = [e.drains()["count"] for e in engines]
    assert complete(pair.second_vip, "Alone. " + TEXT).status == 200
    wait_until(lambda: endpoint_kv(pair.second, pair.second_body)["signal"] in ("doubtful", "dead"), 20,
               "the first one is gone")
    assert [e.drains()["count"] for e in engines] == counts


def test_what_the_engine_drops_is_dropped_by_both_and_a_restart_by_both(start_gateway, trt):
    engine = trt("--blocks", 120, "--max-seq-len", 1500)
    pair = pair_of(start_gateway, [engine])
    by = {engine.address: engine}
    pair.fill(30)
    pair.settled(by)
    engine.restart()
    pair.fill(3, "New")
    pair.settled(by, 60)
