"""Context and generation beside everything else: workers that fail and heal, requests a build refuses, the
events of context workers, other engines in the same gateway."""

import threading

import pytest

from conftest import legs, leases, nothing_foreign
from gateway import API, complete, rule, split_address
from harness import MINI_TOKENIZER, exchange, start_sim, wait_until
from pairs import posts, prompt, same_text

PAIR = ["prefill", "decode"]


def pair_rule(vip, contexts, generations, **fields):
    rows = [(e.address, {"ep_role": 1}) for e in contexts]
    rows += [(e.address, {"ep_role": 2}) for e in generations]
    return rule(vip, rows, pd_disagg_mode=True, kvEngineType="trtllm", **fields)


def row_of(gateway, body, engine):
    """What is read back of an engine's endpoint."""
    wanted = split_address(engine.address)
    return next(e for e in gateway.find(body)["endpoints"]
                if (e["endpointIP"], e["targetPort"]) == wanted)


# --- what a rule may not say

@pytest.mark.parametrize("field, value", [("kvZmqPort", 6000), ("kvDpRankCount", 2),
                                          ("kvHashAlgo", "sha256_cbor")])
def test_what_only_other_engines_have_is_refused(gateway, engines, field, value):
    context, generation = engines(2)
    body = pair_rule(gateway.vip(), [context], [generation], kvExactMode=1, **{field: value})
    reply = exchange(gateway.api, "POST", f"{API}/config/loadbalancer", body)
    assert reply.status == 400 and reply.json()["field"] == field, reply.body
    assert gateway.rules() == []


def test_a_connector_of_other_engines_is_kept_and_said_to_do_nothing(gateway, pool):
    vip, _, _ = pool(pd_connector="lmcache")
    made, = gateway.rules()
    assert [w["field"] for w in made["warnings"] if w["code"] == "no_effect"] == ["pd_connector"]
    assert complete(vip, prompt(), request_id="pair", max_tokens=4).status == 200
    assert [kind for kind, _ in legs(gateway, "pair")] == PAIR


@pytest.mark.parametrize("roles", [(1, 1), (2, 2), (0, 2), (1, 0), (0, 0)])
def test_a_pair_needs_both_roles(gateway, engines, roles):
    both = engines(2)
    body = rule(gateway.vip(), [(e.address, {"ep_role": r}) for e, r in zip(both, roles)],
                pd_disagg_mode=True, kvEngineType="trtllm")
    reply = exchange(gateway.api, "POST", f"{API}/config/loadbalancer", body)
    assert reply.status == 400 and gateway.rules() == []


# --- workers that fail

def test_a_context_worker_with_5xx_is_left_out_after_three_and_no_client_sees_it(
        gateway, engines, plain):
    contexts, (generation,) = engines(2), engines(1)
    ill, well = contexts
    vip = gateway.vip()
    body = pair_rule(vip, contexts, [generation], breaker={"origin_5xx": 3, "open_ms": 3_600_000})
    gateway.create(body)
    ill.arm("status:500", 0)

    def ten():
        for _ in range(10):
            words = prompt()
            assert same_text(complete(vip, words, max_tokens=6), plain, words, max_tokens=6)
        return row_of(gateway, body, ill)["breaker"] == "open"

    wait_until(ten, 60, "it is left out")
    assert len(posts(ill)) == 3
    ill.delete("/sim/fault")
    well.delete("/sim/requests")
    assert ten() and len(posts(ill)) == 3 and len(posts(well)) == 10
    body["serviceArguments"]["breaker"]["open_ms"] = 1
    gateway.create(body)
    wait_until(lambda: row_of(gateway, body, ill)["breaker"] == "half_open", 10, "half open")

    def is_used():
        ten()
        return len(posts(ill)) > 3

    wait_until(is_used, 60, "it is used again")
    assert row_of(gateway, body, ill)["breaker"] == "closed"
    assert nothing_foreign(generation)


def test_with_the_only_context_worker_at_5xx_generation_computes(gateway, pool, plain):
    vip, (context,), (generation,) = pool(breaker={"origin_5xx": 0})
    context.arm("status:500", 0)
    for i in range(10):
        words = prompt()
        assert same_text(complete(vip, words, request_id=f"r{i}", max_tokens=6), plain, words,
                         max_tokens=6)
        assert [kind for kind, _ in legs(gateway, f"r{i}")] == ["prefill", "whole"]
    assert gateway.metric("loxilb_pd_recomputed_total") == 10
    context.delete("/sim/fault")
    words = prompt()
    assert same_text(complete(vip, words, request_id="healed", max_tokens=6), plain, words, max_tokens=6)
    assert [kind for kind, _ in legs(gateway, "healed")] == PAIR


