"""Pairs whose legs run at once and meet by a transfer id: Mooncake's."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import held, legs
from gateway import chat, complete, free_port
from harness import RawClient, request_bytes, wait_until
from meeting import Pool
from pairs import ask, error, header, posts, prompt, same_text, text_of
from raw_engine import RawEngine


@pytest.fixture
def pool(gateway):
    pools = []

    def make(*sizes, is_ready=True, **fields):
        pools.append(Pool(gateway, *sizes, **fields))
        if is_ready:
            wait_for_pairs(gateway, pools[-1].vip)
        return pools[-1]

    yield make
    for p in pools:
        p.close()


def wait_for_pairs(gateway, vip):
    """The gateway knows where the prefill engines are met."""
    def is_split():
        number = is_split.number = is_split.number + 1
        assert complete(vip, prompt(), request_id=f"{vip}-{number}").status == 200
        return not is_alone(gateway, f"{vip}-{number}")
    is_split.number = 0
    wait_until(is_split, 15, "both legs run")


def is_alone(gateway, request_id):
    """No prefill endpoint could take part."""
    return "prefill_unready" in [m["reason"] for m in gateway.receipt(request_id)["misses"]]


def body_of(request):
    return json.loads(request["body"])


def is_idle(gateway, p):
    """Nothing is held by anybody: load, places, blocks."""
    return all(e["inflight"] == 0 for e in gateway.rules()[0]["endpoints"]) and \
        not any(held(e) for e in p.prefills) and \
        gateway.metric("loxilb_pd_leases_outstanding") == 0 and \
        all(e.metric("num_requests_running") + e.metric("num_requests_waiting") == 0
            for e in (*p.prefills, *p.decodes))


def is_quiet(engine):
    return engine.metric("num_requests_running") + engine.metric("num_requests_waiting") == 0


def counted(gateway, name):
    return gateway.metric(f"loxilb_pd_sg_{name}_total")


# --- both legs run

def test_both_legs_are_sent_at_once_and_meet_by_their_transfer_id(gateway, pool, plain):
    p = pool()
    words = prompt()
    assert same_text(complete(p.vip, words, request_id="both"), plain, words)
    first, second = posts(p.prefills[0])[-1], posts(p.decodes[0])[-1]
    ask, read = (body_of(r)["kv_transfer_params"] for r in (first, second))
    assert ask == {"do_remote_decode": True, "do_remote_prefill": False,
                   "transfer_id": ask["transfer_id"]}
    assert read == {"do_remote_decode": False, "do_remote_prefill": True,
                    "transfer_id": ask["transfer_id"], "remote_engine_id": read["remote_engine_id"],
                    "remote_bootstrap_addr": f"http://127.0.0.1:{p.port}"}
    assert header(first, "X-data-parallel-rank") == "0"
    assert header(first, "X-Request-Id") == header(second, "X-Request-Id") != "both"
    assert [leg[0::2] for leg in legs(gateway, "both")] == [
        ("prefill", "handed_over"), ("decode", "relayed")]
    assert p.decodes[0].metric("external_prefix_cache_hits_total") > 0
    wait_until(lambda: is_idle(gateway, p), 5, "all is given back")
    assert gateway.metric("loxilb_pd_leases_total", end="read") >= 1


def test_decode_is_asked_while_prefill_still_computes(gateway, pool):
    p = pool()
    p.prefills[0].arm("hang")
    with RawClient(p.vip) as client:
        client.send(request_bytes("POST", "/v1/completions",
                                  {"model": "tiny", "prompt": "at once", "max_tokens": 2},
                                  [("X-Request-Id", "at-once")]))
        for engine in (p.prefills[0], p.decodes[0]):
            wait_until(lambda e=engine: posts(e) and body_of(posts(e)[-1])["prompt"] == "at once", 5,
                       "both are asked")
    # The client is gone: both are ended.
    assert gateway.receipt("at-once")["outcome"] == "client_closed"
    wait_until(lambda: is_idle(gateway, p), 5, "both are ended")
    assert counted(gateway, "decode_close_drain") == 0


@pytest.mark.parametrize("is_stream", [False, True])
def test_chats_and_streams_are_the_plain_engines(gateway, pool, plain, is_stream):
    p = pool(2, 2)
    for i in range(8):
        messages = [{"role": "user", "content": f"{i} {prompt()}"}]
        more = {"max_tokens": 6, "stream": is_stream}
        if is_stream:
            more["stream_options"] = {"include_usage": True}
        ours, theirs = (chat(address, messages, **more) for address in (p.vip, plain.address))
        assert (ours.status, theirs.status) == (200, 200)
        if is_stream:
            ours, theirs = (["".join(c["delta"].get("content") or "" for e in r.events()[:-1]
                                     for c in json.loads(e)["choices"]) for r in (ours, theirs)])
            assert ours == theirs
        else:
            assert ours.json()["choices"] == theirs.json()["choices"]
            assert [ours.json()["usage"][k] for k in ("prompt_tokens", "completion_tokens")] == [
                theirs.json()["usage"][k] for k in ("prompt_tokens", "completion_tokens")]
            assert ours.json()["kv_transfer_params"] is None
    wait_until(lambda: is_idle(gateway, p), 5, "all is given back")
    assert all(posts(e) for e in (*p.prefills, *p.decodes))


@pytest.mark.parametrize("is_stream", [False, True])
def test_the_usage_tells_what_prefill_had_cached(gateway, pool, is_stream):
    p = pool()
    words = prompt()

    def cached():
        more = {"stream": True, "stream_options": {"include_usage": True}} if is_stream else {}
        reply = complete(p.vip, words, max_tokens=8, **more)
        last = json.loads(reply.events()[-2]) if is_stream else reply.json()
        return last["usage"]["prompt_tokens_details"]["cached_tokens"]

    # A decode engine counts all that came from prefill as cached.
    assert cached() == 0
    assert cached() == (len(words.encode()) // 16) * 16 or cached() > 0


def test_many_at_once_get_their_own_texts(gateway, pool, plain):
    p = pool(2, 2)
    texts = [f"{i} {prompt()}" for i in range(40)]
    with ThreadPoolExecutor(10) as pool_of_clients:
        got = list(pool_of_clients.map(lambda w: text_of(complete(p.vip, w, max_tokens=8)), texts))
    assert got == [text_of(complete(plain.address, w, max_tokens=8)) for w in texts]
    transfers = [body_of(r)["kv_transfer_params"]["transfer_id"]
                 for e in p.decodes for r in posts(e) if "kv_transfer_params" in body_of(r)]
    assert len(set(transfers)) == len(transfers)
    wait_until(lambda: is_idle(gateway, p), 5, "all is given back")


def test_a_prefill_that_cannot_be_met_is_left_out(gateway, pool, plain):
    p = pool(bootstrap=free_port(), is_ready=False)
    for i in range(3):
        words = prompt()
        assert same_text(complete(p.vip, words, request_id=f"alone-{i}"), plain, words)
    assert is_alone(gateway, "alone-2")
    assert [leg[0] for leg in legs(gateway, "alone-2")] == ["whole"]
    assert not posts(p.prefills[0])
    assert gateway.metric("loxilb_pd_recomputed_total") == 3


def test_e6_a_bootstrap_server_that_hangs_keeps_nobody_waiting(gateway, pool, plain):
    with RawEngine(lambda call: call.hang()) as silent:
        p = pool(bootstrap=silent.port, is_ready=False)
        wait_until(lambda: silent.calls, 10, "it is asked")
        for i in range(3):
            words = prompt()
            assert same_text(complete(p.vip, words, request_id=f"silent-{i}"), plain, words)
            assert is_alone(gateway, f"silent-{i}")
        assert {call.path for call in silent.calls} == {"/query"}
    assert not posts(p.prefills[0])


def test_a_stream_may_be_silent_while_its_prefill_computes(gateway, pool, plain):
    p = pool(timeouts={"chunk_gap_ms": 200})
    p.prefills[0].arm("slow-head:900")
    words = prompt()
    reply = complete(p.vip, words, stream=True)
    assert reply.status == 200 and reply.events()[-1] == "[DONE]"
    got = "".join(json.loads(e)["choices"][0]["text"] for e in reply.events()[:-1])
    assert got == text_of(complete(plain.address, words))


# --- prefill fails while decode waits for it

def test_e5_a_4xx_of_prefill_ends_decode_and_is_the_clients(gateway, pool):
    p = pool()
    p.prefills[0].arm("status:422")
    assert complete(p.vip, prompt(), request_id="refused").status == 422
    assert [leg[0::2] for leg in legs(gateway, "refused")] == [
        ("prefill", "relayed"), ("decode", "cut_off")]
    assert counted(gateway, "prefill_reject_relay") == counted(gateway, "prefill_abort_decode") == 1
    wait_until(lambda: is_idle(gateway, p), 5, "decode is ended")


@pytest.mark.parametrize("is_stream", [False, True])
def test_e5_a_prefill_that_dies_has_both_run_once_more_with_a_new_id(gateway, pool, plain, is_stream):
    p = pool()
    before = len(posts(p.decodes[0]))
    p.prefills[0].arm("reset")
    words = prompt()
    reply = complete(p.vip, words, request_id="again", stream=is_stream)
    if is_stream:
        assert reply.status == 200 and reply.events()[-1] == "[DONE]"
        got = "".join(json.loads(e)["choices"][0]["text"] for e in reply.events()[:-1])
        assert got == text_of(complete(plain.address, words))
    else:
        assert same_text(reply, plain, words)
    ran = [leg[0::2] for leg in legs(gateway, "again")]
    # A kept connection that is reset may have been closed before the request came.
    assert ran[0] in (("prefill", "died"), ("prefill", "stale_connection"))
    assert ran[1:] == [("decode", "cut_off"), ("prefill", "handed_over"), ("decode", "relayed")]
    ids = [body_of(r)["kv_transfer_params"]["transfer_id"] for r in posts(p.decodes[0])[before:]]
    assert len(set(ids)) == 2
    assert counted(gateway, "room_retry") == counted(gateway, "prefill_abort_decode") == 1
    wait_until(lambda: is_idle(gateway, p), 5, "all is given back")


@pytest.mark.parametrize("is_stream", [False, True])
def test_e5_a_prefill_that_dies_twice_is_said_before_a_head_is_sent(gateway, pool, is_stream):
    p = pool()
    p.prefills[0].arm("reset", 0)
    reply = complete(p.vip, prompt(), stream=is_stream)
    assert error(reply) == (503, "pd_pool_unavailable")
    assert reply.json()["error"]["message"] == "prefill backend connection dropped"
    wait_until(lambda: is_idle(gateway, p), 5, "decode is ended")


def test_e5_a_5xx_of_prefill_goes_elsewhere_and_is_said_at_once(gateway, pool, plain):
    p = pool(2, 1)
    p.prefills[0].arm("status:500")
    p.prefills[1].arm("status:500")
    # Decode would wait for its blocks for minutes.
    reply = complete(p.vip, prompt(), request_id="broken")
    assert error(reply) == (502, "pd_prefill_failed")
    assert [leg[0::2] for leg in legs(gateway, "broken")] == [
        ("prefill", "refused"), ("decode", "cut_off")] * 2
    wait_until(lambda: is_idle(gateway, p), 5, "decode is ended")


def test_a_5xx_of_prefill_has_decode_compute_if_the_rule_says_so(gateway, pool, plain):
    p = pool(pd_decode_only_fallback=True)
    p.prefills[0].arm("status:500")
    words = prompt()
    assert same_text(complete(p.vip, words, request_id="broken"), plain, words)
    assert [leg[0::2] for leg in legs(gateway, "broken")] == [
        ("prefill", "refused"), ("decode", "cut_off"), ("whole", "relayed")]


def test_e6_a_silent_decode_is_ended_by_its_prefills_failure(gateway, pool):
    p = pool()
    p.decodes[0].arm("hang")
    p.prefills[0].arm("status:500")
    with RawClient(p.vip, limit_s=5) as client:
        client.send(request_bytes("POST", "/v1/completions",
                                  {"model": "tiny", "prompt": prompt(), "logprobs": 1}))
        assert error(client.read_reply()) == (502, "pd_prefill_failed")
    wait_until(lambda: is_quiet(p.decodes[0]), 5, "decode is closed")


def test_a_prefill_that_refuses_connections_is_replaced_and_then_said(gateway, pool, plain):
    p = pool(2, 1)
    p.prefills[0].kill()
    for _ in range(4):
        words = prompt()
        assert same_text(complete(p.vip, words), plain, words)
    p.prefills[1].kill()
    assert error(complete(p.vip, prompt())) == (503, "pd_pool_unavailable")


def test_a_slow_prefill_is_a_timeout_and_decode_is_ended(gateway, pool):
    p = pool(pd_prefill_timeout_ms=400)
    p.prefills[0].arm("hang")
    assert error(complete(p.vip, prompt(), stream=True)) == (504, "pd_prefill_timeout")
    wait_until(lambda: is_quiet(p.decodes[0]), 5, "decode is ended")


def test_a_busy_prefill_is_load_and_no_fault(gateway, pool, plain):
    p = pool()
    p.prefills[0].arm("status:429", 8)
    for _ in range(8):
        reply = complete(p.vip, prompt())
        assert reply.status == 429 and reply.header("Retry-After")
    assert {e["breaker"] for e in gateway.rules()[0]["endpoints"]} == {"closed"}
    words = prompt()
    assert same_text(complete(p.vip, words), plain, words)


def test_a_prefill_that_is_killed_late_is_said_before_a_head_is_sent(gateway, pool):
    p = pool()
    p.prefills[0].arm("hang")
    with RawClient(p.vip) as client:
        client.send(request_bytes("POST", "/v1/completions",
                                  {"model": "tiny", "prompt": "late", "stream": True}))
        wait_until(lambda: body_of(posts(p.decodes[0])[-1])["prompt"] == "late", 5, "decode is asked")
        time.sleep(0.6)  # decode's head is there, and no usual wait for a first byte lasts so long
        p.prefills[0].kill()
        assert error(client.read_reply()) == (503, "pd_pool_unavailable")
    wait_until(lambda: is_quiet(p.decodes[0]), 5, "decode is ended")


# --- decode fails while prefill runs

def test_a_4xx_of_decode_is_relayed_and_prefill_is_ended(gateway, pool):
    p = pool()
    p.prefills[0].arm("hang")
    p.decodes[0].arm("status:400")
    assert complete(p.vip, prompt(), request_id="bad").status == 400
    assert [leg[0::2] for leg in legs(gateway, "bad")] == [
        ("prefill", "cut_off"), ("decode", "relayed")]
    assert counted(gateway, "decode_close_drain") == 1
    wait_until(lambda: is_quiet(p.prefills[0]), 5, "prefill is ended")


def test_another_decode_reads_what_the_first_could_not_be_asked_for(gateway, pool, plain):
    p = pool(1, 2)
    p.decodes[0].kill()
    for i in range(4):
        words = prompt()
        assert same_text(complete(p.vip, words, request_id=f"r{i}"), plain, words)
        assert sum(leg[0] == "prefill" for leg in legs(gateway, f"r{i}")) == 1
    assert not held(p.prefills[0])


@pytest.mark.parametrize("fault", ["reset", "close"])
def test_a_decode_that_ends_without_a_byte_is_said(gateway, pool, fault):
    p = pool()
    p.decodes[0].arm(fault, 0)
    assert error(complete(p.vip, prompt())) == (502, "pd_decode_backend_died")
    wait_until(lambda: is_quiet(p.prefills[0]), 5, "prefill is over")


def test_a_decode_that_answers_first_is_relayed_and_prefill_read_to_its_end(gateway, pool, plain):
    p = pool()
    # The reply is late, not what it tells of: decode has read the blocks long before.
    p.prefills[0].arm("slow-head:1200")
    words = prompt()
    assert same_text(complete(p.vip, words, request_id="first"), plain, words)
    wait_until(lambda: is_idle(gateway, p), 5, "all is given back")


# --- the client leaves

def leave_after_prefill(gateway, p):
    with RawClient(p.vip) as client:
        ask(client, "left")
        wait_until(lambda: gateway.metric("loxilb_pd_leases_outstanding") == 1, 5, "prefill answered")
    assert gateway.receipt("left")["outcome"] == "client_closed"


def test_a_client_that_leaves_when_prefill_has_answered_lets_decode_read(gateway, pool):
    p = pool()
    p.decodes[0].arm("slow-head:400")
    leave_after_prefill(gateway, p)
    wait_until(lambda: is_idle(gateway, p), 5, "the blocks are free")
    assert gateway.metric("loxilb_pd_leases_total", end="released") == 1


def test_a_client_that_leaves_a_decode_that_hangs_is_let_go_of(gateway, pool):
    p = pool()
    p.decodes[0].arm("hang", 1)
    leave_after_prefill(gateway, p)
    wait_until(lambda: all(e["inflight"] == 0 for e in gateway.rules()[0]["endpoints"]), 5,
               "neither endpoint is busy with it")
    # Nobody has read the blocks: they are counted until their time is over.
    assert gateway.metric("loxilb_pd_leases_outstanding") == 1
    assert gateway.metric("loxilb_pd_leases_total", end="released") == 0


def test_places_at_a_prefill_endpoint_are_given_back_at_its_end(gateway, pool, plain):
    p = pool(pd_max_inflight_per_ep=1, pd_queue_depth_per_ep=8)
    for fault in ("reset", "status:500", "status:422", None):
        if fault:
            p.prefills[0].arm(fault)
        complete(p.vip, prompt())
    with ThreadPoolExecutor(4) as clients:
        texts = [f"{i} {prompt()}" for i in range(8)]
        got = list(clients.map(lambda w: text_of(complete(p.vip, w)), texts))
    assert got == [text_of(complete(plain.address, w)) for w in texts]
