"""Context and generation legs on the wire: two peers that say exactly what a test wants."""

import hashlib
import hmac
import json
import os

import pytest

from conftest import legs, pd_rule
from gateway import complete
from harness import wait_until
from pairs import prompt
from raw_engine import RawEngine

OPAQUE = "AAECAw=="
USAGE = {"prompt_tokens": 3, "total_tokens": 4, "completion_tokens": 1,
         "prompt_tokens_details": {"cached_tokens": 2}}


def schema(*fields):
    names = {name: {} for name in ("request_type", "ctx_request_id", *fields)}
    return {"components": {"schemas": {"DisaggregatedParams": {"properties": names}}}}


class Worker:
    """A trtllm-serve of one side. `on_leg` answers a completion; the rest is as engines have it."""

    def __init__(self, on_leg, fields=("disagg_request_id", "schedule_style", "ctx_usage")):
        self.legs, self.on_leg, self.openapi = [], on_leg, schema(*fields)
        self.schema_asked = 0
        self.raw = RawEngine(self.script)

    def script(self, call):
        if call.path == "/version":
            call.reply(200, {"version": "1.3.0rc24"})
        elif call.path == "/openapi.json":
            call.reply(200, self.openapi)
            self.schema_asked += 1
        elif call.path == "/v1/completions":
            self.legs.append((call.head, call.body))
            self.on_leg(call, call.json())
        else:
            call.reply(404)

    def body(self, n=-1):
        return json.loads(self.legs[n][1])

    def field(self, name, n=-1):
        for line in self.legs[n][0].decode().split("\r\n"):
            key, _, value = line.partition(": ")
            if key.lower() == name:
                return value
        return None


def choice(text, reason, **more):
    return {"index": 0, "text": text, "finish_reason": reason, **more}


def reply_of(*choices, **more):
    return {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "tiny",
            "choices": list(choices), "usage": USAGE, **more}


def keep(call, request):
    """A context leg whose blocks wait for somebody."""
    asked = request["disaggregated_params"]
    params = {"request_type": "context_only", "first_gen_tokens": [4], "ctx_request_id": 17,
              "encoded_opaque_state": OPAQUE, "draft_tokens": None,
              "disagg_request_id": asked.get("disagg_request_id")}
    call.reply(200, reply_of(choice(" a", "length", disaggregated_params=params),
                             prompt_token_ids=[1, 2, 3]))


def repeat(call, request):
    """A generation leg as engines answer it: with the hand-off it was given."""
    params = request.get("disaggregated_params")
    call.reply(200, reply_of(choice(" a b", "length", disaggregated_params=params)))


@pytest.fixture
def pool(gateway):
    """pool(context, generation, **fields): a rule over two workers."""
    entered = []

    def make(on_context, on_generation, fields=None, **arguments):
        more = {} if fields is None else {"fields": fields}
        both = [Worker(on_context, **more), Worker(on_generation, **more)]
        for worker in both:
            worker.raw.__enter__()
            entered.append(worker.raw)
        vip = gateway.vip()
        gateway.create(pd_rule(vip, [both[0].raw], [both[1].raw], kvEngineType="trtllm",
                               **arguments))
        wait_until(lambda: all(w.schema_asked for w in both))
        return vip, *both
    yield make
    for raw in entered:
        raw.__exit__(None, None, None)


def test_a_request_runs_on_both_and_shows_the_client_nothing_of_it(gateway, pool):
    vip, context, generation = pool(keep, repeat)
    reply = complete(vip, prompt(), request_id="pair", max_tokens=2, stream=False)
    assert reply.status == 200, reply.body
    assert reply.json()["choices"][0] == choice(" a b", "length", disaggregated_params=None)
    assert OPAQUE.encode() not in reply.body
    assert reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 2
    asked = context.body()
    assert asked["max_tokens"] == 2 and asked["stream"] is False
    told = asked["disaggregated_params"]
    assert told["request_type"] == "context_only" and told["disagg_request_id"] >= 1 << 42
    given = generation.body()
    assert given["prompt"] == [1, 2, 3]
    assert given["disaggregated_params"] == {
        "request_type": "generation_only", "first_gen_tokens": [4], "ctx_request_id": 17,
        "encoded_opaque_state": OPAQUE, "draft_tokens": None,
        "disagg_request_id": told["disagg_request_id"], "ctx_usage": USAGE}
    assert generation.field("x-trtllm-disagg-auth") is None
    assert context.field("x-request-id") == generation.field("x-request-id") != "pair"


