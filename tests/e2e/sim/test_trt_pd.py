"""Context on one simulated TensorRT-LLM, generation on another, as a gateway would drive them.

KV that is not of the prompt makes the text another one, so a wrong text shows.
"""

import base64
import hashlib
import hmac
import json
import random
import struct

import pytest

from harness import RawClient, request_bytes, start_trt, wait_until

FAST = ("--decode-us-per-token", 0, "--prefill-us-per-token", 0, "--tokens-per-block", 16)
PATH = "/v1/completions"
BOTH = pytest.mark.parametrize("era", ("1.1", "1.3-late"))
GLOBAL_ID = 1 << 42
INVALID = "Invalid internal disaggregated request authentication"


def prompt(seed, tokens=70):
    return [random.Random(seed).randrange(97, 123) for _ in range(tokens)]


def body(ids, **more):
    return {"model": "sim", "prompt": ids, "max_tokens": 12, "ignore_eos": True, **more}


def engine(*flags):
    return start_trt(*FAST, *flags)


def context(c, ids, disagg=None, **more):
    """The whole reply of a context leg."""
    reply = c.post(PATH, body(ids, disaggregated_params={"request_type": "context_only",
                                                         **(disagg or {})}, **more))
    assert reply.status == 200, reply.body
    return reply.json()


def params_of(c, ids, disagg=None):
    return context(c, ids, disagg)["choices"][0]["disaggregated_params"]


def generate(g, ids, params, headers=(), **more):
    return g.post(PATH, body(ids, disaggregated_params={**params,
                                                        "request_type": "generation_only"},
                             **more), headers)


def text(reply):
    assert reply.status == 200, reply.body
    return reply.json()["choices"][0]["text"]


def leases(e):
    return e.get("/sim/leases").json()["ranks"][0]


def held(e):
    return leases(e)["held"]


def pulls(e):
    return e.get("/sim/leases").json()["pulls"]


@pytest.fixture
def pair():
    with engine() as c, engine() as g:
        yield c, g


@pytest.fixture(scope="module")
def plain():
    """What one engine that takes no part in pairs says."""
    with engine("--no-cache-transceiver") as e:
        yield lambda ids, **more: text(e.post(PATH, body(ids, **more)))


@BOTH
def test_a_pair_says_what_one_engine_says(era, plain):
    with engine("--era", era) as c, engine("--era", era) as g:
        for n in (1, 2, 15, 16, 17, 32, 70, 200):
            ids = prompt(n, n)
            params = params_of(c, ids)
            assert text(generate(g, ids, params)) == plain(ids)
            assert held(c) == []
        assert (leases(c)["read"], pulls(g)) == (8, {"done": 8, "failed": 0, "foreign": 0})
        # And what it stored under those prompts is right: asked again without a transfer.
        assert all(text(g.post(PATH, body(prompt(n, n)))) == plain(prompt(n, n)) for n in (70, 200))
        # So is what the context engine still has.
        assert text(c.post(PATH, body(prompt(200, 200)))) == plain(prompt(200, 200))


def test_the_answer_ends_as_it_would_elsewhere(pair, plain):
    c, g = pair
    ids = prompt(4)
    for more in ({"max_tokens": 1}, {"max_tokens": 300, "ignore_eos": False},
                 {"stop": plain(ids)[3:5]}):
        params = context(c, ids, **more)["choices"][0]["disaggregated_params"]
        assert text(generate(g, ids, params, **more)) == plain(ids, **more)


def test_a_context_leg_answers_with_one_token_and_a_hand_off(pair, plain):
    c, _ = pair
    ids = prompt(5)
    reply = context(c, ids, {"disagg_request_id": GLOBAL_ID + 5})
    (choice,) = reply["choices"]
    assert plain(ids).startswith(choice["text"]) and choice["finish_reason"] == "length"
    params = choice["disaggregated_params"]
    assert {k: v for k, v in params.items() if k not in ("encoded_opaque_state",
                                                         "ctx_request_id")} == {
        "request_type": "context_only", "first_gen_tokens": [ord(choice["text"])],
        "draft_tokens": None, "disagg_request_id": GLOBAL_ID + 5, "ctx_dp_rank": 0,
        "ctx_info_endpoint": None, "schedule_style": 0}
    assert len(base64.b64decode(params["encoded_opaque_state"], validate=True)) > 1024
    assert reply["prompt_token_ids"] == ids and reply["usage"]["completion_tokens"] == 1
    (lease,) = held(c)
    assert (lease["request_id"], lease["blocks"]) == (GLOBAL_ID + 5, 5)


def test_an_old_build_has_an_old_hand_off():
    with engine("--era", "1.1") as c:
        assert list(params_of(c, prompt(1))) == ["request_type", "first_gen_tokens",
                                                 "ctx_request_id", "encoded_opaque_state",
                                                 "draft_tokens"]
        reply = c.post(PATH, body([1], disaggregated_params={
            "request_type": "context_only", "disagg_request_id": GLOBAL_ID}))
        assert reply.status == 400 and "extra_forbidden" in reply.json()["message"]


