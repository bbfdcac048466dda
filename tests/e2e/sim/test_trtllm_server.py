"""The simulated TensorRT-LLM as a server: what each build tells of itself, takes and refuses."""

import json
import time

import pytest

from harness import MINI_TOKENIZER, RawClient, TrtSim, request_bytes, start_trt, wait_until

ERAS = ("0.21", "1.0", "1.1", "1.2", "1.3-early", "1.3-late", "main")
BODY = {"model": "sim", "prompt": [1, 2, 3], "max_tokens": 3, "ignore_eos": True}
FAST = ("--decode-us-per-token", 0, "--prefill-us-per-token", 0)


def at_least(era, first):
    return ERAS.index(era) >= ERAS.index(first)


def complete(engine, **more):
    return engine.post("/v1/completions", {**BODY, **more})


@pytest.mark.parametrize("era", ERAS)
def test_a_build_tells_of_itself_what_it_had(era):
    with start_trt("--era", era, "--tokens-per-block", 64, *FAST) as engine:
        assert engine.get("/version").json()["version"].startswith(
            {"1.3-early": "1.3", "1.3-late": "1.3", "main": "1.4"}.get(era, era))
        (model,) = engine.get("/v1/models").json()["data"]
        assert (model["id"], model["owned_by"]) == ("sim", "tensorrt_llm")
        info = engine.get("/server_info")
        if not at_least(era, "1.2"):
            assert info.status == 404
        elif not at_least(era, "1.3-late"):
            assert info.body == b'{"disaggregated_params":{}}'
        else:
            assert info.json() == {"disaggregated_params": {}, "max_batch_size": 16,
                                   "kv_cache_hash_algo": "v1_block_key", "tokens_per_block": 64}
        assert engine.get("/perf_metrics").status == (200 if at_least(era, "1.1") else 404)
        assert engine.get("/prometheus/metrics").status == 404
        usage = complete(engine).json()["usage"]
        assert ("prompt_tokens_details" in usage) == at_least(era, "1.1")
        engine.arm("health:503")
        health = engine.get("/health")
        assert (health.status, bool(health.body)) == (
            (503, True) if at_least(era, "1.2") else (200, False))


def test_the_configured_block_size_is_what_is_told():
    with start_trt("--tokens-per-block", 16, "--configured-tokens-per-block", 32, *FAST) as engine:
        assert engine.get("/server_info").json()["tokens_per_block"] == 32
        complete(engine, prompt=list(range(40)))
        stored = [e for e in engine.drain() if e["data"]["type"] == "stored"]
        assert [len(b["tokens"]) for b in stored[0]["data"]["blocks"]] == [16, 16]


def test_the_model_is_named_after_its_directory():
    with start_trt("--model", MINI_TOKENIZER) as engine:
        assert engine.get("/v1/models").json()["data"][0]["id"] == MINI_TOKENIZER.name


@pytest.mark.parametrize("era", ERAS)
def test_fields_a_build_does_not_know_are_refused(era):
    with start_trt("--era", era, *FAST) as engine:
        reply = complete(engine, kv_transfer_params=None)
        assert reply.status == 400
        error = reply.json()
        assert (error["object"], error["type"], error["code"]) == ("error", "BadRequestError", 400)
        assert "extra_forbidden" in error["message"] and "kv_transfer_params" in error["message"]
        assert complete(engine, cache_salt="a").status == (200 if at_least(era, "1.1") else 400)
        params = {"request_type": "context_and_generation", "disagg_request_id": 1 << 42}
        assert complete(engine, disaggregated_params=params).status == (
            200 if at_least(era, "1.3-early") else 400)
        schemas = engine.get("/openapi.json").json()["components"]["schemas"]
        assert ("disagg_request_id" in schemas["DisaggregatedParams"]["properties"]) == at_least(
            era, "1.3-early")
        assert ("cache_salt" in schemas["CompletionRequest"]["properties"]) == at_least(era, "1.1")
        assert complete(engine).status == 200


@pytest.mark.parametrize("body, text", [
    ({"stream_options": {"include_usage": True}}, "Stream options can only be defined"),
    ({"stream": True, "stream_options": {"chunk": 1}}, "'stream_options', 'chunk'"),
    ({"prompt": None}, "string"),
    ({"prompt": []}, "prompt is empty"),
    ({"prompt": [1 << 30]}, "Token ID out of range"),
    ({"prompt": list(range(200)), "max_tokens": 1}, "max_seq_len"),
    ({"max_tokens": "x"}, "int_parsing"),
    ({"suffix": "x"}, "suffix is not supported"),
    ({"disaggregated_params": {"request_type": "context"}}, "Unknown request type"),
])
def test_what_is_wrong_is_said_in_one_flat_object(body, text):
    with start_trt("--max-seq-len", 200, *FAST) as engine:
        reply = complete(engine, **body)
        assert (reply.status, reply.json()["code"]) == (400, 400)
        assert text in reply.json()["message"]
        assert reply.header("vary") is None


