"""Prefill on one simulated engine, decode on another, over NIXL, as a gateway would drive them.

What an engine survives and what it does not was found on running engines; each row of that table is
a test here. KV that is not of the prompt makes the text another one, so a wrong text shows.
"""

import json

import pytest

import captures as cap
from harness import RawClient, request_bytes, start_sim, wait_until
from pd_legs import (  # noqa: F401 (a fixture is among them)
    ASK, NIXL, PATH, body, decode, engine, held, leases, params_of, plain, prefill, prompt,
    text)


@pytest.fixture
def pair():
    with engine(*NIXL) as p, engine(*NIXL) as d:
        yield p, d


def test_a_pair_says_what_one_engine_says(pair, plain):
    p, d = pair
    for n in (1, 2, 31, 32, 33, 64, 70, 200):
        ids = prompt(n, n)
        params = params_of(p, ids, f"r-{n}")
        assert text(decode(d, ids, params, f"r-{n}")) == plain(ids)
        assert held(p) == []
    # And what it stored under those prompts is right: asked again without a transfer.
    assert all(text(d.post(PATH, body(prompt(n, n)))) == plain(prompt(n, n)) for n in (64, 200))
    assert leases(p)["read"] == 8 and leases(p)["late_notices"] == 0


def test_only_what_is_missing_is_read_and_the_answer_is_the_same(pair, plain):
    p, d = pair
    ids = prompt(3, 200)
    d.post(PATH, body(ids[:64] + [1, 2, 3]))
    before = d.metric("external_prefix_cache_hits_total")
    assert text(decode(d, ids, params_of(p, ids))) == plain(ids)
    assert d.metric("external_prefix_cache_hits_total") - before == 200 - 64


def test_chats_and_streams_go_over_as_well(pair):
    p, d = pair
    path = "/v1/chat/completions"
    chat = {"messages": [{"role": "user", "content": "tell me something " * 8}], "max_tokens": 9,
            "ignore_eos": True}
    with engine() as alone:
        want = alone.post(path, chat).json()["choices"][0]["message"]["content"]
    first = p.post(path, {**chat, "max_tokens": 1, "kv_transfer_params": ASK}).json()
    again = {**chat, "kv_transfer_params": first["kv_transfer_params"], "stream": True}
    events = cap.sse_events(d.post(path, again).body)
    assert events[-1] == "[DONE]"
    parts = [json.loads(e)["choices"][0]["delta"].get("content", "") for e in events[:-1]]
    assert "".join(parts) == want


def test_the_object_is_the_recorded_one():
    with engine(*NIXL) as p:
        got = prefill(p, prompt(1), "pd-1")
    recorded = next(c for c in cap.load() if c["id"] == "pd-prefill-comp")
    want = json.loads(cap.bodies_of(recorded)[0])
    assert cap.shape(got) == cap.shape(want)
    mine, theirs = got["kv_transfer_params"], want["kv_transfer_params"]
    assert mine["remote_block_ids"] == theirs["remote_block_ids"] == [[1, 2, 3]]
    assert mine["remote_num_tokens"] == theirs["remote_num_tokens"] == 70
    assert mine["remote_request_id"].startswith("cmpl-pd-1-0-")


@pytest.mark.parametrize("version, has, lacks", [
    ("0.9.1", {"remote_port"}, {"tp_size", "remote_request_id", "remote_num_tokens"}),
    ("0.12.0", {"tp_size"}, {"remote_request_id", "remote_num_tokens"}),
    ("0.17.1", {"remote_request_id"}, {"remote_num_tokens", "pp_size"}),
    ("0.21.0", {"remote_num_tokens"}, {"transfer_mode", "pp_size"}),
    ("0.30.0", {"transfer_mode", "dcp_size", "pp_size"}, {"remote_prefill_cached_tokens"}),
])
def test_fields_came_with_releases_and_each_pair_works(version, has, lacks, plain):
    ids = prompt(5)
    with engine(*NIXL, "--pd-version", version) as p, \
            engine(*NIXL, "--pd-version", version) as d:
        params = params_of(p, ids)
        assert has <= set(params) and not lacks & set(params)
        nests = tuple(map(int, version.split("."))) >= (0, 18)
        assert isinstance(params["remote_block_ids"][0], list) == nests
        reply = decode(d, ids, params)
        assert text(reply) == plain(ids)
        cached = reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert cached == 70  # a decode engine counts what it was sent, up to 0.30
        assert held(p) == []


def test_cached_tokens_of_decode_are_prefills_own(pair):
    p, d = pair
    ids = prompt(6)
    p.post(PATH, body(ids))
    reply = decode(d, ids, params_of(p, ids))
    assert reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 64