def test_a_generation_leg_repeats_the_hand_off_and_counts_all_of_the_prompt_as_cached(pair):
    c, g = pair
    ids = prompt(6)
    params = params_of(c, ids)
    reply = generate(g, ids, params).json()
    assert reply["choices"][0]["disaggregated_params"] == {**params,
                                                           "request_type": "generation_only"}
    assert reply["prompt_token_ids"] is None
    assert reply["usage"]["prompt_tokens_details"]["cached_tokens"] == len(ids)
    leg = context(c, ids)
    params = {**leg["choices"][0]["disaggregated_params"], "ctx_usage": leg["usage"]}
    usage = generate(g, ids, params).json()["usage"]
    assert usage["prompt_tokens_details"] == leg["usage"]["prompt_tokens_details"]
    assert leg["usage"]["prompt_tokens_details"]["cached_tokens"] == 64


def test_chats_go_over_with_their_ids_and_as_streams(pair):
    c, g = pair
    path = "/v1/chat/completions"
    chat = {"model": "sim", "messages": [{"role": "user", "content": "tell me something " * 8}],
            "max_tokens": 9, "ignore_eos": True}
    want = c.post(path, chat).json()["choices"][0]["message"]["content"]
    for in_base64 in (False, True):
        ask = {"request_type": "context_only", "return_prompt_token_ids_b64": in_base64}
        first = c.post(path, {**chat, "disaggregated_params": ask}).json()
        name = "prompt_token_ids_b64" if in_base64 else "prompt_token_ids"
        params = {**first["choices"][0]["disaggregated_params"],
                  "request_type": "generation_only"}
        again = {**chat, "messages": [{"role": "user", "content": "x"}], name: first[name],
                 "disaggregated_params": params, "stream": True}
        reply = g.post(path, again)
        assert b"disaggregated_params" not in reply.body
        parts = [json.loads(e)["choices"][0]["delta"].get("content", "")
                 for e in reply.events()[:-1]]
        assert "".join(parts) == want
    ids = base64.b64decode(first["prompt_token_ids_b64"])
    assert first["prompt_token_ids"] is None
    assert len(struct.unpack(f"<{len(ids) // 4}i", ids)) == first["usage"]["prompt_tokens"]


def test_a_complete_answer_leaves_nothing_behind(pair, plain):
    c, _ = pair
    ids = prompt(7)
    reply = context(c, ids, stop_token_ids=[ord(plain(ids)[0])])
    assert reply["choices"][0]["finish_reason"] == "stop" and held(c) == []
    assert context(c, ids, stop=plain(ids)[0])["choices"][0]["finish_reason"] == "stop"
    assert held(c) == []


@pytest.mark.parametrize("word, count", [("length", 1), ("not_finished", 1), ("stop", 0)])
def test_how_a_leg_ends_can_be_said_otherwise(word, count):
    with engine("--context-finish", word) as c:
        assert context(c, prompt(8))["choices"][0]["finish_reason"] == word
        assert len(held(c)) == count


def test_a_state_is_good_for_one_reading(pair):
    c, _ = pair
    with engine("--kv-transfer-timeout-ms", 100) as g:
        params = params_of(c, prompt(9))
        assert generate(g, prompt(9), params).status == 200
        reply = generate(g, prompt(9), params)
        assert reply.status == 500 and "timed out" in reply.json()["message"]
        assert pulls(g) == {"done": 1, "failed": 1, "foreign": 0}


def test_a_state_of_another_request_is_not_read(pair):
    c, g = pair
    mine, other = params_of(c, prompt(10)), params_of(c, prompt(11))
    mixed = {**mine, "encoded_opaque_state": other["encoded_opaque_state"]}
    assert generate(g, prompt(10), mixed).status == 500
    assert len(held(c)) == 2


def test_a_state_that_is_none_is_refused(pair):
    c, g = pair
    params = params_of(c, prompt(12))
    for wrong in (None, "", "AAEC", params["encoded_opaque_state"][1:], "%%%%"):
        reply = generate(g, prompt(12), {**params, "encoded_opaque_state": wrong})
        assert reply.status == 400, wrong
    assert generate(g, prompt(12), {**params, "first_gen_tokens": []}).status == 400
    assert text(generate(g, prompt(12), params))


def test_kv_of_another_prompt_is_a_wrong_text_and_stays_in_the_cache(pair, plain):
    c, g = pair
    ids, other = prompt(13), prompt(14)
    wrong = text(generate(g, ids, params_of(c, other)))
    assert wrong != plain(ids) and pulls(g)["foreign"] == 1
    assert text(g.post(PATH, body(ids))) != plain(ids)
    g.post("/sim/reset")
    assert text(g.post(PATH, body(ids))) == plain(ids)


