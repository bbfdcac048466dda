"""Endpoints that fall silent: one that is gone is told from one that takes its time."""

import fcntl
import json
import signal
import socket
import sys
import termios
import threading

import pytest

from gateway import chat, complete, rule
from harness import RawClient, request_bytes, wait_until
from raw_engine import RawEngine

MESSAGES = [{"role": "user", "content": "tell me of the sea"}]
DRAINS = {"error": {"message": "cannot schedule new futures after shutdown", "code": 500}}


def ask(stream, request_id="it"):
    return request_bytes("POST", "/v1/chat/completions",
                         {"model": "tiny", "messages": MESSAGES, "stream": stream},
                         [("X-Request-Id", request_id)])


def last_error(reply):
    return json.loads(reply.events()[-1])["error"]["code"]


def silent(call):
    """A stream that begins, or nothing at all; then silence."""
    if call.json().get("stream"):
        call.stream('{"choices":[]}')
    call.hang()


def inflight(gateway, body):
    return sum(e["inflight"] for e in gateway.find(body)["endpoints"])


def test_requests_that_wait_on_a_port_that_refuses_are_ended_and_named(gateway):
    with RawEngine(silent) as engine:
        vip = gateway.vip()
        body = rule(vip, [engine.address], cb_enable=True,
                    breaker={"failures": 1, "open_ms": 3_600_000})
        gateway.create(body)
        clients = [RawClient(vip, limit_s=30) for _ in range(40)]
        for i, client in enumerate(clients):
            client.send(ask(i % 2 == 0, f"n{i}"))
        wait_until(lambda: len(engine.calls) == 40, 10, "all are there")
        engine.shut()
        for i, client in enumerate(clients):
            reply = client.read_reply()
            assert reply.is_complete
            if i % 2 == 0:
                assert reply.status == 200 and last_error(reply) == "endpoint_gone"
                assert "[DONE]" not in reply.events()
            else:
                assert reply.status == 502 and reply.json()["error"]["code"] == "endpoint_gone"
            client.close()
        for name, outcome in (("n0", "truncated"), ("n1", "upstream_error")):
            receipt = gateway.receipt(name)
            assert (receipt["outcome"], receipt["error_code"]) == (outcome, "endpoint_gone")
            assert receipt["legs"][-1]["verdict"] == "gone"
        wait_until(lambda: inflight(gateway, body) == 0, 5, "released")
        assert gateway.find(body)["endpoints"][0]["breaker"] == "open"


def test_an_engine_that_stands_still_is_waited_for_and_hardly_looked_at(gateway):
    """The port accepts: however many wait, and whoever else is gone meanwhile, nothing is cut."""
    go = threading.Event()

    def still(call):
        call.stream('{"choices":[]}')
        go.wait(60)
        call.end_stream()

    with RawEngine(still) as alive, RawEngine(silent) as gone:
        vip, other = gateway.vip(), gateway.vip()
        gateway.create(rule(vip, [alive.address]))
        gateway.create(rule(other, [gone.address]))
        clients = [RawClient(vip, limit_s=60) for _ in range(60)]
        for i, client in enumerate(clients):
            client.send(ask(True, f"n{i}"))
        wait_until(lambda: len(alive.calls) == 60, 10, "all are there")
        wait_until(lambda: alive.accepts >= 62, 20, "looked at twice")
        with RawClient(other, limit_s=30) as client:
            client.send(ask(True))
            wait_until(lambda: gone.calls, 10, "it is there")
            gone.shut()
            assert last_error(client.read_reply()) == "endpoint_gone"
        # A look a second at most, and ever fewer: not one for each that waits.
        assert alive.accepts < 72
        go.set()
        for client in clients:
            assert client.read_reply().events()[-1] == "[DONE]"
            client.close()


