"""Two rules that name one TensorRT-LLM engine and do not agree, and what its answers tell of its cache."""

import contextlib

import pytest
from gateway import Gateway, complete, rule
from harness import start_trt, wait_until

BLOCK = 32
PROMPT = [i % 97 + 1 for i in range(10 * BLOCK + 1)]
FAST = ("--decode-us-per-token", 0, "--prefill-us-per-token", 0, "--tokens-per-block", BLOCK)


def trt_rule(vip, engine, **more):
    return rule(vip, [engine.address], kvEngineType="trtllm", kvExactMode=3, **more)


def kv_of(gateway, body):
    return gateway.find(body)["endpoints"][0]["kv"]


def ask(gateway, body, name, prompt=None):
    s = body["serviceArguments"]
    reply = complete(f"{s['externalIP']}:{s['port']}", prompt or PROMPT, model="sim",
                     request_id=name)
    assert reply.status == 200, reply.body
    return gateway.receipt(name)


@pytest.fixture
def setting(tmp_path):
    with contextlib.ExitStack() as ends:
        def start(*flags):
            engine = ends.enter_context(start_trt(*FAST, *flags))
            return engine, ends.enter_context(Gateway(str(tmp_path)))
        yield start


@pytest.mark.parametrize("is_right_first", [True, False], ids=["right-first", "wrong-first"])
def test_of_two_rules_the_one_with_the_engines_block_size_routes(setting, is_right_first):
    engine, gateway = setting()
    right = trt_rule(gateway.vip(), engine, kvBlockSize=BLOCK)
    wrong = trt_rule(gateway.vip(), engine, kvBlockSize=64)
    for body in (right, wrong) if is_right_first else (wrong, right):
        gateway.create(body)
    gateway.wait_signal(right, ("ok", "quiet"), 30)
    gateway.wait_signal(wrong, "refused")
    told = kv_of(gateway, wrong)
    assert told["reason"] == "block_size" and told["attestation"] == "mismatch:block_size"
    assert "32" in told["detail"] and "64" in told["detail"] and "kvBlockSize" in told["advice"]

    ask(gateway, right, "first")
    gateway.wait_blocks(right, engine.address, 10)
    receipt = ask(gateway, right, "second")
    assert receipt["legs"][-1]["tier"] == "kv_exact", receipt
    assert receipt["tokens"]["predicted_cached"] == receipt["tokens"]["reported_cached"] == 320

    receipt = ask(gateway, wrong, "wrong")  # plain traffic goes on
    assert receipt["legs"][-1]["tier"] == "selector"
    assert {"tier": "kv_exact", "reason": "mismatch"} in receipt["misses"], receipt
    counts = engine.drains()
    assert counts["overlaps"] == 0 and counts["max_in_flight"] == 1, counts

    number = gateway.find(wrong)["number"]
    reply = gateway.get(f"/config/ai/kv/inventory?service_id={number}&ep_idx=0").json()
    assert reply["signal"] == "refused" and reply["admission"].startswith("refused: block_size: ")
    number = gateway.find(right)["number"]
    reply = gateway.get(f"/config/ai/kv/inventory?service_id={number}&ep_idx=0").json()
    assert reply["admission"] == "admitted"
    assert reply["ranks"] == [{"rank": 0, "blocks": reply["total"]}]
    assert gateway.metric("loxilb_kv_signal_info", signal="refused", reason="block_size") == 1
    assert gateway.metric("loxilb_ai_kv_enforcement_fault") == 1
    assert gateway.metric("loxilb_ai_kv_attest_echo_total", result="agree") >= 1


def test_ranks_that_the_engine_shows_get_inventories(setting):
    engine, gateway = setting("--dp-size", 2)
    body = trt_rule(gateway.vip(), engine)
    gateway.create(body)
    gateway.wait_signal(body, ("ok", "quiet"), 30)
    for i in range(4):
        ask(gateway, body, f"r{i}", [150 + i] + PROMPT)

    def both_hold():
        number = gateway.find(body)["number"]
        reply = gateway.get(f"/config/ai/kv/inventory?service_id={number}&ep_idx=0").json()
        ranks = {r["rank"]: r["blocks"] for r in reply["ranks"]}
        return len(ranks) == 2 and all(ranks.values())
    wait_until(both_hold, 20, "blocks of both ranks")
    assert gateway.metric("loxilb_kv_ranks") == 2
    assert gateway.find(body)["serviceArguments"].get("kvDpRankCount", 1) == 1


@pytest.mark.parametrize("flags,reason", [
    (("--event-buffer-max-size", 0), "events_empty"),
    (("--no-enable-block-reuse",), "reuse_off"),
], ids=["events_empty", "reuse_off"])
def test_answered_requests_show_why_no_events_come(setting, flags, reason):
    engine, gateway = setting(*flags)
    body = trt_rule(gateway.vip(), engine)
    gateway.create(body)
    gateway.wait_signal(body, ("ok", "quiet", "warming"), 30)
    sent = [0]

    def is_named():
        sent[0] += 1
        ask(gateway, body, f"q{sent[0]}")
        kv = kv_of(gateway, body)
        return kv["signal"] == "dead" and kv["reason"] == reason
    wait_until(is_named, 30, reason)
    assert kv_of(gateway, body)["advice"]
    receipt = ask(gateway, body, "after")
    assert {"tier": "kv_exact", "reason": "stale"} in receipt["misses"], receipt
    assert gateway.metric("loxilb_kv_subscriber_connected") == 1  # drains are answered
    assert gateway.metric("loxilb_kv_inventory_fresh") == 0


def test_metrics_of_the_kv_plane_are_there_from_the_start(setting):
    engine, gateway = setting()
    gateway.create(trt_rule(gateway.vip(), engine))
    text = gateway.get("/metrics").body.decode()
    for name in ("loxilb_pd_kv_blocks", "loxilb_pd_kv_tier15_hits_total",
                 "loxilb_pd_kv_tier15_fallthrough_total",
                 "loxilb_pd_kv_tier15_miss_reason_total", "loxilb_pd_kv_tier15_spills_total",
                 "loxilb_pd_kv_tier15_cold_seeds_total", "loxilb_pd_kv_zero_hit_watchdog_total",
                 "loxilb_pd_ep_info", "loxilb_kv_subscriber_connected",
                 "loxilb_kv_subscriber_reconnect_total", "loxilb_kv_subscriber_recv_error_total",
                 "loxilb_kv_inv_cap_evictions_total", "loxilb_kv_inventory_fresh",
                 "loxilb_kv_subscriber_last_event_timestamp_seconds",
                 "loxilb_kv_subscriber_wire_reject_total", "loxilb_ai_kv_attest_echo_total",
                 "loxilb_ai_kv_attest_probe_fail_total", "loxilb_ai_kv_attest_state",
                 "loxilb_ai_kv_enforcement_fault",
                 "loxilb_ai_kv_trtllm_drain_ownership_fault_total",
                 "loxilb_ai_kv_trtllm_drain_ownership_heal_total",
                 "loxilb_pd_trt_ctx_early_exit_total"):
        assert f"\n{name}{{" in text or f"\n{name} " in text, name
