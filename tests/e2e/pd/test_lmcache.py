"""LMCache pairs: the engines share a store of their own, and tell the gateway nothing of it."""

import json

import pytest

from conftest import legs, pd_rule
from gateway import complete
from harness import MINI_TOKENIZER, start_sim
from pairs import header, posts, prompt, same_text


@pytest.fixture
def pair(gateway):
    flags = ("--model", MINI_TOKENIZER, "--served-model-name", "tiny", "--block-size", 16,
             "--enable-prompt-tokens-details", "--kv-connector", "lmcache")
    with start_sim(*flags) as prefill, start_sim(*flags) as decode:
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [prefill], [decode], pd_connector="lmcache"))
        yield vip, prefill, decode


def test_prefill_computes_one_token_and_decode_gets_the_clients_own_body(gateway, pair, plain):
    vip, prefill, decode = pair
    words = prompt()
    assert same_text(complete(vip, words, request_id="stored"), plain, words)
    first, second = (json.loads(posts(e)[-1]["body"]) for e in (prefill, decode))
    assert (first["max_tokens"], first["prompt"]) == (1, words)
    assert second == {"model": "tiny", "prompt": words, "max_tokens": 4}
    assert "kv_transfer_params" not in first
    assert header(posts(prefill)[-1], "X-Request-Id") == header(posts(decode)[-1], "X-Request-Id")
    assert [leg[0::2] for leg in legs(gateway, "stored")] == [
        ("prefill", "handed_over"), ("decode", "relayed")]
    # Nothing was promised to the gateway: nothing is outstanding, and nothing is missed.
    assert gateway.metric("loxilb_pd_leases_outstanding") == 0
    assert gateway.metric("loxilb_ai_pd_kv_params_missing_total") == 0


def test_a_cold_decode_computes_what_the_store_does_not_have(gateway, pair, plain):
    vip, prefill, _ = pair
    prefill.post("/reset_prefix_cache")
    for _ in range(3):
        words = prompt()
        assert same_text(complete(vip, words), plain, words)


def test_a_prefill_that_fails_is_no_reason_to_fail(gateway, pair, plain):
    vip, prefill, _ = pair
    prefill.arm("status:500", 0)
    words = prompt()
    assert same_text(complete(vip, words, request_id="alone"), plain, words)
    assert legs(gateway, "alone")[-1][0::2] == ("whole", "relayed")
    assert gateway.metric("loxilb_pd_recomputed_total") == 1
