"""Faults on request: each is what a client of a failing engine would see."""

import json
import time

import captures as cap
from harness import exchange, request_bytes, start_sim

BODY = {"prompt": "Hello world", "max_tokens": 8, "ignore_eos": True}
FAST = ("--decode-us-per-token", 0, "--prefill-us-per-token", 0, "--served-model-name", "tiny")


def with_fault(engine, fault, stream=True, path="/v1/completions", body=None, limit_s=5.0):
    """The reply (None if not even a head came) and how the connection ended."""
    client = engine.client(limit_s)
    with client:
        data = {**(body or BODY), "stream": stream}
        client.send(request_bytes("POST", path, data, [("X-Sim-Fault", fault)]))
        try:
            reply = client.read_reply()
        except TimeoutError:
            return "silence", "open"
        return reply, "eof" if client.is_eof else client.end_state(0.2)


def test_before_the_head():
    with start_sim(*FAST) as engine:
        assert with_fault(engine, "reset") == (None, "eof")
        assert with_fault(engine, "close") == (None, "eof")
        assert with_fault(engine, "hang", limit_s=0.3) == ("silence", "open")
        started = time.monotonic()
        reply, end = with_fault(engine, "slow-head:150")
        assert time.monotonic() - started >= 0.15
        assert (reply.status, end) == (200, "open")
        assert with_fault(engine, "status:503")[0].status == 503


def test_a_draining_engine_is_the_recorded_one():
    (want,) = [c for c in cap.load() if c["id"] == "drain-new-completion"]
    with start_sim(*FAST) as engine:
        reply, end = with_fault(engine, "draining")
        assert reply.status_line == want["response"]["status_line"]
        assert cap.headers_of(reply.headers) == cap.headers_of(want["response"]["headers"])
        assert reply.body == cap.bodies_of(want)[0]
        assert end == want["response"]["end"] == "eof"


def test_an_engine_that_dies_inside_a_stream_is_the_recorded_one():
    recorded = {c["id"]: c for c in cap.load()}
    with start_sim(*FAST) as engine:
        for name, path in (("comp", "/v1/completions"), ("chat", "/v1/chat/completions")):
            want = recorded[f"core-killed-{name}-stream"]
            body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 8}
            reply, end = with_fault(engine, "error-after:4", path=path,
                                    body=body if name == "chat" else BODY)
            theirs = cap.bodies_of(want)[0].split(b"\n\n")[-3:]
            assert reply.body.split(b"\n\n")[-3:] == theirs
            assert reply.is_complete and end == want["response"]["end"] == "eof"
        want = recorded["core-killed-comp-nonstream"]
        reply, end = with_fault(engine, "error-after:0", stream=False)
        assert (reply.status, reply.body, end) == (500, cap.bodies_of(want)[0], "eof")


def test_a_stream_that_is_cut_has_no_last_chunk():
    with start_sim(*FAST) as engine:
        for fault in ("cut-after:3", "reset-after:3"):
            reply, end = with_fault(engine, fault)
            assert reply.status == 200 and not reply.is_complete and end == "eof"
            if fault.startswith("cut"):
                assert len(reply.chunks) == 3
        reply, _ = with_fault(engine, "cut-after:20", stream=False)
        assert not reply.is_complete and len(reply.body) == 20


def test_a_stream_that_stalls_stays_open_until_the_client_leaves():
    with start_sim(*FAST) as engine:
        with engine.client() as client:
            client.send(request_bytes("POST", "/v1/completions", {**BODY, "stream": True},
                                      [("X-Sim-Fault", "stall-after:2")]))
            while client.buffer.count(b"data: ") < 2:
                client.read_more()
            client.buffer = b""
            assert client.end_state(0.3) == "open"


def test_an_aborted_answer_says_so():
    with start_sim(*FAST) as engine:
        reply, _ = with_fault(engine, "abort-after:3", stream=False)
        assert reply.json()["choices"][0]["finish_reason"] == "abort"
        assert reply.json()["usage"]["completion_tokens"] == 3
        reply, _ = with_fault(engine, "abort-after:2")
        assert json.loads(reply.events()[-2])["choices"][0]["finish_reason"] == "abort"


def test_a_process_that_ends_inside_a_stream():
    with start_sim(*FAST) as engine:
        reply, end = with_fault(engine, "exit-after:2")
        assert not reply.is_complete and end == "eof"
        assert engine.wait() == 71


def test_faults_can_be_armed_counted_and_cleared():
    with start_sim(*FAST) as engine:
        engine.arm("status:500", 2)
        codes = [engine.post("/v1/completions", BODY).status for _ in range(3)]
        assert codes == [500, 500, 200]
        engine.arm("status:500", 0)
        assert [engine.post("/v1/completions", BODY).status for _ in range(3)] == [500] * 3
        engine.arm("health:503")
        assert engine.get("/health").status == engine.get("/ping").status == 503
        exchange(engine.address, "DELETE", "/sim/fault")
        assert engine.post("/v1/completions", BODY).status == 200
        assert engine.get("/health").status == 200
        assert engine.post("/sim/fault", {"fault": "no-such"}).status == 400
