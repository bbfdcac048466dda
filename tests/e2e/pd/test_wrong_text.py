"""Never a wrong text: whatever becomes of a hand-off, the answer is what one engine alone says."""

import copy
import json
import socket

import pytest

from conftest import legs, pd_rule
from gateway import Gateway, complete, free_port
from harness import exchange
from pairs import posts, prompt, same_text
from via import Via, params, with_params


def handed(request):
    return json.loads(request["body"]).get("kv_transfer_params")


@pytest.mark.parametrize("kib", [70, 1200])
def test_a_large_hand_off_is_passed_on_whole(gateway, engines, plain, kib):
    prefill, decode = engines(2)
    extra = {"deep": [[{"x": "y" * 1000, "n": 12345678901234567890}] * kib]}
    sent = []

    def grow(reply):
        sent.append({**params(reply), "later_field": extra})
        return with_params(reply, sent[-1])

    with Via(prefill, grow) as via, Via(decode, lambda reply: reply.body) as seen:
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [via], [seen]))
        words = prompt()
        assert same_text(complete(vip, words, request_id="large"), plain, words)
    assert [leg[0] for leg in legs(gateway, "large")] == ["prefill", "decode"]
    asked, = [c for c in seen.calls if c.path == "/v1/completions"]
    assert json.dumps(sent[0]).encode() in asked.body
    assert gateway.metric("loxilb_ai_pd_kv_params_found_total") == 1


def test_a_reply_longer_than_is_kept_is_not_handed_on(tmp_path, tokenizers, engines, plain):
    prefill, decode = engines(2)

    def grow(reply):
        return with_params(reply, {**params(reply), "later_field": "y" * 70_000})

    with Gateway(str(tmp_path), tokenizers=tokenizers, flags=["--max-prefill-reply", "65536"]) as gw:
        with Via(prefill, grow) as via:
            vip = gw.vip()
            gw.create(pd_rule(vip, [via], [decode]))
            for i in range(2):
                words = prompt()
                assert same_text(complete(vip, words, request_id=f"long-{i}"), plain, words)
        assert legs(gw, "long-1")[0][2] == "no_handoff"
        assert gw.metric("loxilb_proxy_pd_kv_params_overflow_total") == 2
        # Nobody knows how long the engine holds what it named.
        assert gw.metric("loxilb_pd_recomputed_total") == 2
    assert all(not handed(r) for r in posts(decode))


@pytest.mark.parametrize("what", ["remote_request_id", "remote_engine_id", "remote_block_ids",
                                  "remote_host", "remote_port", "do_remote_prefill"])
def test_a_hand_off_without_a_field_that_engines_need_is_not_passed_on(gateway, engines, plain, what):
    prefill, decode = engines(2)

    def without(reply):
        return with_params(reply, {k: v for k, v in params(reply).items() if k != what})

    with Via(prefill, without) as via:
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [via], [decode]))
        for _ in range(2):
            words = prompt()
            assert same_text(complete(vip, words), plain, words)
    assert all(not handed(r) for r in posts(decode))
    assert gateway.metric("loxilb_ai_pd_kv_params_missing_total") == 2


def test_fewer_blocks_than_the_prompt_fills_are_not_passed_on(gateway, engines, plain):
    prefill, decode = engines(2)

    def fewer(reply):
        value = copy.deepcopy(params(reply))
        value["remote_num_tokens"] = 1
        value["remote_block_ids"] = [value["remote_block_ids"][0][:1]]
        return with_params(reply, value)

    with Via(prefill, fewer) as via:
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [via], [decode]))
        words = prompt()
        assert same_text(complete(vip, words), plain, words)
    assert not handed(posts(decode)[0])


def test_the_hand_off_of_another_request_is_not_passed_on(gateway, engines, plain):
    prefill, decode = engines(2)
    seen = []

    def foreign(reply):
        seen.append(params(reply))
        return with_params(reply, seen[0])

    with Via(prefill, foreign) as via:
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [via], [decode]))
        for _ in range(3):
            words = prompt()
            assert same_text(complete(vip, words), plain, words)
    assert [bool(handed(r)) for r in posts(decode)] == [True, False, False]


def test_a_prefill_answer_that_is_no_whole_json_is_an_error(gateway, engines):
    prefill, decode = engines(2)
    with Via(prefill, lambda reply: reply.body[:-20]) as via:
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [via], [decode]))
        reply = complete(vip, prompt())
        assert reply.status == 502 and reply.json()["error"]["code"] == "pd_prefill_failed"
    assert not posts(decode)