def test_a_body_that_is_no_json_is_a_400_too():
    with start_trt() as engine:
        for body in (b"{", b"", b"[]"):
            reply = engine.post("/v1/completions", body)
            assert (reply.status, reply.json()["object"]) == (400, "error")


def test_a_completion_streams_every_field_and_a_chat_only_what_is_set():
    with start_trt(*FAST) as engine:
        events = complete(engine, stream=True, stream_options={"include_usage": True}).events()
        assert events[-1] == "[DONE]"
        chunks = [json.loads(e) for e in events[:-1]]
        assert len({c["id"] for c in chunks}) == 1
        assert chunks[0]["choices"][0]["logprobs"] is None and chunks[0]["usage"] is None
        assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 3
        body = {"model": "any", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2,
                "stream": True, "ignore_eos": True}
        reply = engine.post("/v1/chat/completions", body)
        assert b'"role":"assistant"}}]} \n\n' in reply.body
        chunks = [json.loads(e) for e in reply.events()[:-1]]
        assert [c["model"] for c in chunks] == ["any"] * 3
        assert chunks[0]["choices"][0] == {"index": 0, "delta": {"role": "assistant"}}
        assert chunks[-1]["choices"][0]["finish_reason"] == "length"
        assert "usage" not in chunks[-1]


def test_chunks_of_old_builds_have_an_id_each():
    with start_trt("--era", "1.1", *FAST) as engine:
        chunks = [json.loads(e) for e in complete(engine, stream=True).events()[:-1]]
        assert len({c["id"] for c in chunks}) == 3


def test_several_prompts_and_choices_are_answered_in_one_reply():
    with start_trt("--tokens-per-block", 4, *FAST) as engine:
        reply = complete(engine, prompt=[list(range(9)), list(range(9))], n=2).json()
        assert [c["index"] for c in reply["choices"]] == [0, 1, 2, 3]
        assert reply["usage"]["prompt_tokens"] == 18
        assert reply["usage"]["completion_tokens"] == 12


def test_token_ids_of_a_chat_stand_for_its_messages():
    with start_trt("--tokens-per-block", 4, *FAST) as engine:
        body = {"model": "sim", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1,
                "prompt_token_ids": list(range(9))}
        assert engine.post("/v1/chat/completions", body).json()["usage"]["prompt_tokens"] == 9


def test_an_idle_connection_is_closed_after_five_seconds():
    with start_trt() as engine, RawClient(engine.address) as client:
        client.send(request_bytes("GET", "/version"))
        assert client.read_reply().status == 200
        begun = time.monotonic()
        assert not client.read_more(8)
        assert time.monotonic() - begun > 4


def test_reads_that_take_from_others_are_counted():
    with start_trt("--return-perf-metrics", "--enable-iter-perf-stats", *FAST) as engine:
        complete(engine)
        assert len(engine.get("/metrics").json()) >= 3
        assert engine.get("/metrics").json() == []
        finished = []

        def read_finished():
            finished.append(engine.get("/perf_metrics").json())
            return finished[-1]

        wait_until(read_finished, what="a finished request")  # told after its answer
        assert len(finished[-1]) == 1
        assert read_finished() == []
        assert b"trtllm_request_success_total" in engine.get("/prometheus/metrics").body
        assert engine.get("/health_generate").status == 200
        assert engine.drains()["reads"] == {
            "metrics": 2, "perf_metrics": len(finished), "health_generate": 1, "prometheus": 1}


def test_faults_strike_as_they_do_on_the_other_engine():
    with start_trt(*FAST) as engine:
        engine.arm("status:503")
        assert complete(engine).status == 503
        engine.arm("cut-after:2")
        reply = complete(engine, stream=True)
        assert not reply.is_complete and len(reply.chunks) == 2
        engine.arm("reset")
        assert complete(engine) is None
        assert complete(engine).status == 200


@pytest.mark.parametrize("flags, text", [
    (["--era", "0.9"], "0.21, 1.0, 1.1, 1.2, 1.3-early, 1.3-late or main expected"),
    (["--manager", "v1", "--hash-algo", "v2_sha256"], "only --manager v2"),
    (["--era", "1.1", "--manager", "v2"], "came with 1.3-late"),
    (["--disagg-auth-key", "secret"], "came with main"),
    (["--kv-events-config", "{\"enable_kv_cache_events\":true}"], "came with main"),
    (["--windows", "0"], "--windows"),
    (["--blocks", "1"], "does not fit"),
])
def test_a_bad_flag_is_named(flags, text):
    with pytest.raises(AssertionError, match=f"(?s)ended with 2.*{text}"):
        TrtSim(flags)