def test_a_complete_answer_reaches_a_stream_as_chunks(gateway, pool):
    def stop(call, request):
        call.reply(200, reply_of(choice(" done", "stop", disaggregated_params={}),
                                 prompt_token_ids=[1, 2, 3]))
    vip, _, generation = pool(stop, repeat)
    reply = complete(vip, prompt(), request_id="exit", max_tokens=5, stream=True,
                     stream_options={"include_usage": True})
    assert reply.status == 200 and reply.header("Content-Type").startswith("text/event-stream")
    events = [line[6:] for line in reply.body.decode().split("\n") if line]
    chunks = [json.loads(e) for e in events[:-1]]
    assert events[-1] == "[DONE]"
    assert [c["choices"][0]["text"] for c in chunks[:2]] == [" done", ""]
    assert chunks[1]["choices"][0]["finish_reason"] == "stop"
    assert chunks[2]["choices"] == [] and chunks[2]["usage"] == USAGE
    assert b"disaggregated" not in reply.body and b"prompt_token_ids" not in reply.body
    assert not generation.legs
    assert gateway.metric("loxilb_pd_trt_ctx_early_exit_total") == 1


def test_a_member_that_is_not_known_is_left_out_and_the_same_endpoint_asked_again(gateway, pool):
    def strict(call, request):
        if "disagg_request_id" in request["disaggregated_params"]:
            call.reply(400, {"object": "error", "code": 400, "message": str([{
                "type": "extra_forbidden", "loc": (
                    "body", "disaggregated_params", "disagg_request_id"),
                "msg": "Extra inputs are not permitted"}])})
        else:
            keep(call, request)
    vip, context, generation = pool(strict, repeat)
    reply = complete(vip, prompt(), request_id="learn", max_tokens=2)
    assert reply.status == 200, reply.body
    assert [k + ":" + v for k, _, v in legs(gateway, "learn")] == [
        "prefill:rebuilt", "prefill:handed_over", "decode:relayed"]
    assert len(generation.legs) == 1
    complete(vip, prompt(), max_tokens=2)
    assert len(context.legs) == 3


def test_a_refusal_that_stays_is_told_without_the_hand_off(gateway, pool):
    def no(call, request):
        call.reply(400, {"object": "error", "code": 400, "message": str([{
            "type": "extra_forbidden", "loc": ("body", "disaggregated_params", "ctx_usage")}])})
    vip, context, _ = pool(no, repeat)
    reply = complete(vip, prompt(), max_tokens=2)
    assert (reply.status, reply.json()["error"]["code"]) == (400, "pd_leg_refused")
    assert b"disaggregated_params" not in reply.body
    assert len(context.legs) == 2


def test_a_generation_leg_is_rebuilt_with_the_same_hand_off(gateway, pool):
    def strict(call, request):
        if "ctx_usage" in request["disaggregated_params"]:
            call.reply(400, {"message": str([{"type": "extra_forbidden", "loc": (
                "body", "disaggregated_params", "ctx_usage")}])})
        else:
            repeat(call, request)
    vip, context, generation = pool(keep, strict)
    reply = complete(vip, prompt(), request_id="again", max_tokens=2)
    assert reply.status == 200, reply.body
    assert len(context.legs) == 1 and len(generation.legs) == 2
    assert [v for _, _, v in legs(gateway, "again")] == ["handed_over", "rebuilt", "relayed"]


