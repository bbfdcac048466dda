"""Streams of a pair: their edges, many at once, and an engine that streams where it must not."""

import json
import threading

import pytest

from conftest import pd_rule
from gateway import complete
from harness import RawClient, exchange, request_bytes, wait_until
from pairs import prompt, text_of
from raw_engine import RawEngine


def stream(vip, words, **more):
    return exchange(vip, "POST", "/v1/completions",
                    {"model": "tiny", "prompt": words, "max_tokens": 5, "stream": True, **more},
                    limit_s=60)


def said(reply):
    events = reply.events()
    assert reply.status == 200 and events[-1] == "[DONE]", reply.body
    chunks = [json.loads(e) for e in events[:-1]]
    return "".join(c["choices"][0]["text"] for c in chunks if c["choices"])


@pytest.fixture
def pair(gateway, engines):
    prefill, decode = engines(2)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode]))
    return vip, prefill, decode


def test_te_five_streams_and_twenty_answers_at_once_are_all_right(gateway, engines, plain):
    vip = gateway.vip()
    gateway.create(pd_rule(vip, engines(2), engines(2)))
    wrong = []

    def ask(i):
        words = prompt(f"at once {i}")
        right = text_of(complete(plain.address, words, max_tokens=5))
        got = said(stream(vip, words)) if i < 5 else text_of(complete(vip, words, max_tokens=5))
        if got != right:
            wrong.append(i)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(25)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    wait_until(lambda: gateway.metric("loxilb_ai_active_streams") == 0, 10, "no stream is counted")


@pytest.mark.parametrize("asks", [True, False])
def test_tg_usage_comes_in_the_last_chunk_only_if_it_was_asked_for(pair, asks):
    vip, _, _ = pair
    more = {"stream_options": {"include_usage": True}} if asks else {}
    chunks = [json.loads(e) for e in stream(vip, prompt(), **more).events()[:-1]]
    assert bool(chunks[-1].get("usage")) is asks
    assert not any(c.get("usage") for c in chunks[:-1])


def test_tg_an_end_mark_in_pieces_is_the_end(gateway, engines):
    prefill, = engines(1)

    def in_pieces(call):
        if not call.path.startswith("/v1/completions"):
            return call.reply(404)
        chunk = json.dumps({"id": "x", "object": "text_completion",
                            "choices": [{"index": 0, "text": "hello", "finish_reason": "length"}]})
        call.stream(chunk)
        for piece in (b"da", b"ta: [DO", b"NE]\n", b"\n"):
            call.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        call.send(b"0\r\n\r\n")

    with RawEngine(in_pieces) as decode:
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [prefill], [decode]))
        assert said(stream(vip, prompt())) == "hello"
    wait_until(lambda: gateway.metric("loxilb_ai_active_streams") == 0, 10, "no stream is counted")
    assert gateway.metric("loxilb_pd_decode_ep_died_total") == 0


def test_tg_a_client_that_leaves_mid_stream_ends_the_decode_leg(gateway, engines):
    prefill, = engines(1)
    decode, = engines(1, "--decode-us-per-token", 20000)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode]))
    with RawClient(vip) as client:
        client.send(request_bytes("POST", "/v1/completions",
                                  {"model": "tiny", "prompt": prompt(), "max_tokens": 500,
                                   "stream": True}, [("X-Request-Id", "mid")]))
        client.read_head()
        client.read_until(b"data: ")
    assert gateway.receipt("mid")["outcome"] == "client_closed"
    wait_until(lambda: decode.metric("num_requests_running") == 0, 10, "the engine stopped")
    assert gateway.metric("loxilb_pd_leases_outstanding") == 0
    assert all(e["inflight"] == 0 for e in gateway.rules()[0]["endpoints"])


def test_e3_a_prefill_that_streams_all_the_same_is_named(gateway, engines):
    decode, = engines(1)

    def streams(call):
        if not call.path.startswith("/v1/"):
            return call.reply(404)
        if call.path == "/v1/models":
            return call.reply(404)
        call.stream('{"choices":[]}')
        call.end_stream()

    with RawEngine(streams) as prefill:
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [prefill], [decode]))
        reply = complete(vip, prompt())
        assert reply.status == 502
        told = reply.json()["error"]
        assert told["code"] == "pd_prefill_failed" and "prefill endpoint" in told["message"]
        assert prefill.address not in told["message"] and prefill.address in gateway.log()