def test_a_stopped_process_is_not_a_gone_one(gateway, engines):
    stopped = engines(1, "--decode-us-per-token", "20000")[0]
    with RawEngine(silent) as gone:
        vip, other = gateway.vip(), gateway.vip()
        gateway.create(rule(vip, [stopped.address]))
        gateway.create(rule(other, [gone.address]))
        with RawClient(vip, limit_s=60) as client, RawClient(other, limit_s=30) as lost:
            client.send(ask(True, "kept"))
            client.read_until(b"data: ")
            stopped.child.send_signal(signal.SIGSTOP)
            try:
                lost.send(ask(True))
                wait_until(lambda: gone.calls, 10, "it is there")
                gone.shut()
                assert last_error(lost.read_reply()) == "endpoint_gone"
            finally:
                stopped.child.send_signal(signal.SIGCONT)
            client.read_until(b"data: [DONE]\n\n")
        assert gateway.receipt("kept")["outcome"] in ("ok", "client_closed")


def test_a_request_that_waits_goes_on_elsewhere_only_when_the_rule_says_so(gateway, engines):
    well = engines(1)[0]
    with RawEngine(silent) as gone:
        vip = gateway.vip()
        gateway.create(rule(vip, [gone.address, (well.address, {"backup": True})],
                            retry={"after_dispatch": True}))
        with RawClient(vip, limit_s=30) as client:
            client.send(ask(False))
            wait_until(lambda: gone.calls, 10, "it is there")
            gone.shut()
            assert client.read_reply().status == 200
        legs = gateway.receipt("it")["legs"]
        assert [(leg["endpoint"], leg["verdict"]) for leg in legs] == [
            (gone.address, "gone"), (well.address, "relayed")]


# --- what an engine says on its way out

def draining(call):
    """As an engine with --shutdown-timeout: texts and chats are refused, token ids answered."""
    if call.path == "/v1/completions" and isinstance(call.json()["prompt"], list):
        call.reply(200, {"usage": {}})
    elif call.path.startswith("/v1/") and call.body:
        call.reply(500, DRAINS)
        call.close()
    else:
        call.reply(404)


def test_a_draining_engine_is_passed_over_although_it_answers_token_ids(gateway, engines):
    well = engines(1)[0]
    with RawEngine(draining) as leaving:
        vip = gateway.vip()
        body = rule(vip, [leaving.address, (well.address, {"backup": True})], kvEngineType="vllm")
        gateway.create(body)
        assert chat(vip, MESSAGES, request_id="first").status == 200
        legs = gateway.receipt("first")["legs"]
        assert [(leg["endpoint"], leg["verdict"]) for leg in legs] == [
            (leaving.address, "draining"), (well.address, "relayed")]
        # Nothing else is left: the engine is asked, and what it answers does not bring it back.
        well_out = rule(vip, [leaving.address, (well.address, {"backup": True, "weight": 0})],
                        kvEngineType="vllm")
        gateway.create(well_out)
        assert complete(vip, [1, 2, 3], request_id="ids").status == 200
        assert gateway.receipt("ids")["legs"][0]["endpoint"] == leaving.address
        gateway.create(body)
        assert chat(vip, MESSAGES, request_id="then").status == 200
        then = gateway.receipt("then")
        assert [leg["endpoint"] for leg in then["legs"]] == [well.address]
        assert then["candidates"][0]["excluded"] == "draining"


def test_a_500_that_comes_late_is_taken_for_what_it_says(gateway, engines):
    well = engines(1)[0]
    go = threading.Event()

    def late(call):
        if call.path.startswith("/v1/chat"):
            go.wait(20)
            call.reply(500, DRAINS)
        else:
            call.reply(404)

    with RawEngine(late) as leaving:
        vip = gateway.vip()
        gateway.create(rule(vip, [leaving.address, (well.address, {"backup": True})],
                            kvEngineType="vllm"))
        with RawClient(vip, limit_s=30) as client:
            client.send(ask(True))
            wait_until(lambda: any(c.path.startswith("/v1/chat") for c in leaving.calls), 10, "asked")
            go.set()
            reply = client.read_reply()
        assert reply.status == 200 and reply.events()[-1] == "[DONE]"
        assert [leg["endpoint"] for leg in gateway.receipt("it")["legs"]] == [
            leaving.address, well.address]