def test_a_prefill_whose_answers_cannot_be_used_is_passed_over(gateway, engines, plain):
    prefill, good, decode = engines(3)
    with Via(prefill, lambda reply: b"<html>") as via:
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [via, good], [decode], cb_enable=True,
                               breaker={"failures": 2, "open_ms": 60_000}))
        for i in range(8):
            words = prompt()
            assert same_text(complete(vip, words, request_id=f"html-{i}"), plain, words)
        verdicts = [leg[2] for i in range(8) for leg in legs(gateway, f"html-{i}")]
        assert verdicts.count("unusable") == 2
        assert [e["state"] for e in gateway.rules()[0]["endpoints"]][0] != "active"
    assert len(posts(decode)) == 8


def test_after_half_its_lease_a_hand_off_is_dropped_and_decode_computes(gateway, engines, plain):
    prefill, = engines(1, "--kv-lease-ms", 1000)
    decode, = engines(1)
    with socket.socket() as silent, socket.socket() as filler:
        silent.bind(("127.0.0.1", free_port()))
        silent.listen(0)
        filler.connect(silent.getsockname())  # nobody else gets in
        vip = gateway.vip()
        address = "%s:%d" % silent.getsockname()
        gateway.create(pd_rule(vip, [prefill], [address, decode], timeouts={"connect_ms": 900},
                               plugin_config={"vllm": {"kv_lease_duration": 1}}))
        late = False
        for i in range(2):
            words = prompt()
            assert same_text(complete(vip, words, request_id=f"late-{i}"), plain, words)
            late = late or "outdated" in [leg[2] for leg in legs(gateway, f"late-{i}")]
    assert late
    assert gateway.metric("loxilb_pd_recomputed_total") >= 1
    assert any(not handed(r) for r in posts(decode))


@pytest.mark.parametrize("body", [{"kv_transfer_params": {"do_remote_prefill": True}},
                                  {"vllm_xargs": {"kv_transfer_params": {"do_remote_prefill": True}}}])
@pytest.mark.parametrize("path, ask", [
    ("/v1/completions", {"prompt": "x", "max_tokens": 2}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2})])
def test_a_clients_own_fields_are_refused_where_the_rule_says_so(gateway, engines, body, path, ask):
    prefill, decode = engines(2)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode], client_handoff_fields="refuse"))
    reply = exchange(vip, "POST", path, {"model": "tiny", **ask, **body})
    assert reply.status == 400
    assert reply.json()["error"]["code"] == "handoff_field_not_allowed"
    assert not posts(prefill) and not posts(decode)


def test_an_upload_that_takes_longer_than_half_the_lease_goes_without_the_hand_off(gateway, engines):
    prefill, = engines(1, "--kv-lease-ms", 1000)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", free_port()))
        deaf.listen(8)  # connections are made, and nobody reads
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [prefill], ["%s:%d" % deaf.getsockname()],
                               timeouts={"chunk_gap_ms": 2000},
                               plugin_config={"vllm": {"kv_lease_duration": 1}}))
        reply = complete(vip, prompt(), request_id="deaf", user="x" * (24 << 20))
        assert reply.status == 504 and b"pd_decode_timeout" in reply.body
    assert [leg[0::2] for leg in legs(gateway, "deaf")] == [
        ("prefill", "handed_over"), ("decode", "outdated"), ("decode", "first_byte_timeout")]


def test_e10_a_kept_connection_that_breaks_uses_the_hand_off_up(gateway, engines, plain):
    prefill, decode = engines(2)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode]))
    for i in range(24):
        assert complete(vip, prompt()).status == 200
        decode.arm("reset")
        words, name = prompt(), f"broke-{i}"
        reply = complete(vip, words, request_id=name)
        verdicts = [leg[0::2] for leg in legs(gateway, name)]
        if ("decode", "stale_connection") in verdicts:
            break
        # The worker that got it had no kept connection: then nothing is sent again.
        assert reply.status == 502 and b"pd_decode_backend_died" in reply.body
    assert same_text(reply, plain, words)
    assert verdicts == [("prefill", "handed_over"), ("decode", "stale_connection"),
                        ("prefill", "handed_over"), ("decode", "relayed")]
    first, again = [handed(r) for r in posts(decode)[-2:]]
    assert first["remote_request_id"] != again["remote_request_id"]