def test_a_stream_as_the_answer_of_a_context_leg_names_the_endpoint(gateway, pool):
    def stream(call, request):
        call.stream('{"choices":[]}')
        call.end_stream()
    vip, context, generation = pool(stream, repeat)
    reply = complete(vip, prompt(), max_tokens=2)
    assert reply.status == 502 and reply.json()["error"]["code"] == "pd_prefill_failed"
    assert "context endpoint" in reply.json()["error"]["message"]
    assert context.raw.address.encode() not in reply.body and context.raw.address in gateway.log()
    assert not generation.legs


def test_a_request_that_cannot_be_split_is_refused(gateway, pool):
    vip, context, generation = pool(keep, repeat)
    for more in ({"n": 2}, {"best_of": 2}, {"use_beam_search": True}):
        reply = complete(vip, prompt(), max_tokens=2, **more)
        assert reply.status == 400
        assert reply.json()["error"]["code"] == "pd_unsupported_request"
        assert next(iter(more)) in reply.json()["error"]["message"]
    assert complete(vip, [prompt(), prompt()], max_tokens=2).status == 400
    assert not context.legs and not generation.legs


def test_one_token_is_one_token(gateway, pool):
    def one(call, request):
        assert "disaggregated_params" not in request
        call.reply(200, reply_of(choice(" a", "length")))
    vip, context, generation = pool(keep, one)
    reply = complete(vip, prompt(), max_tokens=1)
    assert reply.json()["choices"][0]["text"] == " a"
    assert not context.legs and len(generation.legs) == 1


def test_other_tokens_than_ours_are_a_mismatch_that_is_seen(gateway, pool):
    vip, context, _ = pool(keep, repeat, kvExactMode=1)
    for _ in range(3):
        assert complete(vip, prompt(), max_tokens=2).status == 200

    def attestation():
        endpoints = gateway.rules()[0]["endpoints"]
        return [e["kv"]["attestation"] for e in endpoints if e["ep_role"] == 1]
    assert attestation() == ["mismatch:tokenizer"]
    assert "tokens of prompts are others than ours" in gateway.log()
    assert context.raw.address in gateway.log()


def write_key(path, key):
    """Whole at once: half a key is another key."""
    with open(path + ".new", "w", encoding="ascii", opener=lambda p, f: os.open(p, f, 0o600)) as file:
        file.write(key + "\n")
    os.replace(path + ".new", path)


def signature(key):
    text = '{"ctx_info_endpoint":null,"encoded_opaque_state":"%s"}' % OPAQUE
    return "sha256=" + hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def test_hand_offs_are_signed_and_a_new_key_needs_no_edit(gateway, pool, tmp_path):
    wanted = ["first-key"]
    worker = {}

    def signed(call, request):
        if worker["generation"].field("x-trtllm-disagg-auth") == signature(wanted[0]):
            repeat(call, request)
        else:
            call.reply(400, {"object": "error", "type": "BadRequestError", "code": 400,
                             "message": "Invalid internal disaggregated request authentication"})
    path = str(tmp_path / "key")
    write_key(path, "first-key")
    vip, _, worker["generation"] = pool(keep, signed, trt_disagg_key_file=path)
    assert complete(vip, prompt(), max_tokens=2).status == 200
    wanted[0] = "second-key"
    for _ in range(2):
        reply = complete(vip, prompt(), max_tokens=2)
        assert reply.status == 502 and reply.json()["error"]["code"] == "pd_decode_failed"
        assert "trt_disagg_key_file" in reply.json()["error"]["message"]
        assert worker["generation"].raw.address.encode() not in reply.body
    write_key(path, "second-key")
    wait_until(lambda: complete(vip, prompt(), max_tokens=2).status == 200)
    log = gateway.log()
    # Once a key; what was signed with the first may be refused when the second is known already.
    assert 1 <= log.count("hand-offs are refused for their signature") <= 2
    assert "first-key" not in log and "second-key" not in log and path not in log
