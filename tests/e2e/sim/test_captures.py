"""The simulated vLLM answers the recorded requests as the real one did."""

import json
import os
import pathlib
import re
import time

import pytest

import captures as cap
from harness import MINI_TOKENIZER, RawClient, start_sim

# Recorded, but not (yet) something the simulator does; every other exchange is replayed.
NOT_OFFERED = (
    r"resp-|messages-|b-responses-details",          # /v1/responses, /v1/messages
    r"embeddings|score|pooling|render-",             # endpoints of other models or options
    r"pd-|get-metrics-nixl",                         # transfer between engines
    r"drain-|core-killed-|sigterm-",                 # an engine that ends: see test_faults.py
    r"abort-|metrics-ordinary-request",              # counters beside the reply: test_engine.py
    r"options-cors-preflight",                       # cross-origin rules
    r"b-(pause|resume|sleep|wake-up|is-|health-(paused|asleep)|models-asleep|after-wake-up"
    r"|request-while|reset-prefix-cache-busy|load-one)",  # states between requests: test_engine.py
)

QWEN3 = pathlib.Path(os.environ.get("SLUICE_BUILD_DIR", "/nonexistent")) / "tokenizers" / "qwen3"
EOS, THINK_END = 151645, 151668  # in the recording's vocabulary

# Where the recorded model was kept on a text by logit biases this engine does not weigh, or where
# stop texts are held back: the number of equal chunks is the generated text's business.
FREE_LENGTH = r"chat-tools-.*-stream|comp-stop-text-stream|chat-tools-(auto|forced|required)"
# Wording of long validation lists need not match.
FREE_WORDING = {"chat-no-role"}

ALL = cap.load()
SKIPPED = re.compile("|".join(f"(?:{p})" for p in NOT_OFFERED))
REPLAYED = [c for c in ALL if not SKIPPED.match(c["id"])]


class Engines:
    """One engine for each set of flags, started when first needed."""

    def __init__(self, model):
        self.model = model
        self.running = {}

    def get(self, capture):
        return self._start(self._kind(capture))

    def _kind(self, capture):
        if capture["id"].startswith("b-"):
            return "b"
        if "--reasoning-parser qwen3" in capture["flags"]:
            # The small vocabulary has no token </think>; bytes have.
            needs_bytes = "ended-at-once" in capture["id"] and self.is_small()
            return "bytes-reasoning" if needs_bytes else "reasoning"
        return "wide" if capture["id"].startswith("chat-tool") else "plain"

    def _start(self, kind):
        if kind not in self.running:
            flags = ["--block-size", 32, "--num-gpu-blocks-override", 300, "--max-num-seqs", 16,
                     "--prefill-us-per-token", 0, "--decode-us-per-token", 0]
            # Tool descriptions take more tokens in a small vocabulary.
            flags += ["--max-model-len", 4096 if kind == "wide" and self.is_small() else 512]
            if kind != "bytes-reasoning" and self.model:
                flags += ["--model", self.model]
            if "reasoning" in kind:
                flags += ["--reasoning-parser", "qwen3"]
            else:
                flags += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
            names = ["tiny"]
            if kind == "b":
                names.append("alias")
                flags += ["--enable-prompt-tokens-details", "--enable-request-id-headers",
                          "--enable-force-include-usage", "--enable-server-load-tracking",
                          "--api-key", "sekret", "--dev-mode", "--kv-events-config",
                          json.dumps({"enable_kv_cache_events": True, "topic": "kv",
                                      "endpoint": "tcp://[::ffff:127.0.0.1]:0",
                                      "replay_endpoint": "tcp://127.0.0.1:0"})]
            self.running[kind] = start_sim(*flags, "--served-model-name", *names)
        return self.running[kind]

    def is_small(self):
        return self.model != QWEN3

    def close(self):
        for engine in self.running.values():
            engine.__exit__()


MODELS = {"mini": MINI_TOKENIZER, "qwen3": QWEN3}


@pytest.fixture(scope="module", params=MODELS)
def engines(request):
    if request.param == "qwen3" and not (QWEN3 / "tokenizer.json").exists():
        pytest.skip("no qwen3 tokenizer in the build directory")
    out = Engines(MODELS[request.param])
    yield out
    out.close()


def own_ids(engine):
    """Ids of this engine's vocabulary for the two the recordings name."""
    def one(text):
        tokens = engine.post("/tokenize", {"prompt": text}).json()["tokens"]
        return tokens[0] if len(tokens) == 1 else None
    return one("<|im_end|>"), one("</think>")


