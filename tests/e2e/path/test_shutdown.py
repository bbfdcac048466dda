"""The end of the gateway: requests that outlast the drain time-out are told."""

import json
import threading

from gateway import Gateway, rule
from harness import RawClient, request_bytes, wait_until
from raw_engine import RawEngine


def endless(call):
    body = call.json()
    if body.get("stream"):
        call.stream('{"choices":[]}')
    elif body["prompt"] == "half":
        call.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                  b"Content-Length: 100\r\n\r\n{")
    call.hang()


def ask(**more):
    return request_bytes("POST", "/v1/completions", {"model": "tiny", "prompt": "x", **more},
                         [("X-Request-Id", "it")])


def test_at_the_drain_time_out_streams_end_in_band_and_waiting_requests_with_a_503(tmp_path):
    gateway = Gateway(str(tmp_path), flags=["--drain-timeout", "1"])
    with RawEngine(endless) as engine:
        vip = gateway.vip()
        gateway.create(rule(vip, [engine.address]))
        with RawClient(vip, limit_s=30) as stream, RawClient(vip, limit_s=30) as waiting, \
                RawClient(vip, limit_s=30) as half:
            stream.send(ask(stream=True))
            waiting.send(ask())
            half.send(ask(prompt="half"))
            wait_until(lambda: len(engine.calls) == 3, 10, "all are there")
            code = {}
            stopper = threading.Thread(target=lambda: code.update(value=gateway.stop()))
            stopper.start()
            reply = stream.read_reply()
            assert reply.status == 200 and reply.is_complete
            assert json.loads(reply.events()[-1])["error"]["code"] == "shutting_down"
            assert "[DONE]" not in reply.events()
            reply = waiting.read_reply()
            assert reply.status == 503 and reply.json()["error"]["code"] == "shutting_down"
            broken = half.read_reply()
            assert broken is None or not broken.is_complete
            stopper.join()
    assert code["value"] == 0


def test_a_client_that_still_sends_its_body_is_answered_at_the_drain_time_out(tmp_path):
    gateway = Gateway(str(tmp_path), flags=["--drain-timeout", "0"])
    with RawEngine(endless) as engine:
        vip = gateway.vip()
        gateway.create(rule(vip, [engine.address]))
        whole = ask(prompt="x" * 1000)
        chunked = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                   b"Expect: 100-continue\r\n\r\n")
        with RawClient(vip, limit_s=30) as length, RawClient(vip, limit_s=30) as chunks:
            length.send(whole[:-500])
            chunks.send(chunked)
            assert chunks.read_until(b"\r\n\r\n").startswith(b"HTTP/1.1 100")
            wait_until(lambda: b'"exchanges":2' in gateway.get("/diagnostics").body, 10,
                       "both are there")
            assert gateway.stop() == 0
            for client in (length, chunks):
                reply = client.read_reply()
                assert reply.status == 503 and reply.json()["error"]["code"] == "shutting_down"
                assert client.end_state(10) == "eof"
        assert not engine.calls


def test_a_client_that_takes_nothing_does_not_hold_up_the_end(tmp_path):
    gateway = Gateway(str(tmp_path), flags=["--drain-timeout", "1"])

    def flood(call):
        call.stream()
        while True:
            call.event("x" * 60_000)

    with RawEngine(flood) as engine:
        vip = gateway.vip()
        gateway.create(rule(vip, [engine.address]))
        with RawClient(vip, limit_s=30) as client:
            client.send(ask(stream=True))
            wait_until(lambda: engine.calls, 10, "it is there")
            assert gateway.stop(limit_s=30) == 0


def test_streams_that_end_within_the_drain_time_out_are_whole(tmp_path):
    """G17"""
    go = threading.Event()

    def until_told(call):
        call.stream('{"choices":[]}')
        go.wait(30)
        call.end_stream()

    gateway = Gateway(str(tmp_path), flags=["--drain-timeout", "60"])
    with RawEngine(until_told) as engine:
        vip = gateway.vip()
        gateway.create(rule(vip, [engine.address]))
        clients = [RawClient(vip, limit_s=60) for _ in range(20)]
        for client in clients:
            client.send(ask(stream=True))
        wait_until(lambda: len(engine.calls) == 20, 10, "all are there")
        code = {}
        stopper = threading.Thread(target=lambda: code.update(value=gateway.stop()))
        stopper.start()

        def is_refused():
            try:
                RawClient(vip).close()
            except ConnectionError:
                return True
            return False

        wait_until(is_refused, 10, "nothing new is taken")
        go.set()
        for client in clients:
            reply = client.read_reply()
            assert reply.is_complete and reply.events()[-1] == "[DONE]"
            client.close()
        stopper.join()
    assert code["value"] == 0