@pytest.mark.parametrize("params", [
    {}, {"unknown": {"x": 1}}, {"do_remote_prefill": False, "remote_block_ids": [[1]]}])
def test_params_that_ask_for_nothing_are_computed(pair, plain, params):
    assert text(decode(pair[1], prompt(7), params)) == plain(prompt(7))


def test_seven_fields_are_enough_and_more_do_no_harm(pair, plain):
    p, d = pair
    basic = ("do_remote_prefill", "do_remote_decode", "remote_block_ids", "remote_engine_id",
             "remote_request_id", "remote_host", "remote_port")
    full = params_of(p, prompt(8), "a")
    assert text(decode(d, prompt(8), {k: full[k] for k in basic})) == plain(prompt(8))
    full = params_of(p, prompt(9), "b")
    assert text(decode(d, prompt(9), {**full, "more": [1, {"x": None}]})) == plain(prompt(9))


def test_params_that_are_no_object_are_refused(pair):
    reply = decode(pair[1], prompt(1), "x")
    assert reply.status == 400
    assert reply.json()["error"]["param"] == "body.kv_transfer_params"


def test_an_unknown_request_id_leaves_the_blocks_until_the_lease_ends(plain):
    with engine(*NIXL, "--kv-lease-ms", 400) as p, engine(*NIXL) as d:
        params = params_of(p, prompt(10))
        reply = decode(d, prompt(10), {**params, "remote_request_id": "cmpl-nobody-0-00000000"})
        assert text(reply) == plain(prompt(10))
        assert leases(p)["late_notices"] == 1
        assert p.metric("nixl_num_notifications_after_expiry_total") == 1
        wait_until(lambda: leases(p)["expired"] == 1)
        assert held(p) == [] and p.metric("nixl_num_kv_expired_reqs_total") == 1


def poisoned(d, ids, plain):
    """Whether a plain request for that prompt is answered wrong, until the cache is reset."""
    wrong = text(d.post(PATH, body(ids))) != plain(ids)
    assert d.post("/reset_prefix_cache").json() == {"success": True}
    assert text(d.post(PATH, body(ids))) == plain(ids)
    return wrong


def test_another_prompts_object_is_a_wrong_text_and_a_poisoned_cache(pair, plain):
    p, d = pair
    ids, foreign = prompt(11), params_of(p, prompt(12), "other")
    assert text(decode(d, ids, foreign)) != plain(ids)
    assert poisoned(d, ids, plain)


def test_other_valid_block_ids_are_a_wrong_text_and_a_poisoned_cache(pair, plain):
    p, d = pair
    params = params_of(p, prompt(13))
    for ids in ([[3, 2, 1]], [[1, 2, 4]], [[20, 21, 22]]):
        assert text(decode(d, prompt(13), {**params, "remote_block_ids": ids})) != plain(prompt(13))
        assert d.post("/reset_prefix_cache").json() == {"success": True}
    decode(d, prompt(13), {**params, "remote_block_ids": [[20, 2, 3]]})
    assert poisoned(d, prompt(13), plain)


def overwrite(p):
    """Every block that nobody holds gets other content."""
    for i in range(6):
        assert p.post(PATH, body(prompt(f"over-{i}", 480))).status == 200


def test_after_the_lease_nothing_fails_and_the_text_is_wrong(plain):
    with engine(*NIXL, "--kv-lease-ms", 100) as p, engine(*NIXL) as d:
        params = params_of(p, prompt(14))
        wait_until(lambda: leases(p)["expired"] == 1)
        overwrite(p)
        assert text(decode(d, prompt(14), params)) != plain(prompt(14))
        assert poisoned(d, prompt(14), plain)
        assert leases(p)["late_notices"] == 1


def test_an_object_used_twice_reads_what_came_after(pair, plain):
    p, d = pair
    params = params_of(p, prompt(15))
    with engine(*NIXL) as second:
        assert text(decode(d, prompt(15), params)) == plain(prompt(15))
        overwrite(p)
        assert text(decode(second, prompt(15), params)) != plain(prompt(15))


def test_held_blocks_are_not_overwritten(pair, plain):
    p, d = pair
    params = params_of(p, prompt(16))
    overwrite(p)
    assert text(decode(d, prompt(16), params)) == plain(prompt(16))


@pytest.mark.parametrize("change", [
    {"remote_engine_id": "00000000-0000-4000-8000-000000000000"},
    {"remote_port": 1},
    {"remote_block_ids": [[1, 2, 6500]]},
])
def test_a_load_that_fails_is_a_500_of_an_engine_that_lives(plain, change):
    with engine(*NIXL) as p, engine(*NIXL, "--kv-connect-ms", 50) as d:
        params = {**params_of(p, prompt(17)), **change}
        reply = decode(d, prompt(17), params)
        assert reply.status == 500
        assert reply.json()["error"] == {"message": "Internal server error", "code": 500,
                                         "type": "InternalServerError", "param": None}
        stream = decode(d, prompt(17), params, stream=True)
        assert stream.status == 200
        events = cap.sse_events(stream.body)
        assert len(events) == 2 and json.loads(events[0])["error"]["code"] == 500
        assert text(d.post(PATH, body(prompt(17)))) == plain(prompt(17))
        assert d.metric("nixl_num_failed_transfers_total") == 2
        assert d.metric("request_success_total", finished_reason="error") == 2


