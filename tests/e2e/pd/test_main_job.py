"""Prefill and decode as one request: what each engine is sent, and what the client sees."""

import json
import threading

import pytest

from conftest import held, legs, pd_rule
from gateway import chat, complete
from harness import exchange, wait_until
from pairs import header, posts, prompt, same_text, text_of


@pytest.fixture
def pair(gateway, engines):
    """One prefill and one decode engine behind a rule."""
    prefill, decode = engines(2)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode]))
    return vip, prefill, decode


def test_ta_the_prefill_body_asks_for_one_token_and_the_decode_body_is_the_clients(
        gateway, pair, plain):
    vip, prefill, decode = pair
    words = prompt()
    more = {"max_tokens": 6, "min_tokens": 2, "temperature": 0, "stop": ["zzz"]}
    reply = complete(vip, words, request_id="ta", **more)
    assert same_text(reply, plain, words, **more)
    assert "kv_transfer_params" not in reply.json() or reply.json()["kv_transfer_params"] is None
    first, = posts(prefill)
    second, = posts(decode)
    asked, got = json.loads(first["body"]), json.loads(second["body"])
    assert asked["max_tokens"] == 1 and "min_tokens" not in asked and "stream" not in asked
    assert asked["kv_transfer_params"]["do_remote_decode"] is True
    handed = got.pop("kv_transfer_params")
    assert handed["do_remote_prefill"] is True and handed["remote_block_ids"]
    assert got == {"model": "tiny", "prompt": words, **more}
    assert [leg[0] for leg in legs(gateway, "ta")] == ["prefill", "decode"]


@pytest.mark.parametrize("given", [{}, {"max_tokens": 5}, {"max_completion_tokens": 5},
                                   {"max_tokens": 7, "max_completion_tokens": 5}])
def test_e1_limits_of_tokens_are_forced_on_prefill_and_as_given_on_decode(pair, given):
    vip, prefill, decode = pair
    reply = chat(vip, [{"role": "user", "content": prompt()}], **given)
    assert reply.status == 200, reply.body
    asked = json.loads(posts(prefill)[0]["body"])
    got = json.loads(posts(decode)[0]["body"])
    assert asked["max_tokens"] == 1
    assert asked.get("max_completion_tokens") == (1 if "max_completion_tokens" in given else None)
    assert {k: got[k] for k in got if k.startswith("max_")} == given


@pytest.mark.parametrize("limit", [1, 2])
def test_e13_the_client_gets_as_many_tokens_as_it_asked_for(pair, limit):
    vip, prefill, decode = pair
    reply = complete(vip, prompt(), max_tokens=limit)
    assert reply.json()["usage"]["completion_tokens"] == limit


def test_e2_a_stream_is_a_stream_of_decode_alone(gateway, pair, plain):
    vip, prefill, decode = pair
    words = prompt()
    body = {"model": "tiny", "prompt": words, "max_tokens": 5, "min_tokens": 3, "stream": True,
            "stream_options": {"include_usage": True}}
    reply = exchange(vip, "POST", "/v1/completions", body)
    assert reply.status == 200 and reply.header("Content-Type").startswith("text/event-stream")
    events = reply.events()
    assert events[-1] == "[DONE]"
    chunks = [json.loads(e) for e in events[:-1]]
    said = "".join(c["choices"][0]["text"] for c in chunks if c["choices"])
    assert said == text_of(complete(plain.address, words, max_tokens=5, min_tokens=3))
    assert chunks[-1]["usage"]["completion_tokens"] == 5
    asked = json.loads(posts(prefill)[0]["body"])
    assert asked["stream"] is False and "stream_options" not in asked


def test_tc_both_legs_have_one_request_id_and_the_client_keeps_its_own(gateway, engines):
    prefill, decode = engines(2)
    vip = gateway.vip()
    body = pd_rule(vip, [prefill], [decode])
    body["endpoints"][0]["nixl_port"] = 5600
    body["endpoints"][1]["nixl_port"] = 5601
    gateway.create(body)
    seen = set()
    for name in ("mine-1", "mine-2"):
        reply = complete(vip, prompt(), request_id=name)
        assert reply.header("X-Request-Id") == name
        first, second = (header(posts(e)[-1], "X-Request-Id") for e in (prefill, decode))
        assert first == second
        assert first.startswith("___prefill_addr_127.0.0.1:5600___decode_addr_127.0.0.1:5601_")
        assert len(first.rsplit("_", 1)[1]) == 32
        seen.add(first)
    assert len(seen) == 2


