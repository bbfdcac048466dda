"""Scheduling, aborts, counters and development mode of the simulated engine."""

import json
import time

import pytest

from harness import RawClient, exchange, request_bytes, start_sim, wait_until

SLOW = ("--decode-us-per-token", 20_000, "--prefill-us-per-token", 0, "--max-model-len", 512)
LONG = {"prompt": "Hello world", "max_tokens": 500, "ignore_eos": True}


def open_stream(engine, **more):
    client = RawClient(engine.address)
    client.send(request_bytes("POST", "/v1/completions", {**LONG, "stream": True, **more}))
    return client


def gauge(engine, name):
    return engine.metric("num_requests_" + name)


def test_what_does_not_fit_into_max_num_seqs_waits():
    with start_sim(*SLOW, "--max-num-seqs", 2) as engine:
        clients = [open_stream(engine) for _ in range(5)]
        wait_until(lambda: gauge(engine, "running") == 2 and gauge(engine, "waiting") == 3)
        for c in clients[:2]:
            c.close()
        wait_until(lambda: gauge(engine, "running") == 2 and gauge(engine, "waiting") == 1)
        for c in clients[2:]:
            c.close()
        wait_until(lambda: gauge(engine, "running") == gauge(engine, "waiting") == 0)


@pytest.mark.parametrize("how", ["close", "half_close"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_is_noticed_in_time_and_its_blocks_are_free(how, stream):
    with start_sim(*SLOW) as engine:
        with RawClient(engine.address) as client:
            client.send(request_bytes("POST", "/v1/completions", {**LONG, "stream": stream}))
            wait_until(lambda: gauge(engine, "running") == 1)
            while stream and b"data: " not in client.buffer:
                client.read_more()
            # Once a token is counted; with a busy machine that may be after the gauge.
            wait_until(lambda: engine.metric("generation_tokens_total") > 0)
            getattr(client, how)()
            wait_until(lambda: gauge(engine, "running") == 0)
            if how == "half_close":
                while client.read_more():
                    pass
                assert b"0\r\n\r\n" not in client.buffer  # no last chunk
                assert stream or client.buffer == b""     # not a byte
        assert engine.metric("kv_cache_usage_perc") == 0
        assert engine.metric("request_success_total") == 0
        assert engine.metric("generation_tokens_total") > 0


def test_a_waiting_client_that_leaves_is_noticed_too():
    with start_sim(*SLOW, "--max-num-seqs", 1) as engine:
        first, second = open_stream(engine), open_stream(engine)
        wait_until(lambda: gauge(engine, "waiting") == 1)
        second.half_close()
        wait_until(lambda: gauge(engine, "waiting") == 0, 0.3)
        assert gauge(engine, "running") == 1
        first.close()


def test_a_request_that_is_sent_with_its_end_gets_no_byte():
    with start_sim(*SLOW) as engine, RawClient(engine.address) as client:
        client.send(request_bytes("POST", "/v1/completions", LONG))
        client.half_close()
        assert not client.read_more() and client.buffer == b""


def test_counters_of_an_ordinary_request():
    with start_sim("--served-model-name", "tiny") as engine:
        body = {"prompt": [1, 2], "max_tokens": 3, "ignore_eos": True}
        assert engine.post("/v1/completions", body).status == 200
        assert engine.metric("prompt_tokens_total") == 2
        assert engine.metric("generation_tokens_total") == 3
        assert engine.metric("request_success_total", finished_reason="length") == 1
        assert engine.metric("request_prompt_tokens_count") == 1
        assert engine.metric("time_to_first_token_seconds_count") == 1
        assert engine.metric("inter_token_latency_seconds_count") == 2
        assert engine.metric("e2e_request_latency_seconds_count") == 1


def test_prefill_takes_time_for_uncached_tokens_only():
    with start_sim("--prefill-us-per-token", 1000, "--decode-us-per-token", 0, "--block-size", 16,
                   "--enable-prompt-tokens-details") as engine:
        body = {"prompt": list(range(200)), "max_tokens": 1}

        def timed():
            started = time.monotonic()
            engine.post("/v1/completions", body)
            return time.monotonic() - started

        cold, warm = timed(), timed()
        assert cold >= 0.2
        assert warm < 0.1  # 8 tokens


def test_a_cache_too_small_for_the_load_preempts_and_still_answers_alike():
    body = {"prompt": list(range(40)), "max_tokens": 60, "ignore_eos": True}
    with start_sim("--max-model-len", 112, "--num-gpu-blocks-override", 9, "--block-size", 16,
                   "--decode-us-per-token", 500) as engine:
        alone = engine.post("/v1/completions", body).json()["choices"][0]["text"]
        clients = [RawClient(engine.address) for _ in range(3)]
        for i, c in enumerate(clients):
            c.send(request_bytes("POST", "/v1/completions",
                                 {**body, "prompt": [i * 50 + t for t in range(40)]}))
        replies = [c.read_reply() for c in clients]
        assert [r.json()["usage"]["completion_tokens"] for r in replies] == [60] * 3
        assert replies[0].json()["choices"][0]["text"] == alone
        assert engine.metric("num_preemptions_total") > 0


def test_equal_prompts_give_equal_text_on_every_engine_and_seeds_differ():
    def text(*flags):
        with start_sim(*flags) as engine:
            body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8}
            return engine.post("/v1/chat/completions", body).json()["choices"][0]["message"]
    assert text() == text() != text("--seed", 5)


def test_the_end_of_the_sequence_comes_where_it_is_told_to():
    with start_sim("--eos-after", 7) as engine:
        body = {"prompt": "x", "max_tokens": 50}
        choice = engine.post("/v1/completions", body).json()
        assert choice["choices"][0]["finish_reason"] == "stop"
        assert choice["usage"]["completion_tokens"] == 8  # the end itself counts
        body["ignore_eos"] = True
        assert engine.post("/v1/completions", body).json()["usage"]["completion_tokens"] == 50


def test_pause_and_sleep_hold_requests_and_health_stays_well():
    with start_sim("--dev-mode", "--enable-prompt-tokens-details", "--enable-server-load-tracking",
                   "--block-size", 16) as engine:
        body = {"prompt": list(range(40)), "max_tokens": 1}
        assert engine.post("/v1/completions", body).status == 200
        assert engine.post("/pause").json() == {"status": "paused"}
        assert engine.get("/is_paused").json() == {"is_paused": True}
        with RawClient(engine.address) as client:
            client.send(request_bytes("POST", "/v1/completions", body))
            assert client.end_state(0.2) == "open"
            assert engine.get("/health").status == 200
            assert engine.get("/load").json() == {"server_load": 1}
            assert engine.post("/resume").json() == {"status": "resumed"}
            usage = client.read_reply().json()["usage"]
            assert usage["prompt_tokens_details"]["cached_tokens"] == 32
        assert engine.post("/sleep?level=1").json() == {"status": "sleeping", "level": 1}
        assert engine.get("/is_sleeping").json() == {"is_sleeping": True}
        assert engine.metric("engine_sleep_state", sleep_state="awake") == 0
        assert engine.post("/wake_up").json() == {"status": "awake", "tags": None}
        usage = engine.post("/v1/completions", body).json()["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] == 0


def test_client_transfer_params_end_an_engine_with_a_connector_and_no_other():
    body = {"prompt": "x", "max_tokens": 1, "kv_transfer_params": {"do_remote_prefill": True}}
    with start_sim() as engine:
        assert engine.post("/v1/completions", body).status == 200
    with start_sim("--kv-connector", "nixl") as engine:
        assert engine.post("/v1/completions", {**body, "kv_transfer_params": {}}).status == 200
        assert engine.post("/v1/completions", body).status == 500
        assert engine.wait() == 70


@pytest.mark.parametrize("prompt", [[""], [[]], ["x", ""]], ids=["text", "ids", "the second"])
def test_an_empty_prompt_among_prompts_is_refused(prompt):
    with start_sim() as engine:
        reply = engine.post("/v1/completions", {"prompt": prompt, "max_tokens": 1})
        assert reply.status == 400
        assert reply.json()["error"]["message"] == "The decoder prompt cannot be empty"


def test_a_term_signal_ends_it_at_once_with_zero():
    with start_sim(*SLOW) as engine:
        client = open_stream(engine)
        client.read_until(b"data: ")
        started = time.monotonic()
        assert engine.stop() == 0
        assert time.monotonic() - started < 0.5
        client.close()


@pytest.mark.parametrize("flags, text", [
    (["--block-size", "0"], "--block-size: a number from 1"),
    (["--port", "70000"], "--port"),
    (["--nonsense"], "--nonsense: unknown flag"),
    (["--model"], "--model: needs a value"),
    (["--model", "/nonexistent"], "/nonexistent"),
    (["--max-model-len", "4096", "--num-gpu-blocks-override", "3"], "does not fit"),
    (["--prefix-caching-hash-algo", "md5"], "sha256 or sha256_cbor"),
    (["--host", "localhost"], "not an IPv4 address"),
])
def test_a_bad_flag_is_named(flags, text):
    with pytest.raises(AssertionError, match=f"(?s)ended with 2.*{text}"):
        start_sim(*flags)


def test_the_record_shows_what_arrived():
    with start_sim() as engine:
        engine.post("/v1/completions", {"prompt": "x", "max_tokens": 1}, [("X-Mark", "7")])
        (seen,) = engine.requests()
        assert (seen["method"], seen["target"]) == ("POST", "/v1/completions")
        assert ["X-Mark", "7"] in seen["headers"]
        assert json.loads(seen["body"]) == {"prompt": "x", "max_tokens": 1}
        assert exchange(engine.address, "DELETE", "/sim/requests").json() == []
