"""What a client sees, and what is released, when an engine or the client itself fails."""

import json
import threading

import pytest

from gateway import chat, complete, rule
from harness import RawClient, request_bytes, wait_until

MESSAGES = [{"role": "user", "content": "tell me of the sea"}]


def plain_rule(vip, engines, **more):
    return rule(vip, [e.address for e in engines], **more)


def stream_bytes(**more):
    return request_bytes("POST", "/v1/chat/completions",
                         {"model": "tiny", "messages": MESSAGES, "stream": True, "max_tokens": 40,
                          **more}, [("X-Request-Id", "it")])


def inflight(gateway, body):
    return sum(e["inflight"] for e in gateway.find(body)["endpoints"])


def test_an_engine_that_dies_before_its_answer_is_a_502_in_json(gateway, engines):
    vip = gateway.vip()
    engine = engines(1)[0]
    gateway.create(plain_rule(vip, [engine]))
    for fault in ("reset", "close"):
        engine.arm(fault)
        reply = chat(vip, MESSAGES, request_id=fault, stream=True)
        assert reply.status == 502
        error = reply.json()["error"]
        assert (error["code"], error["request_id"]) == ("upstream_failed", fault)
        assert gateway.receipt(fault)["outcome"] == "upstream_error"
    assert chat(vip, MESSAGES).status == 200


@pytest.mark.parametrize("fault", ["cut-after:3", "reset-after:3"])
def test_a_stream_that_breaks_off_ends_with_an_error_event_and_no_done(gateway, engines, fault):
    vip = gateway.vip()
    engine = engines(1)[0]
    gateway.create(plain_rule(vip, [engine]))
    engine.arm(fault)
    with RawClient(vip) as client:
        client.send(stream_bytes())
        reply = client.read_reply()
        assert reply.status == 200 and reply.is_complete
        events = reply.events()
        assert "[DONE]" not in events
        assert json.loads(events[-1])["error"]["code"] == "stream_truncated"
        assert len(events) >= 3
        assert client.end_state(1) == "eof"
    receipt = gateway.receipt("it")
    assert (receipt["outcome"], receipt["error_code"]) == ("truncated", "stream_truncated")


def test_a_stream_that_falls_silent_is_ended_in_band(gateway, engines):
    vip = gateway.vip()
    engine = engines(1)[0]
    gateway.create(plain_rule(vip, [engine], timeouts={"chunk_gap_ms": 300}))
    engine.arm("stall-after:2")
    with RawClient(vip) as client:
        client.send(stream_bytes())
        reply = client.read_reply()
    assert json.loads(reply.events()[-1])["error"]["code"] == "stream_stalled"
    assert gateway.receipt("it")["outcome"] == "timeout"
    wait_until(lambda: engine.metric("num_requests_running") == 0, 5, "engine idle")


def test_a_plain_answer_that_breaks_off_never_looks_whole(gateway, engines):
    vip = gateway.vip()
    engine = engines(1)[0]
    gateway.create(plain_rule(vip, [engine]))
    engine.arm("cut-after:100")
    with RawClient(vip) as client:
        client.send(request_bytes("POST", "/v1/completions", {"model": "tiny", "prompt": "x"}))
        reply = client.read_reply()
    assert reply is None or reply.status == 502 or not reply.is_complete


def test_a_first_byte_limit_is_a_504_and_a_long_wait_below_it_is_none(gateway, engines):
    vip = gateway.vip()
    engine = engines(1)[0]
    gateway.create(plain_rule(vip, [engine], timeouts={"first_byte_ms": 600}))
    engine.arm("slow-head:250")
    assert complete(vip, "x").status == 200
    engine.arm("hang")
    reply = complete(vip, "x", request_id="late")
    assert reply.status == 504 and reply.json()["error"]["code"] == "upstream_timeout"
    assert gateway.receipt("late")["outcome"] == "timeout"