@pytest.mark.parametrize("flags", [("--kv-load-failure-policy", "recompute"),
                                   ("--pd-version", "0.16.0")])
def test_recompute_answers_though_nobody_listens(plain, flags):
    with engine(*NIXL, *flags) as p, engine(*NIXL, *flags, "--kv-connect-ms", 50) as d:
        params = {**params_of(p, prompt(18)), "remote_port": 1}
        assert text(decode(d, prompt(18), params)) == plain(prompt(18))


def test_engines_that_do_not_fit_do_not_shake_hands():
    with engine(*NIXL) as p, start_sim(*NIXL, "--block-size", 16, "--max-model-len", 512) as d:
        reply = decode(d, prompt(19, 16), params_of(p, prompt(19, 16)))
        assert reply.status == 500


def test_a_prefill_engine_that_was_known_and_is_gone_fails_at_once(plain):
    with engine(*NIXL) as p, engine(*NIXL) as d:
        assert text(decode(d, prompt(20), params_of(p, prompt(20)))) == plain(prompt(20))
        params = params_of(p, prompt(21))
        p.child.kill()
        p.child.wait()
        assert decode(d, prompt(21), params).status == 500  # far below the connect time-out of 5 s
        assert d.child.poll() is None


def test_without_a_request_id_it_hangs_and_ends_when_the_client_gives_up(pair):
    p, d = pair
    params = params_of(p, prompt(22))
    del params["remote_request_id"]
    client = RawClient(d.address)
    client.send(request_bytes("POST", PATH, {**body(prompt(22)), "kv_transfer_params": params}))
    wait_until(lambda: d.metric("num_requests_waiting") == 1)
    assert text(d.post(PATH, body(prompt(23)))) != ""  # others are served meanwhile
    client.close()
    assert d.wait() == 70


@pytest.mark.parametrize("change", [
    {"remote_block_ids": None}, {"remote_block_ids": [[]]}, {"remote_block_ids": [1, 2, 3]},
    {"remote_block_ids": [[1, 2]]}], ids=["null", "empty", "flat", "fewer"])
def test_block_lists_an_engine_does_not_survive(pair, change):
    p, d = pair
    reply = decode(d, prompt(24), {**params_of(p, prompt(24)), **change})
    assert reply.status == 500
    assert "EngineCore encountered an issue" in reply.json()["error"]["message"]
    assert d.wait() == 70


def test_a_longer_prompt_than_was_prefilled_ends_the_engine(pair):
    p, d = pair
    assert decode(d, prompt(25, 130), params_of(p, prompt(25, 70))).status == 500
    assert d.wait() == 70


def test_a_text_smuggled_in_as_params_ends_the_engine():
    with engine(*NIXL) as d:
        extra = {"kv_transfer_params": "x"}
        assert d.post(PATH, body(prompt(26), vllm_xargs=extra)).status == 500
        assert d.wait() == 70


def test_do_remote_prefill_alone_ends_the_engine():
    with engine(*NIXL) as d:
        assert decode(d, prompt(26), {"do_remote_prefill": True}).status == 500
        assert d.wait() == 70


def test_blocks_are_held_with_nothing_running(pair):
    p, _ = pair
    params_of(p, prompt(27), "a")
    params_of(p, prompt(28), "b")
    first, second = held(p)
    assert [first["blocks"], second["blocks"]] == [3, 3]
    assert p.metric("num_requests_running") == 0
    assert p.metric("kv_cache_usage_perc") == pytest.approx(6 / 64)
    assert 29_000 < first["left_ms"] + first["age_ms"] <= 30_000
    assert p.post("/reset_prefix_cache").json() == {"success": False}


@pytest.mark.parametrize("version, lease_s", [("0.9.2", None), ("0.10.2", 120), ("0.11.1", 480),
                                              ("0.21.0", 480), ("0.22.0", 30)])
def test_leases_are_those_of_the_release(version, lease_s):
    with engine(*NIXL, "--pd-version", version) as p:
        params_of(p, prompt(29))
        (lease,) = held(p)
        if lease_s is None:
            assert lease["left_ms"] is None
        else:
            assert lease_s - 1 < (lease["left_ms"] + lease["age_ms"] + 1) / 1000 <= lease_s + 1


