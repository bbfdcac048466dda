"""Context and generation on simulated TensorRT-LLM engines: what the client gets is what one engine
alone says, whatever fails on the way."""

import base64
import json

import pytest

from conftest import legs, leases, nothing_foreign
from gateway import chat, complete, split_address
from harness import RawClient, request_bytes, wait_until
from pairs import posts, prompt, same_text, text_of

BOTH = pytest.mark.parametrize("era", ("1.1", "1.3-late"))
PAIR = ["prefill", "decode"]


def given(engine, n=-1):
    return json.loads(posts(engine)[n]["body"])["disaggregated_params"]


def chunks(reply):
    assert reply.status == 200, reply.body
    events = reply.events()
    assert events[-1] == "[DONE]"
    return [json.loads(e) for e in events[:-1]]


@BOTH
def test_completions_say_what_one_engine_says(gateway, pool, plain, era):
    vip, (context,), (generation,) = pool(flags=("--era", era))
    for i in range(20):
        words = prompt()
        reply = complete(vip, words, request_id=f"c{i}", max_tokens=12)
        assert same_text(reply, plain, words, max_tokens=12)
        assert b"encoded_opaque_state" not in reply.body
    assert [leg[0] for leg in legs(gateway, "c19")] == PAIR
    assert len(posts(context)) == len(posts(generation)) == 20
    assert leases(context)["held"] == [] and leases(context)["read"] == 20
    assert leases(generation)["pulls"] == {"done": 20, "failed": 0, "foreign": 0}


@BOTH
def test_streams_say_what_one_engine_says(gateway, pool, plain, era):
    vip, _, (generation,) = pool(flags=("--era", era))
    for _ in range(20):
        words = prompt()
        reply = complete(vip, words, max_tokens=9, stream=True,
                         stream_options={"include_usage": True})
        got = chunks(reply)
        want = text_of(complete(plain.address, words, max_tokens=9))
        assert "".join(c["choices"][0]["text"] for c in got if c["choices"]) == want
        assert got[-1]["usage"]["completion_tokens"] == 9
        assert b"disaggregated" not in reply.body.replace(b'"disaggregated_params":null', b"")
    assert leases(generation)["pulls"]["done"] == 20


@BOTH
def test_chats_say_what_one_engine_says(gateway, pool, plain, era):
    vip, _, (generation,) = pool(flags=("--era", era))
    for _ in range(20):
        messages = [{"role": "user", "content": prompt()}]
        want = chat(plain.address, messages, max_tokens=9).json()["choices"][0]["message"]["content"]
        reply = chat(vip, messages, max_tokens=9)
        assert reply.status == 200, reply.body
        assert reply.json()["choices"][0]["message"]["content"] == want
        parts = chunks(chat(vip, messages, max_tokens=9, stream=True))
        assert "".join(c["choices"][0]["delta"].get("content", "") for c in parts) == want
    assert leases(generation)["pulls"] == {"done": 40, "failed": 0, "foreign": 0}


def test_the_hand_off_reaches_generation_byte_for_byte(gateway, pool):
    vip, (context,), (generation,) = pool()

    def is_learned():  # what the build takes is asked once it is followed
        assert complete(vip, prompt(), max_tokens=3).status == 200
        return "disagg_request_id" in given(generation)

    wait_until(is_learned, 20, "the build's fields are known")
    params = given(generation)
    assert params["request_type"] == "generation_only"
    assert len(base64.b64decode(params["encoded_opaque_state"], validate=True)) > 1024
    assert params["disagg_request_id"] == given(context)["disagg_request_id"] >= 1 << 42
    # The engine compares every byte of it with what it gave.
    assert leases(context)["read"] == 1 and len(params["first_gen_tokens"]) == 1


# --- a complete answer of the context leg

def first_text(plain, words):
    return text_of(complete(plain.address, words, max_tokens=1, ignore_eos=True))


def test_d1_a_complete_answer_is_the_clients(gateway, pool, plain):
    vip, (context,), (generation,) = pool()
    words = prompt()
    more = {"max_tokens": 9, "stop": first_text(plain, words), "include_stop_str_in_output": True}
    reply = complete(vip, words, request_id="d1", **more)
    assert same_text(reply, plain, words, **more)
    assert reply.json()["choices"][0]["finish_reason"] == "stop"
    assert b"opaque" not in reply.body and not reply.json().get("prompt_token_ids")
    assert not posts(generation) and leases(context)["held"] == []
    assert legs(gateway, "d1") == [("prefill", "early_exit")]
    assert gateway.metric("loxilb_pd_trt_ctx_early_exit_total") == 1