def test_an_id_in_use_holds_nothing(pair):
    c, g = pair
    first = params_of(c, prompt(15), {"disagg_request_id": GLOBAL_ID})
    second = params_of(c, prompt(16), {"disagg_request_id": GLOBAL_ID})
    assert len(held(c)) == 1
    assert generate(g, prompt(16), second).status == 500
    assert generate(g, prompt(15), first).status == 200


def test_blocks_nobody_reads_are_given_back(plain):
    with engine("--kv-transfer-timeout-ms", 50, "--blocks", 300) as c:
        params_of(c, prompt(17))
        wait_until(lambda: leases(c)["expired"] == 1)
        assert held(c) == []
        assert text(c.post(PATH, body(prompt(17)))) == plain(prompt(17))


def test_held_blocks_are_not_evicted_by_others(plain):
    flags = ("--blocks", 16, "--max-seq-len", 128)
    with engine(*flags) as c, engine() as g:
        params = params_of(c, prompt(18))
        for n in range(6):
            c.post(PATH, body(prompt(100 + n)))
        assert text(generate(g, prompt(18), params)) == plain(prompt(18))
        assert len(held(c)) == 0


def test_a_context_engine_that_is_gone_is_a_500(pair):
    c, g = pair
    params = params_of(c, prompt(19))
    c.restart()
    reply = generate(g, prompt(19), params)
    assert reply.status == 500 and "gone" in reply.json()["message"]
    assert reply.json()["type"] == "InternalServerError"


def test_a_client_that_leaves_ends_the_wait(pair):
    c, g = pair
    params = params_of(c, prompt(20))
    assert generate(g, prompt(20), params).status == 200
    again = body(prompt(20), disaggregated_params={**params, "request_type": "generation_only"})
    with RawClient(g.address) as client:
        client.send(request_bytes("POST", PATH, again))
        wait_until(lambda: len([r for r in g.requests() if r["method"] == "POST"]) == 2)
    assert text(g.post(PATH, body([1, 2])))
    assert pulls(g) == {"done": 1, "failed": 0, "foreign": 0}


def test_received_blocks_are_told_in_no_event():
    with engine() as c, engine("--event-buffer-max-size", 1000) as g:
        ids = prompt(21)
        generate(g, ids, params_of(c, ids))
        stored = [t["token_id"] for e in g.drain() if e["data"]["type"] == "stored"
                  for b in e["data"]["blocks"] for t in b["tokens"]]
        assert len(g.cache()) == 5
        assert len(stored) <= 16 + 2


@pytest.mark.parametrize("more", [
    {"n": 2}, {"use_beam_search": True}, {"prompt": [[1, 2], [3]]},
    {"disaggregated_params": {"request_type": "context_only", "disagg_request_id": 7}},
    {"disaggregated_params": {"request_type": "half"}},
])
def test_what_cannot_be_split_is_refused(more):
    with engine() as c:
        reply = c.post(PATH, {**body([1, 2], disaggregated_params={
            "request_type": "context_only"}), **more})
        assert reply.status == 400 and held(c) == []


def test_an_engine_without_a_transceiver_takes_no_leg():
    with engine() as c, engine("--no-cache-transceiver") as g:
        reply = generate(g, prompt(22), params_of(c, prompt(22)))
        assert reply.status == 400 and "not enabled" in reply.json()["message"]
        assert g.post(PATH, body([1], disaggregated_params={
            "request_type": "context_only"})).status == 400


def test_hand_offs_are_signed_where_there_is_a_key():
    flags = ("--era", "main", "--disagg-auth-key", "secret")
    with engine(*flags) as c, engine(*flags) as g:
        params = params_of(c, prompt(23))
        signed = json.dumps({"ctx_info_endpoint": None,
                             "encoded_opaque_state": params["encoded_opaque_state"]},
                            sort_keys=True, separators=(",", ":")).encode()

        def mac(key):
            return "sha256=" + hmac.new(key, signed, hashlib.sha256).hexdigest()
        for headers in ((), [("x-trtllm-disagg-auth", mac(b"other"))]):
            reply = generate(g, prompt(23), params, headers)
            assert (reply.status, reply.json()["message"]) == (400, INVALID)
        good = [("x-trtllm-disagg-auth", mac(b"secret"))]
        assert generate(g, prompt(23), params, good).status == 200


def test_two_ranks_each_keep_their_own():
    with engine("--dp-size", 2) as c, engine() as g:
        both = [(prompt(30 + n), params_of(c, prompt(30 + n))) for n in range(2)]
        ranks = c.get("/sim/leases").json()["ranks"]
        assert [len(r["held"]) for r in ranks] == [1, 1]
        assert all(generate(g, ids, params).status == 200 for ids, params in both)