def test_a_prefill_that_is_aborted_holds_nothing():
    with engine(*NIXL, "--prefill-us-per-token", 100_000) as p:
        with RawClient(p.address) as client:
            client.send(request_bytes("POST", PATH, {**body(prompt(30)), "max_tokens": 1,
                                                     "kv_transfer_params": ASK}))
            wait_until(lambda: p.metric("num_requests_running") == 1)
        wait_until(lambda: p.metric("num_requests_running") == 0)
        assert held(p) == [] and p.metric("kv_cache_usage_perc") == 0


BUSY = ("--max-num-seqs", 1, "--decode-us-per-token", 20_000)


def occupy(d):
    client = RawClient(d.address)
    client.send(request_bytes("POST", PATH, body(prompt(31), max_tokens=400, stream=True)))
    client.read_until(b"data: ")
    return client


def send_decode(d, ids, params):
    client = RawClient(d.address)
    client.send(request_bytes("POST", PATH, {**body(ids), "kv_transfer_params": params}))
    wait_until(lambda: d.metric("num_requests_waiting") == 1)
    return client


def test_a_decode_that_is_aborted_in_the_queue_frees_prefills_blocks():
    with engine(*NIXL) as p, engine(*NIXL, *BUSY) as d:
        with occupy(d):
            client = send_decode(d, prompt(32), params_of(p, prompt(32)))
            assert len(held(p)) == 1
            client.close()
            wait_until(lambda: held(p) == [])
            assert leases(p)["read"] == 1


def test_heartbeats_keep_the_lease_of_a_queued_decode(plain):
    lease = ("--kv-lease-ms", 300)
    with engine(*NIXL, *lease) as p, engine(*NIXL, *BUSY, *lease) as d:
        with occupy(d):
            client = send_decode(d, prompt(33), params_of(p, prompt(33)))
            wait_until(lambda: held(p)[0]["age_ms"] > 900)
        reply = client.read_reply()
        assert text(reply) == plain(prompt(33))
        client.close()
        assert leases(p)["expired"] == 0


def test_before_leases_were_renewed_a_queued_decode_loses_its_blocks():
    old = ("--pd-version", "0.21.0", "--kv-lease-ms", 300)
    with engine(*NIXL, *old) as p, engine(*NIXL, *BUSY, *old) as d:
        with occupy(d):
            with send_decode(d, prompt(34), params_of(p, prompt(34))):
                wait_until(lambda: leases(p)["expired"] == 1)


def test_up_to_0_12_blocks_are_freed_only_under_the_same_id(plain):
    old = ("--pd-version", "0.12.0")
    with engine(*NIXL, *old) as p, engine(*NIXL, *old) as d:
        assert text(decode(d, prompt(35), params_of(p, prompt(35), "a"), "a")) == plain(prompt(35))
        assert held(p) == []
        assert text(decode(d, prompt(36), params_of(p, prompt(36), "b"), "c")) == plain(prompt(36))
        assert [h["request_id"] for h in held(p)] == ["cmpl-b-0"]


@pytest.mark.parametrize("version, hands_over", [("0.20.0", False), ("0.21.0", True)])
def test_an_answer_that_ends_by_a_stop(version, hands_over):
    with engine(*NIXL, "--pd-version", version) as p:
        first = p.post(PATH, {**body(prompt(37)), "max_tokens": 1, "return_token_ids": True}).json()
        got = prefill(p, prompt(37), stop_token_ids=first["choices"][0]["token_ids"])
        assert got["choices"][0]["finish_reason"] == "stop"
        assert (got["kv_transfer_params"] is not None) == hands_over
        assert len(held(p)) == (1 if hands_over else 0)


def test_of_several_prompts_and_choices_only_the_firsts_blocks_are_told(pair):
    p, _ = pair
    reply = p.post(PATH, {**body([prompt(38), prompt(39)], n=2), "max_tokens": 1,
                          "kv_transfer_params": ASK}).json()
    assert len(held(p)) == 4
    assert reply["kv_transfer_params"]["remote_request_id"] in [h["request_id"] for h in held(p)]


def test_each_of_several_answers_is_what_an_engine_without_a_connector_says():
    with engine(*NIXL) as with_one, engine() as without:
        ask = body(prompt(7), n=3)
        said = [[c["text"] for c in e.post(PATH, ask).json()["choices"]] for e in (with_one, without)]
    assert said[0] == said[1] and len(set(said[0])) == 3


def test_no_chunk_of_a_stream_carries_the_params(pair):
    p, _ = pair
    reply = p.post(PATH, {**body(prompt(40)), "max_tokens": 1, "stream": True,
                          "kv_transfer_params": ASK})
    assert b"kv_transfer_params" not in reply.body
    assert len(held(p)) == 1