@pytest.mark.parametrize("streams", [False, True])
def test_the_id_in_an_answer_is_the_clients_and_names_no_endpoint(pair, plain, streams):
    vip = pair[0]
    words = prompt()
    for ask in (lambda address: complete(address, words, request_id="mine-7", stream=streams),
                lambda address: chat(address, [{"role": "user", "content": words}], max_tokens=3,
                                     request_id="mine-7", stream=streams)):
        reply, alone = ask(vip), ask(plain.address)
        assert b"addr_" not in reply.body
        pick = (lambda r: json.loads(r.events()[0])["id"]) if streams else (lambda r: r.json()["id"])
        assert pick(reply) == pick(alone) and "mine-7" in pick(reply)


def test_tb_requests_spread_over_both_pools(gateway, engines):
    prefills, decodes = engines(2), engines(2)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, prefills, decodes))
    # An engine that was asked for its load while it answered looks busy until it is asked again.
    for _ in range(12):
        for _ in range(8):
            assert complete(vip, prompt()).status == 200
        served = [len(posts(e)) for e in [*prefills, *decodes]]
        if min(served) >= 2:
            break
    assert min(served) >= 2, served


@pytest.mark.parametrize("number", [10, 50])
def test_te_requests_at_once_are_all_right(gateway, engines, plain, number):
    prefills, decodes = engines(2), engines(2)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, prefills, decodes))
    answers = {}

    def ask(i):
        words = prompt(f"question {i}")
        answers[i] = (complete(vip, words), words)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(number)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(same_text(reply, plain, words) for reply, words in answers.values())
    wait_until(lambda: not any(held(e) for e in prefills), 10, "no blocks are held")
    wait_until(lambda: gateway.metric("loxilb_pd_leases_outstanding") == 0, 10, "no lease is out")
    assert all(e["inflight"] == 0 for e in gateway.rules()[0]["endpoints"])


def test_tj_a_user_and_a_conversation_keep_their_pair(gateway, engines):
    prefills, decodes = engines(2), engines(2)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, prefills, decodes))
    where = {}
    for turn in range(3):
        for name in ("anna", "bert", "cleo"):
            reply = complete(vip, prompt(), request_id=f"{name}-{turn}", user=name)
            assert reply.status == 200
            pair = tuple(leg[1] for leg in legs(gateway, f"{name}-{turn}"))
            assert where.setdefault(name, pair) == pair
    tiers = [leg["tier"] for leg in gateway.receipt("anna-2")["legs"]]
    assert tiers == ["session", "session"]
    assert gateway.metric("loxilb_ai_pd_session_hits_total") == 6
    assert gateway.metric("loxilb_pd_sessions_active") == 3


def test_tk_a_prompt_follows_its_beginning(gateway, engines):
    prefills, decodes = engines(3), engines(1)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, prefills, decodes, pd_cache_aware_mode=True))
    families = {name: prompt(name) for name in ("law", "tax", "art")}
    where = {}
    for turn in range(3):
        for name, words in families.items():
            complete(vip, words + f" and question {turn}", request_id=f"{name}{turn}")
            where.setdefault(name, set()).add(legs(gateway, f"{name}{turn}")[0][1])
    assert all(len(w) == 1 for w in where.values())
    assert gateway.receipt("art2")["legs"][0]["tier"] == "prefix"
    assert gateway.metric("loxilb_pd_trie_nodes") > 0