def adapt(engine, capture, is_small):
    """The recorded body, with ids and stops that mean the same in this engine's vocabulary."""
    text = capture["request"].get("body_text")
    if text is None or not text.startswith("{") or "chunked" in capture["id"]:
        return text
    eos, think_end = own_ids(engine)
    text = cap.replace_number(text, EOS, eos)
    if think_end is not None:
        text = cap.replace_number(text, THINK_END, think_end)
    if is_small:  # prompts of ids: anything inside the vocabulary will do
        if capture["id"].startswith("chat-tools"):  # a call takes more tokens
            text = re.sub(r'"max_tokens":([36])0\b', r'"max_tokens":\g<1>00', text)
        text = re.sub(r"(?<=[\[,])(\d{4,5})(?=[,\]])", lambda m: str(int(m[1]) % 1200), text)
    if '"stop"' in text and '"stop":null' not in text or '"stop_token_ids"' in text:
        text = adapt_stop(engine, capture, text)
    return text


def adapt_stop(engine, capture, text):
    """A stop that is met by the same token of this engine's text as in the recording."""
    body = json.loads(text)
    recorded = [cap.counts(json.loads(e)) for e in re.findall(
        r"(\{.*\})", cap.text_of(capture).decode()) if '"usage"' in e]
    at = recorded[-1]["completion_tokens"] if recorded else 2
    plain = {k: v for k, v in body.items() if k not in ("stop", "stop_token_ids", "stream",
                                                         "stream_options")}
    path = capture["request"]["path"]
    reply = engine.post(path, {**plain, "return_token_ids": True, "max_tokens": 8}).json()
    ids = reply["choices"][0]["token_ids"]
    if "stop_token_ids" in body:
        assert ids[at - 1] not in ids[:at - 1]
        body["stop_token_ids"] = [ids[at - 1]]
    else:
        words = [engine.post("/detokenize", {"tokens": [i]}).json()["prompt"] for i in ids[:at]]
        stop = words[-1]
        assert stop not in "".join(words[:-1])
        body["stop"] = stop if isinstance(body["stop"], str) else [stop]
    return json.dumps(body, separators=(",", ":"))


def send(client, capture, body):
    request = capture["request"]
    if "raw_text" in request:
        client.send(request["raw_text"].encode())
        return
    if body is None and "body_hex" in request:
        data = bytes.fromhex(request["body_hex"])
    else:
        data = (body or "").encode()
    changed = body is not None and body != request.get("body_text")
    fields = []
    for key, value in request.get("headers", []):
        if value == "(70000 times a)":
            value = "a" * 70000
        if key.lower() == "content-length" and changed:
            value = str(len(data))
        fields.append(f"{key}: {value}\r\n")
    head = f"{request['method']} {request['path']} {request['version']}\r\n" + "".join(fields)
    once = head.encode() + b"\r\n"
    if request.get("body_after") == "100":
        client.send(once)
        client.read_until(b"\r\n\r\n")
        client.buffer = b"HTTP/1.1 100 Continue\r\n\r\n" + client.buffer
        once = b""
    once = (once + data) * request.get("repeated", 1)
    if then := request.get("then"):
        once += (f"{then['method']} {then['path']} {then['version']}\r\n" + "".join(
            f"{k}: {v}\r\n" for k, v in then["headers"]) + "\r\n").encode()
    client.send(once)


def compare_json(capture, got, want, exact):
    got, want = json.loads(got), json.loads(want)
    if capture["id"] in FREE_WORDING:
        got["error"].pop("message"), want["error"].pop("message")
    if "root" in str(want):
        for value in (got, want):
            for model in value.get("data", []):
                model["root"] = ""
    free = re.match(FREE_LENGTH, capture["id"]) is not None
    stopped = "stop" in capture["id"] or capture["id"] == "comp-max-absent"
    if stopped and got.get("choices"):
        for value in (got, want):
            for choice in value["choices"]:
                reason = choice["stop_reason"]
                choice["stop_reason"] = None if reason is None else "given"
    assert cap.shape(got, "", exact) == cap.shape(want, "", exact)
    usage, wanted = cap.counts(got), cap.counts(want)
    if usage:
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        if not free and "structured" not in capture["id"]:
            assert usage["completion_tokens"] == wanted["completion_tokens"]
        if exact:
            assert usage["prompt_tokens"] == wanted["prompt_tokens"]