def test_a_refused_connection_goes_to_another_endpoint(gateway, engines):
    vip = gateway.vip()
    gone, well = engines(2)
    body = plain_rule(vip, [gone, well])
    gateway.create(body)
    gone.kill()
    for i in range(4):
        assert complete(vip, "x", request_id=f"n{i}").status == 200
        receipt = gateway.receipt(f"n{i}")
        assert receipt["legs"][-1]["endpoint"] == well.address
        if len(receipt["legs"]) > 1:
            assert receipt["legs"][0]["verdict"] == "connect_failed"
    attempts = [v for r in well.requests() for k, v in r["headers"] if k.lower() == "x-sluice-attempt"]
    assert set(attempts) == {"2"}
    well.kill()
    reply = complete(vip, "x")
    assert reply.status == 502 and reply.json()["error"]["code"] == "backend_unreachable"


def test_an_engine_that_drains_is_passed_over(gateway, engines):
    vip = gateway.vip()
    draining, well = engines(2)
    gateway.create(plain_rule(vip, [draining, well], kvEngineType="vllm"))
    draining.arm("draining", 0)
    for i in range(4):
        assert chat(vip, MESSAGES, request_id=f"d{i}").status == 200
        assert gateway.receipt(f"d{i}")["legs"][-1]["endpoint"] == well.address


def test_an_engines_own_error_passes_unchanged(gateway, engines):
    vip = gateway.vip()
    engine = engines(1)[0]
    gateway.create(plain_rule(vip, [engine]))
    bad = {"model": "tiny", "messages": MESSAGES, "stream": True, "n": -1}
    with RawClient(vip) as client:
        client.send(request_bytes("POST", "/v1/chat/completions", bad))
        through = client.read_reply()
    direct = engine.post("/v1/chat/completions", bad)
    assert through.status == direct.status == 400
    assert through.body == direct.body
    assert through.header("content-type") == direct.header("content-type")


@pytest.mark.parametrize("leave", ["close", "half_close"])
@pytest.mark.parametrize("phase", ["before the head", "in the stream"])
def test_a_client_that_leaves_frees_engine_and_lease(gateway, engines, leave, phase):
    vip = gateway.vip()
    engine = engines(1, "--decode-us-per-token", "50000")[0]
    body = plain_rule(vip, [engine])
    gateway.create(body)
    if phase == "before the head":
        engine.arm("hang")
    client = RawClient(vip)
    client.send(stream_bytes(max_tokens=200))
    wait_until(lambda: inflight(gateway, body) == 1, 5, "request in flight")
    if phase == "in the stream":
        client.read_until(b"data: ")
    getattr(client, leave)()
    wait_until(lambda: inflight(gateway, body) == 0, 2, "lease released")
    wait_until(lambda: engine.metric("num_requests_running") == 0, 2, "engine idle")
    assert gateway.receipt("it")["outcome"] == "client_closed"
    client.close()


def test_a_stale_kept_connection_is_replaced_without_the_client_noticing(gateway, engines):
    vip = gateway.vip()
    engine = engines(1)[0]
    gateway.create(plain_rule(vip, [engine]))
    assert complete(vip, "x").status == 200
    port = engine.address.rsplit(":", 1)[1]
    engine.stop()
    fresh = type(engine)([*engine.child.args[:3], port, *engine.child.args[4:]])
    try:
        assert complete(vip, "x").status == 200
    finally:
        fresh.__exit__(None, None, None)


@pytest.mark.parametrize("body, code", [
    (b"{", "invalid_json"), (b"[]", "invalid_json"), (b"null", "invalid_json"),
    (b"{}x", "invalid_json"), ('{"model":"tiny"}'.encode("utf-16"), "invalid_json"),
    (b"\xef\xbb\xbf{}", "invalid_json")])