def in_pieces(call, first, second):
    """The second leaves when the first was read."""
    call.conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    call.send(first)
    wait_until(lambda: is_read(call.conn), 10, "read")
    call.send(second)


def is_read(conn):
    """Whether the gateway's end has taken all that was sent; both ends are of this machine."""
    if int.from_bytes(fcntl.ioctl(conn, termios.TIOCOUTQ, b"\0" * 4), sys.byteorder):
        return False
    ends = [f":{end[1]:04X}" for end in (conn.getpeername(), conn.getsockname())]
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table]
    return any(row[1].endswith(ends[0]) and row[2].endswith(ends[1]) and row[4].endswith(":00000000")
               for row in rows)


CORE = '{"error":{"message":"EngineCore encountered an issue.","code":500}}'


@pytest.mark.parametrize("stream", [False, True])
def test_an_error_that_comes_in_pieces_is_judged_as_a_whole(gateway, engines, stream):
    well = engines(1)[0]

    def pieces(call):
        if not call.body:
            call.reply(404)
        elif stream:
            call.stream()
            text = f"data: {CORE}\n\n".encode()
            in_pieces(call, b"9\r\n" + text[:9] + b"\r\n",
                      b"%x\r\n%s\r\n0\r\n\r\n" % (len(text) - 9, text[9:]))
        else:
            text = json.dumps(DRAINS).encode()
            in_pieces(call, b"HTTP/1.1 500 X\r\nContent-Length: %d\r\n\r\n%s"
                      % (len(text), text[:9]), text[9:])

    with RawEngine(pieces) as leaving:
        vip = gateway.vip()
        gateway.create(rule(vip, [leaving.address, (well.address, {"backup": True})],
                            kvEngineType="vllm"))
        with RawClient(vip, limit_s=30) as client:
            client.send(ask(stream))
            reply = client.read_reply()
        assert reply.status == 200 and b"EngineCore" not in reply.body
        assert [leg["endpoint"] for leg in gateway.receipt("it")["legs"]] == [
            leaving.address, well.address]


def test_the_rest_of_an_error_is_not_waited_for_where_the_port_refuses(gateway):
    def half(call):
        call.send(b"HTTP/1.1 500 X\r\nContent-Length: 100\r\n\r\n")
        call.hang()

    with RawEngine(half) as gone:
        vip = gateway.vip()
        gateway.create(rule(vip, [gone.address]))
        with RawClient(vip, limit_s=30) as client:
            client.send(ask(False))
            wait_until(lambda: gone.calls, 10, "it is there")
            gone.shut()
            reply = client.read_reply()
        assert (reply.status, reply.json()["error"]["code"]) == (502, "endpoint_gone")


@pytest.mark.parametrize("stream", [True, False])
def test_an_engine_without_its_core_costs_nobody_anything_before_the_first_byte(
        gateway, engines, stream):
    dead, well = engines(2)
    vip = gateway.vip()
    gateway.create(rule(vip, [dead.address, (well.address, {"backup": True})], kvEngineType="vllm"))
    dead.arm("error-after:0", 0)
    with RawClient(vip, limit_s=30) as client:
        client.send(ask(stream))
        reply = client.read_reply()
    assert reply.status == 200 and b"EngineCore" not in reply.body
    assert [leg["endpoint"] for leg in gateway.receipt("it")["legs"]] == [dead.address, well.address]


def test_an_error_within_a_stream_is_relayed_and_the_endpoint_passed_over(gateway, engines):
    dead, well = engines(2)
    vip = gateway.vip()
    gateway.create(rule(vip, [dead.address, (well.address, {"backup": True})], kvEngineType="vllm"))
    dead.arm("error-after:2")
    with RawClient(vip, limit_s=30) as client:
        client.send(ask(True))
        reply = client.read_reply()
    assert "EngineCore encountered an issue" in reply.events()[-2]
    assert chat(vip, MESSAGES, request_id="next").status == 200
    assert [leg["endpoint"] for leg in gateway.receipt("next")["legs"]] == [well.address]