@pytest.mark.parametrize("era", ("0.21", "1.1", "1.3-late"))
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("more", [{"no_such_member": 1}, {"temperature": "warm"}])
def test_what_a_strict_build_refuses_is_told_the_client_as_it_is(gateway, engines, era, streams, more):
    context, generation, alone = engines(3, "--era", era)
    vip = gateway.vip()
    gateway.create(pair_rule(vip, [context], [generation]))
    words = prompt()
    want = complete(alone.address, words, stream=streams, **more)
    reply = complete(vip, words, stream=streams, **more)
    assert reply.status == want.status == 400
    assert reply.header("Content-Type") == want.header("Content-Type")
    assert reply.json() == want.json()
    assert not posts(generation)
    assert {e["breaker"] for e in gateway.rules()[0]["endpoints"]} == {"closed"}


@pytest.mark.parametrize("fault", ["reset", "close"])
def test_a_context_worker_that_dies_is_asked_once_more_with_a_new_id(gateway, pool, plain, fault):
    vip, (context,), (generation,) = pool()
    context.arm(fault)
    words = prompt()
    assert same_text(complete(vip, words, request_id="again", max_tokens=6), plain, words, max_tokens=6)
    assert [kind for kind, _ in legs(gateway, "again")] == ["prefill", *PAIR]
    assert gateway.metric("loxilb_pd_prefill_ep_died_total") == 1
    assert len(posts(generation)) == 1 and nothing_foreign(generation)


# --- events of context workers

def test_context_workers_are_followed_through_gaps_and_generation_workers_are_not(
        gateway, engines, plain):
    contexts, (generation,), (other,) = engines(2), engines(1), engines(1, "--tokens-per-block", 64)
    vip = gateway.vip()
    body = pair_rule(vip, [*contexts, other], [generation], kvExactMode=1, kvBlockSize=16,
                     kvColdSeedEvery=0, kvLbMode="off")
    gateway.create(body)

    def kv(engine):
        return row_of(gateway, body, engine)["kv"]

    def known(engine):
        """All it has told was drained, and is what it holds: equal numbers alone may be those of before."""
        before = engine.drains()["count"]
        wait_until(lambda: engine.drains()["count"] > before + 1, 20, "it is drained")
        wait_until(lambda: kv(engine)["blocks"] == len(engine.cache()) > 0, 30, "its blocks are known")

    def exact(name, words, engine):
        assert same_text(complete(vip, words, request_id=name, max_tokens=6), plain, words, max_tokens=6)
        receipt = gateway.receipt(name)
        leg = receipt["legs"][0]
        assert (leg["kind"], leg["endpoint"], leg["tier"]) == ("prefill", engine.address,
                                                               "kv_exact"), receipt["misses"]

    for context in contexts:
        wait_until(lambda c=context: kv(c)["signal"] in ("ok", "quiet"), 30, "it is admitted")
    wait_until(lambda: kv(other)["signal"] == "refused", 30, "it is refused")
    assert kv(other)["reason"] == "block_size" and other.drains()["count"] == 0
    wait_until(lambda: gateway.metric("loxilb_kv_subscriber_connected") == 2, 10, "two are followed")
    first, second = (prompt() for _ in contexts)
    for engine, words in zip(contexts, (first, second)):
        assert complete(engine.address, words, max_tokens=2).status == 200
        known(engine)
    for i in range(2):
        exact(f"first-{i}", first, contexts[0])
        exact(f"second-{i}", second, contexts[1])
    # A hole in the numbers: nothing of before is believed, and until there is certainty load decides.
    held = kv(contexts[1])["blocks"]
    contexts[0].skip_ids(3)
    later = prompt()
    assert complete(contexts[0].address, later, max_tokens=2).status == 200
    wait_until(lambda: 0 < kv(contexts[0])["blocks"] < len(contexts[0].cache()), 30, "the gap")
    assert kv(contexts[1])["blocks"] >= held
    assert same_text(complete(vip, later, request_id="later", max_tokens=6), plain, later, max_tokens=6)
    assert "kv_exact" in [m["tier"] for m in gateway.receipt("later")["misses"]]
    exact("second-still", second, contexts[1])
    contexts[0].post("/sim/reset")
    assert complete(contexts[0].address, first, max_tokens=2).status == 200
    known(contexts[0])
    exact("anew", first, contexts[0])
    assert generation.drains()["count"] == 0
    assert all(c.drains()["overlaps"] == 0 for c in contexts)