def test_e9_cached_tokens_are_those_of_prefill(gateway, engines):
    prefill, decode = engines(2, "--pd-version", "0.30.0")
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode]))
    words = prompt()
    cold, warm = (complete(vip, words, request_id=f"usage-{i}") for i in (0, 1))
    details = [r.json()["usage"]["prompt_tokens_details"]["cached_tokens"] for r in (cold, warm)]
    tokens = cold.json()["usage"]["prompt_tokens"]
    assert details == [0, (tokens - 1) // 16 * 16]
    assert gateway.receipt("usage-1")["tokens"]["reported_cached"] == details[1]


@pytest.mark.parametrize("more", [{"n": 2}, {"prompt": ["one", "two"]}, {"echo": True}])
def test_d4_what_cannot_be_split_runs_whole(gateway, pair, more):
    vip, prefill, decode = pair
    reply = exchange(vip, "POST", "/v1/completions",
                     {"model": "tiny", "prompt": prompt(), "max_tokens": 2, **more},
                     [("X-Request-Id", "whole")])
    assert reply.status == 200, reply.body
    assert [leg[0] for leg in legs(gateway, "whole")] == ["whole"]
    assert not posts(prefill) and len(posts(decode)) == 1


def test_short_prompts_run_whole_when_the_rule_says_so(gateway, engines):
    prefill, decode = engines(2)
    vip = gateway.vip()
    gateway.create(pd_rule(vip, [prefill], [decode], pd_min_prompt_tokens=20))
    complete(vip, "hi", request_id="short")
    complete(vip, prompt(), request_id="long")
    assert [leg[0] for leg in legs(gateway, "short")] == ["whole"]
    assert [leg[0] for leg in legs(gateway, "long")] == ["prefill", "decode"]


def test_a_clients_own_transfer_fields_never_get_through(gateway, pair, plain):
    vip, prefill, decode = pair
    words = prompt()
    for value in ({"do_remote_prefill": True}, {"do_remote_decode": True}, "x", None):
        reply = complete(vip, words, kv_transfer_params=value)
        assert same_text(reply, plain, words)
    assert gateway.rules()[0]["endpoints"][1]["state"] == "active"
    reply = complete(vip, words, request_id="r")
    assert [leg[0] for leg in legs(gateway, "r")] == ["prefill", "decode"]


def test_tf_the_rule_reads_back_and_explain_tells_both_legs(gateway, engines):
    prefill, decode = engines(2)
    vip = gateway.vip()
    body = pd_rule(vip, [prefill], [decode], pd_connector="nixl", pd_cache_threshold=0)
    body["endpoints"][0]["nixl_port"] = 5600
    made = gateway.create(body)
    assert made["serviceArguments"]["pd_disagg_mode"] is True
    assert made["effective"]["pd_session_ttl_sec"] == 300
    roles = {e["targetPort"]: (e["ep_role"], e.get("nixl_port", 0)) for e in made["endpoints"]}
    assert sorted(roles.values()) == [(1, 5600), (2, 0)]
    told = gateway.explain({"rule": made["number"], "body": {"model": "tiny", "prompt": "x"}}).json()
    assert [(leg["kind"], leg["endpoint"]) for leg in told["legs"]] == [
        ("prefill", prefill.address), ("decode", decode.address)]
    assert not posts(prefill) and not posts(decode)


def test_th_the_metrics_of_a_pair(gateway, pair):
    vip, prefill, decode = pair
    for _ in range(3):
        complete(vip, prompt())
    metric = gateway.metric
    wait_until(lambda: metric("loxilb_ai_pd_requests_total", phase="complete",
                              status="success") == 3, 5, "the last answer is counted")
    assert metric("loxilb_ai_pd_kv_params_found_total", model="tiny") == 3
    assert metric("loxilb_ai_pd_prefill_duration_seconds_count") == 3
    assert metric("loxilb_ai_pd_decode_ttft_seconds_count") == 3
    assert metric("loxilb_ai_pd_tier_selected_total", tier="selector") == 3
    assert metric("loxilb_pd_leases_total", end="read") == 3
    text = gateway.get("/metrics").body.decode()
    for name in ("fallback_to_normal", "connect_failover", "prefill_ep_died", "decode_ep_died",
                 "decode_zero_byte_eof", "admission_queued", "admission_shed", "cb_flips",
                 "cb_proactive_heal", "trt_ctx_early_exit", "sg_prefill_abort_decode",
                 "sg_decode_close_drain", "sg_room_retry", "sg_prefill_reject_relay",
                 "sg_oversize_reject"):
        assert f"\nloxilb_pd_{name}_total " in text, name
    assert "\nloxilb_proxy_pd_kv_params_overflow_total " in text