def test_a_body_nobody_can_read_is_a_400_and_reaches_no_engine(gateway, engines, body, code):
    vip = gateway.vip()
    engine = engines(1)[0]
    gateway.create(plain_rule(vip, [engine]))
    with RawClient(vip) as client:
        client.send(request_bytes("POST", "/v1/completions", body))
        reply = client.read_reply()
        assert reply.status == 400 and reply.json()["error"]["code"] == code
        client.send(request_bytes("GET", "/v1/models"))
        assert client.read_reply().status == 200  # the connection goes on
    assert not [r for r in engine.requests() if r["method"] == "POST"]


def test_a_body_over_the_limit_is_a_413(gateway, engines):
    vip = gateway.vip()
    gateway.create(plain_rule(vip, engines(1), max_body_bytes=2048))
    reply = complete(vip, "x" * 4000)
    assert reply.status == 413 and reply.json()["error"]["code"] == "body_too_large"
    assert complete(vip, "x" * 100).status == 200


def test_no_rule_no_model_no_route_are_told_apart(gateway, engines):
    engine = engines(1)[0]
    vip = gateway.vip()
    gateway.create(rule(vip, [engine.address], model_name="tiny", host="only.example"))
    def code(**headers):
        with RawClient(vip) as client:
            client.send(request_bytes("POST", "/v1/completions",
                                      {"model": headers.pop("model", "tiny"), "prompt": "x"},
                                      host=headers.get("host", "only.example")))
            reply = client.read_reply()
        return reply.status, (reply.json().get("error") or {}).get("code")
    assert code()[0] == 200
    assert code(host="ONLY.example:80")[0] == 200
    assert code(model="big") == (503, "model_unavailable")
    assert code(host="other.example") == (503, "model_unavailable")
    with RawClient(vip) as client:
        client.send(request_bytes("GET", "/v1/models", host="other.example"))
        assert client.read_reply().json()["error"]["code"] == "no_route"


def test_sigterm_lets_a_stream_finish_and_refuses_what_is_new(gateway, engines):
    vip = gateway.vip()
    engine = engines(1, "--decode-us-per-token", "30000")[0]
    gateway.create(plain_rule(vip, [engine]))
    result = {}
    with RawClient(vip, limit_s=30) as client:
        client.send(stream_bytes(max_tokens=30))
        client.read_until(b"data: ")
        stopper = threading.Thread(target=lambda: result.update(code=gateway.stop()))
        stopper.start()
        while True:
            if not client.read_more(20):
                break
        assert b"data: [DONE]\n\n" in client.buffer
        stopper.join()
    assert result["code"] == 0


def test_hundreds_of_aborts_leave_nothing_held(gateway, engines):
    vip = gateway.vip()
    engine = engines(1, "--decode-us-per-token", "2000")[0]
    body = plain_rule(vip, [engine])
    gateway.create(body)
    for i in range(300):
        client = RawClient(vip)
        client.send(stream_bytes(max_tokens=30))
        if i % 3 == 1:
            client.read_until(b"HTTP/1.1")
        elif i % 3 == 2:
            client.read_until(b"data: ")
        client.close()
    wait_until(lambda: inflight(gateway, body) == 0, 10, "all leases released")
    wait_until(lambda: engine.metric("num_requests_running") == 0, 10, "engine idle")
    assert gateway.metric("loxilb_ai_active_streams") == 0
    assert chat(vip, MESSAGES).status == 200