# --- beside others

def test_three_kinds_of_rules_in_one_gateway_do_not_meet(gateway, engines, plain):
    contexts, generations, (single,) = engines(2), engines(1), engines(1, "--no-cache-transceiver")
    vllm = ("--model", MINI_TOKENIZER, "--served-model-name", "tiny", "--block-size", 16,
            "--enable-prompt-tokens-details")
    nixl = (*vllm, "--kv-connector", "nixl")
    with start_sim(*nixl) as prefill, start_sim(*nixl) as decode, start_sim(*vllm) as alone:
        vips = {name: gateway.vip() for name in ("trt", "vllm", "plain")}
        gateway.create(pair_rule(vips["trt"], contexts, generations, kvExactMode=1))
        gateway.create(rule(vips["vllm"], [(prefill.address, {"ep_role": 1}),
                                           (decode.address, {"ep_role": 2})], pd_disagg_mode=True))
        gateway.create(rule(vips["plain"], [single.address], kvEngineType="trtllm"))
        right = {"trt": plain, "vllm": alone, "plain": plain}
        wrong = []

        def ask(name, number):
            words = prompt(f"{name} {number}")
            reply = complete(vips[name], words, request_id=f"{name}-{number}", max_tokens=6)
            if not same_text(reply, right[name], words, max_tokens=6):
                wrong.append((name, number))

        threads = [threading.Thread(target=ask, args=(name, i)) for i in range(8) for name in vips]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong
        for name, kinds in (("trt", PAIR), ("vllm", PAIR), ("plain", ["whole"])):
            for i in range(8):
                assert [kind for kind, _ in legs(gateway, f"{name}-{i}")] == kinds
        # Each engine saw the members of its own kind of pair and no other's.
        assert all(b"disaggregated_params" not in str(r["body"]).encode()
                   for e in (prefill, decode, single) for r in posts(e))
        assert all(b"kv_transfer_params" not in str(r["body"]).encode()
                   for e in (*contexts, *generations, single) for r in posts(e))
        # One that fails takes nobody else along.
        for context in contexts:
            context.kill()
        for name, status in (("trt", 503), ("vllm", 200), ("plain", 200)):
            assert complete(vips[name], prompt(), max_tokens=6).status == status
    assert nothing_foreign(*generations)


def test_the_metrics_of_a_pair(gateway, pool):
    vip, (context,), _ = pool(kvExactMode=1, kvBlockSize=16, pd_cache_aware_mode=True)
    for i in range(3):
        assert complete(vip, prompt(), max_tokens=4, user="anna").status == 200
    wait_until(lambda: gateway.metric("loxilb_ai_pd_requests_total", model="tiny", phase="complete",
                                      status="success") == 3, 5, "the last answer is counted")
    assert gateway.metric("loxilb_ai_pd_kv_params_found_total", model="tiny") == 3
    assert gateway.metric("loxilb_ai_pd_kv_params_missing_total") == 0
    assert gateway.metric("loxilb_ai_pd_prefill_duration_seconds_count", model="tiny") == 3
    assert gateway.metric("loxilb_ai_pd_decode_ttft_seconds_count", model="tiny") == 3
    assert gateway.metric("loxilb_ai_pd_decode_duration_seconds_count", model="tiny") == 3
    assert gateway.metric("loxilb_ai_pd_session_hits_total", model="tiny") == 2
    assert gateway.metric("loxilb_ai_engine_info", engine="trtllm") == 1
    assert gateway.metric("loxilb_pd_sessions_active") == 1
    assert gateway.metric("loxilb_pd_trie_nodes") > 0
    assert gateway.metric("loxilb_pd_leases_total", end="read") == 3
    wait_until(lambda: gateway.metric("loxilb_kv_subscriber_connected") == 1, 20, "it is followed")
    wait_until(lambda: gateway.metric("loxilb_pd_kv_blocks") > 0, 20, "blocks are known")
    text = gateway.get("/metrics").body.decode()
    for name in ("loxilb_pd_trt_ctx_early_exit_total", "loxilb_pd_fallback_to_normal_total",
                 "loxilb_pd_connect_failover_total", "loxilb_pd_prefill_ep_died_total",
                 "loxilb_pd_decode_ep_died_total", "loxilb_pd_decode_zero_byte_eof_total",
                 "loxilb_pd_cb_flips_total", "loxilb_pd_recomputed_total"):
        assert f"\n{name} 0" in text, name
    assert leases(context)["read"] == 3