def compare_stream(capture, got, want, exact):
    got, want = cap.by_choice(cap.sse_events(got)), cap.by_choice(cap.sse_events(want))
    assert sorted(got) == sorted(want)
    assert got[-1][-1] == want[-1][-1] == "[DONE]" or "n2-stream-usage" in capture["id"]
    free = re.match(FREE_LENGTH, capture["id"]) is not None
    for index in want:
        mine = [cap.shape(v, "", exact) for v in got[index]]
        theirs = [cap.shape(v, "", exact) for v in want[index]]
        if free:
            mine, theirs = cap.collapse(mine), cap.collapse(theirs)
        assert mine == theirs
        for a, b in zip(got[index], want[index]):
            usage, wanted = (cap.counts(a), cap.counts(b)) if isinstance(a, dict) else (None, None)
            if usage and not free:
                assert usage["completion_tokens"] == wanted["completion_tokens"]
                if exact:
                    assert usage == wanted


def compare_body(capture, got, want, exact):
    kind = dict((k.lower(), v) for k, v in capture["response"]["headers"]).get("content-type", "")
    if not want:
        assert got == b""
    elif kind.startswith("text/event-stream"):
        compare_stream(capture, got, want, exact)
    elif kind.startswith("application/json"):
        compare_json(capture, got, want, exact)
    else:
        assert got == want


@pytest.mark.parametrize("capture", REPLAYED, ids=[c["id"] for c in REPLAYED])
def test_reply_is_the_recorded_one(engines, capture):
    engine = engines.get(capture)
    body = adapt(engine, capture, engines.is_small())
    want = capture["response"]
    with RawClient(engine.address) as client:
        started = time.monotonic()
        send(client, capture, body)
        method = capture["request"].get("method", "GET")
        reply = client.read_reply(method)
        assert reply is not None, "closed without a reply"
        assert reply.status_line == want["status_line"]
        assert reply.interim == [i["status_line"] for i in want.get("interim", [])]
        assert reply.is_complete
        location_free = [[k, re.sub(r"//[^/]+", "//host", v) if k == "location" else v]
                         for k, v in reply.headers]
        wanted = [[k, re.sub(r"//[^/]+", "//host", v) if k == "location" else v]
                  for k, v in want["headers"]]
        assert cap.headers_of(location_free) == cap.headers_of(wanted)
        if "body_trimmed" in want or capture["id"].startswith("get-metrics"):
            check_metrics(reply.body.decode(), want.get("body_trimmed", ""))
        else:
            bodies = cap.bodies_of(capture)
            compare_body(capture, reply.body, bodies[0], not engines.is_small())
            for body_wanted, more in zip(bodies[1:], want.get("more", [])):
                second = client.read_reply()
                assert second.status_line == more["status_line"]
                assert second.body == body_wanted
        if "more" not in want and reply.header("transfer-encoding") == "chunked":
            # One HTTP chunk an event, [DONE] in its own.
            assert all(c.count(b"data: ") == 1 and c.endswith(b"\n\n") for c in reply.chunks)
        if capture["id"] == "transport-idle-close":
            assert client.end_state(30.0) == "eof"
            assert 4.8 <= time.monotonic() - started
        else:
            assert client.end_state() == want["end"]


def check_metrics(got, recorded):
    """Every family is one the engine has, with its labels; those a gateway reads are all there."""
    names = set(re.findall(r"^# TYPE (vllm:\w+) ", got, re.M))
    if recorded:
        known = set(re.findall(r"^# TYPE (vllm:\w+) ", recorded, re.M))
        assert names <= known
        labels = {m[1]: set(re.findall(r"(\w+)=", m[2]))
                  for m in re.finditer(r"^(vllm:\w+)\{(.*)\}", recorded, re.M)}
        for m in re.finditer(r"^(vllm:\w+)\{(.*)\}", got, re.M):
            assert set(re.findall(r"(\w+)=", m[2])) <= labels[m[1]], m[0]
    for needed in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc",
                   "prefix_cache_queries_total", "prefix_cache_hits_total",
                   "num_preemptions_total", "prompt_tokens_total", "generation_tokens_total",
                   "request_success_total", "time_to_first_token_seconds",
                   "inter_token_latency_seconds", "e2e_request_latency_seconds",
                   "request_queue_time_seconds", "cache_config_info"):
        assert f"vllm:{needed}" in names


def test_every_recorded_exchange_is_replayed_or_named_as_not_offered():
    for pattern in NOT_OFFERED:
        assert any(re.match(pattern, c["id"]) for c in ALL), f"{pattern} names nothing"
    assert len({c["id"] for c in REPLAYED}) == len(REPLAYED) >= 235