def test_d2_a_complete_answer_streams_as_chunks(gateway, pool, plain):
    vip, _, (generation,) = pool()
    words = prompt()
    more = {"max_tokens": 9, "stop": first_text(plain, words), "include_stop_str_in_output": True}
    got = chunks(complete(vip, words, stream=True, stream_options={"include_usage": True}, **more))
    assert "".join(c["choices"][0]["text"] for c in got if c["choices"]) == more["stop"]
    assert got[-2]["choices"][0]["finish_reason"] == "stop"
    assert got[-1]["choices"] == [] and got[-1]["usage"]["completion_tokens"] == 1
    assert not posts(generation)


def test_d3_a_complete_chat_streams_as_chunks(gateway, pool, plain):
    vip, _, (generation,) = pool()
    messages = [{"role": "user", "content": prompt()}]
    alone = chat(plain.address, messages, max_tokens=1, ignore_eos=True).json()
    stop = alone["choices"][0]["message"]["content"]
    got = chunks(chat(vip, messages, max_tokens=9, stop=stop, include_stop_str_in_output=True,
                      stream=True))
    assert {c["object"] for c in got} == {"chat.completion.chunk"}
    assert "".join(c["choices"][0]["delta"].get("content") or "" for c in got) == stop
    assert got[-1]["choices"][0]["finish_reason"] == "stop"
    assert not posts(generation)


@pytest.mark.parametrize("word, count", [("length", 1), ("not_finished", 1), ("stop", 0)])
def test_d4_only_length_and_not_finished_go_on(gateway, pool, word, count):
    vip, _, (generation,) = pool(flags=("--context-finish", word))
    assert complete(vip, prompt(), max_tokens=5).status == 200
    assert len(posts(generation)) == count


# --- failures

@pytest.mark.parametrize("status", (500, 503, 429))
def test_a_generation_that_refuses_is_followed_by_a_new_pair(gateway, pool, plain, status):
    vip, _, both = pool(1, 2)
    for _ in range(4):  # either of the two may be asked first
        both[0].arm(f"status:{status}")
        words = prompt()
        assert same_text(complete(vip, words, max_tokens=6), plain, words, max_tokens=6)
    both[0].delete("/sim/fault")
    # The context worker's own ids: there before the build's fields are known.
    ids = [given(g, n)["ctx_request_id"] for g in both for n in range(len(posts(g)))]
    assert len(ids) > 4 and len(set(ids)) == len(ids)
    assert nothing_foreign(*both) and all(leases(g)["pulls"]["failed"] == 0 for g in both)


def test_when_both_generations_refuse_the_answer_is_theirs(gateway, pool, plain):
    vip, _, both = pool(1, 2)
    for generation in both:
        generation.arm("status:503")
    assert complete(vip, prompt(), max_tokens=6).status == 503
    words = prompt()
    assert same_text(complete(vip, words, max_tokens=6), plain, words, max_tokens=6)
    assert nothing_foreign(*both)


def test_a_generation_that_dies_is_said_and_the_next_request_is_served(gateway, pool, plain):
    vip, _, (generation,) = pool()
    generation.arm("reset")
    reply = complete(vip, prompt(), max_tokens=6)
    assert (reply.status, reply.json()["error"]["code"]) == (502, "pd_decode_backend_died")
    words = prompt()
    assert same_text(complete(vip, words, max_tokens=6), plain, words, max_tokens=6)
    assert nothing_foreign(generation)


def test_a_context_killed_between_the_legs_gives_no_wrong_text(gateway, pool, plain):
    vip, (first, second), (generation,) = pool(2, 1)
    generation.arm("slow-head:1500")
    words = prompt()
    with RawClient(vip, limit_s=60) as client:
        client.send(request_bytes("POST", "/v1/completions", {
            "model": "tiny", "prompt": words, "max_tokens": 6}))
        wait_until(lambda: posts(generation), 20, "generation was asked")
        used = first if posts(first) else second
        used.kill()
        reply = client.read_reply()
    if reply.status == 200:
        assert same_text(reply, plain, words, max_tokens=6)
    else:
        assert reply.status in (502, 503)
    assert nothing_foreign(generation)
    assert leases(generation)["pulls"]["failed"] >= 1
    other = prompt()
    assert same_text(complete(vip, other, max_tokens=6), plain, other, max_tokens=6)