def test_keep_alive_pipelining_and_odd_framings_reach_the_engine_as_one(gateway, engines):
    vip = gateway.vip()
    engine = engines(1)[0]
    gateway.create(plain_rule(vip, [engine]))
    payload = json.dumps({"model": "tiny", "prompt": [1, 2, 3], "max_tokens": 1}).encode()
    head = (b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n")
    chunks = b"".join(b"1;x=y\r\n" + payload[i:i + 1] + b"\r\n" for i in range(len(payload)))
    with RawClient(vip) as client:
        client.send(head + chunks + b"0\r\nTrailer: t\r\n\r\n"
                    + request_bytes("GET", "/v1/models") + request_bytes("GET", "/health"))
        assert client.read_reply().status == 200
        assert client.read_reply().json()["data"][0]["id"] == "tiny"
        assert client.read_reply().status == 200
    seen = [r for r in engine.requests() if r["method"] == "POST"][0]
    names = {h[0].lower(): h[1] for h in seen["headers"]}
    assert names.get("content-length") == str(len(payload))
    assert "transfer-encoding" not in names
    assert seen["body"].encode() == payload


@pytest.mark.parametrize("fields", [
    [("Content-Type", "")], [("Content-Type", "text/plain")],
    [("Content-Type", "application/octet-stream")]])
def test_a_route_that_takes_json_is_sent_nothing_that_was_not_read(gateway, engines, fields):
    vip = gateway.vip()
    engine = engines(1)[0]
    gateway.create(plain_rule(vip, [engine]))
    for coding in ("utf-16", "utf-32", "utf-8-sig"):
        body = '{"model":"tiny","prompt":"x"}'.encode(coding)
        with RawClient(vip) as client:
            client.send(request_bytes("POST", "/v1/completions", body, fields))
            reply = client.read_reply()
        assert (reply.status, reply.json()["error"]["code"]) == (400, "invalid_json")
    assert not [r for r in engine.requests() if r["method"] == "POST"]


def test_a_client_cannot_take_away_what_a_body_is_read_by(gateway, engines):
    vip = gateway.vip()
    engine = engines(1)[0]
    gateway.create(plain_rule(vip, [engine]))
    with RawClient(vip) as client:
        client.send(request_bytes("POST", "/v1/completions", b'{"model":"tiny","prompt":"x"}',
                                  [("Content-Type", "application/json"),
                                   ("Connection", "close, content-type")]))
        assert client.read_reply().status == 200
    seen = [r for r in engine.requests() if r["method"] == "POST"][0]
    assert {h[0].lower(): h[1] for h in seen["headers"]}["content-type"] == "application/json"


def test_an_object_that_cannot_be_looked_into_goes_nowhere(gateway, engines):
    vip = gateway.vip()
    engine = engines(1, "--kv-connector", "nixl")[0]
    gateway.create(plain_rule(vip, [engine]))
    many = ",".join(f'"x{i}":1' for i in range(1100))
    for inner, code in (('"a":NaN', "invalid_json"), ('"\\ud800":1', "invalid_json"),
                        (many, "too_many_members")):
        body = '{"model":"tiny","prompt":"x","vllm_xargs":{%s,"kv_transfer_params":"x"}}' % inner
        with RawClient(vip) as client:
            client.send(request_bytes("POST", "/v1/completions", body.encode(),
                                      [("Content-Type", "application/json")]))
            reply = client.read_reply()
        assert (reply.status, reply.json()["error"]["code"]) == (400, code)
    assert engine.child.poll() is None


def test_no_content_type_hides_a_body_from_the_gateway(gateway, engines):
    vip = gateway.vip()
    engine = engines(1, "--kv-connector", "nixl")[0]
    gateway.create(plain_rule(vip, [engine]))
    weapon = json.dumps({"model": "tiny", "prompt": [1], "max_tokens": 1,
                         "kv_transfer_params": {"do_remote_prefill": True}}).encode()
    for kind in ("application/json", "Application/JSON; charset=x", "application/vnd.x+Json", "text/plain",
                 "application/octet-stream"):
        with RawClient(vip) as client:
            client.send(request_bytes("POST", "/v1/completions", weapon, [("Content-Type", kind)]))
            assert client.read_reply() is not None
    assert engine.child.poll() is None
    assert all("kv_transfer_params" not in r["body"] for r in engine.requests())
    with RawClient(vip) as client:
        client.send(request_bytes("POST", "/v1/completions", weapon, [("Content-Encoding", "gzip")]))
        reply = client.read_reply()
    assert reply.status == 415
    assert reply.json()["error"]["code"] == "unsupported_content_encoding"