def test_a_client_that_leaves_ends_the_generation_leg(gateway, pool, plain):
    vip, _, (generation,) = pool()
    generation.arm("hang")
    with RawClient(vip) as client:
        client.send(request_bytes("POST", "/v1/completions", {
            "model": "tiny", "prompt": prompt(), "max_tokens": 6}, [("X-Request-Id", "left")]))
        wait_until(lambda: posts(generation), 20, "generation was asked")
    assert gateway.receipt("left")["outcome"] == "client_closed"
    assert all(e["inflight"] == 0 for e in gateway.rules()[0]["endpoints"])
    words = prompt()
    assert same_text(complete(vip, words), plain, words)


# --- settings

def page_body(vip, contexts, generation):
    """As the page has it but for the addresses and the probed port."""
    ip, port = split_address(vip)
    rows = [(c, 1) for c in contexts] + [(generation, 2)]
    return {"serviceArguments": {
                "externalIP": ip, "port": port, "protocol": "tcp", "sel": 0, "mode": 4, "security": 0,
                "pd_disagg_mode": True, "kvEngineType": "trtllm", "kvExactMode": 1,
                "kvBlockSize": 32, "kvWarmupSec": 5, "sse_mode": True, "host": ip,
                "monitor": True, "cb_enable": True, "probetype": "http",
                "probeport": split_address(contexts[0].address)[1], "probereq": "/health",
                "probeTimeout": 5, "probeRetries": 2},
            "endpoints": [{"endpointIP": split_address(e.address)[0],
                           "targetPort": split_address(e.address)[1], "weight": 1, "ep_role": role}
                          for e, role in rows]}


def test_the_body_of_the_page_works_and_its_contexts_are_followed(gateway, engines, plain):
    first, second, generation = engines(3, "--tokens-per-block", 32)
    vip = gateway.vip()
    body = page_body(vip, [first, second], generation)
    made = gateway.create(body)
    assert made["serviceArguments"]["kvExactMode"] == 1
    assert sorted(e["ep_role"] for e in made["endpoints"]) == [1, 1, 2]
    wait_until(lambda: all(c.drains()["count"] for c in (first, second)), 20, "both are drained")
    words = prompt()
    for i in range(4):
        assert same_text(complete(vip, words, request_id=f"p{i}", max_tokens=6), plain, words,
                         max_tokens=6)
    assert [leg[0] for leg in legs(gateway, "p3")] == PAIR
    wait_until(lambda: gateway.metric("loxilb_pd_kv_blocks") > 0, 20, "blocks are known")
    assert generation.drains()["count"] == 0
    assert first.drains()["overlaps"] == second.drains()["overlaps"] == 0


def test_a_key_is_needed_where_the_engines_have_one(gateway, pool, plain, tmp_path):
    path = tmp_path / "key"
    path.touch(mode=0o600)
    path.write_text("right-key\n", encoding="ascii")
    vip, _, _ = pool(flags=("--era", "main", "--disagg-auth-key", "right-key"),
                     trt_disagg_key_file=str(path))
    words = prompt()
    assert same_text(complete(vip, words, max_tokens=6), plain, words, max_tokens=6)


def test_another_key_is_a_502_that_names_the_setting(gateway, pool, tmp_path):
    path = tmp_path / "key"
    path.touch(mode=0o600)
    path.write_text("wrong-key\n", encoding="ascii")
    vip, _, (generation,) = pool(flags=("--era", "main", "--disagg-auth-key", "right-key"),
                                 trt_disagg_key_file=str(path))
    reply = complete(vip, prompt(), max_tokens=6)
    assert (reply.status, reply.json()["error"]["code"]) == (502, "pd_decode_failed")
    assert "trt_disagg_key_file" in reply.json()["error"]["message"]
    assert leases(generation)["pulls"]["done"] == 0
