"""An adapter that others wrote runs both legs at once; what prefill answers is read by nobody."""

import json
import pathlib
import socket
import threading

import pytest

from conftest import legs
from gateway import Gateway, complete, free_port, rule
from harness import RawClient, binary, request_bytes, wait_until
from raw_engine import RawEngine

ENGINES = pathlib.Path(binary("sluiced")).parents[1] / "tests" / "engines"


@pytest.fixture
def gateway(tmp_path):
    with Gateway(str(tmp_path), flags=["--plugins", str(ENGINES)]) as gateway:
        yield gateway


def start(gateway, prefill, decode, **more):
    """A rule over two addresses; its VIP."""
    vip = gateway.vip()
    gateway.create(rule(vip, [(prefill, {"ep_role": 1}), (decode, {"ep_role": 2})], engine="rooms",
                        pd_disagg_mode=True, **more))
    return vip


def asked(engine):
    return [call.json() for call in engine.calls if call.body]


def settled(gateway):
    return all(e["inflight"] == 0 for e in gateway.rules()[0]["endpoints"])


ANSWER = {"id": "x", "choices": [{"text": "right"}]}


def answer_when_met(call, is_met):
    """What decode says once prefill is in its room; one that is ended before says nothing."""
    try:
        wait_until(lambda: is_met(call.json()["room"]), 10, "prefill is in the room")
    except AssertionError:
        return call.close()
    return call.reply(200, ANSWER)


def test_both_get_one_room_and_the_clients_own_is_dropped(gateway):
    def is_asked(room):
        return any(body["room"] == room for body in asked(prefill))

    with RawEngine(lambda call: call.reply(200, {"x": "y" * (1 << 20)})) as prefill, \
            RawEngine(lambda call: answer_when_met(call, is_asked)) as decode:
        vip = start(gateway, prefill.address, decode.address)
        for i in range(3):
            reply = complete(vip, "p", request_id=f"r{i}", room=7)
            assert (reply.status, reply.json()["choices"]) == (200, ANSWER["choices"])
            wait_until(lambda: settled(gateway), 5, "prefill's reply is read to its end")
        rooms = [[body["room"] for body in asked(e)] for e in (prefill, decode)]
        assert rooms[0] == rooms[1] and len(set(rooms[0])) == 3 and 7 not in rooms[0]
        # What is dropped is no reply that was too long to be handed on.
        assert gateway.metric("loxilb_proxy_pd_kv_params_overflow_total") == 0
        assert gateway.metric("loxilb_ai_pd_kv_params_missing_total") == 0


def test_decode_answers_while_prefill_still_talks(gateway):
    talks, gone = threading.Event(), threading.Event()

    def talk(call):
        call.stream("1")
        talks.set()
        call.hang()
        gone.set()

    def answer(call):
        talks.wait(10)
        call.reply(200, ANSWER)

    with RawEngine(talk) as prefill, RawEngine(answer) as decode:
        vip = start(gateway, prefill.address, decode.address)
        reply = complete(vip, "p", request_id="early")
        assert reply.json()["choices"] == ANSWER["choices"]
        assert gone.wait(10), "prefill is ended with the answer"
        assert [leg[0::2] for leg in legs(gateway, "early")] == [
            ("prefill", "cut_off"), ("decode", "relayed")]
        assert gateway.metric("loxilb_pd_sg_decode_close_drain_total") == 1
        wait_until(lambda: settled(gateway), 5, "all is given back")


def test_a_body_that_prefill_has_not_taken_yet_is_kept_for_it(gateway):
    """Decode answers a large request whose prefill leg is still on its way up."""
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        port.listen()
        address = f"127.0.0.1:{port.getsockname()[1]}"
        words = "p" * (12 << 20)  # more than sockets hold

        def answer(call):
            call.stream(json.dumps(ANSWER))
            until_read.wait(20)
            call.end_stream()

        until_read = threading.Event()
        with RawEngine(answer) as decode:
            vip = start(gateway, address, decode.address)
            with RawClient(vip, limit_s=30) as client:
                client.send(request_bytes("POST", "/v1/completions",
                                          {"model": "m", "prompt": words, "stream": True}))
                client.read_until(b'"right"')
                # The rest of the upload is taken after the answer began, and is the client's.
                upload, _ = port.accept()
                taken = b""
                while not taken.endswith(b"}"):
                    taken += upload.recv(1 << 20)
                until_read.set()
                body = taken.partition(b"\r\n\r\n")[2]
                sent = json.loads(body)
                assert sent["prompt"] == words and "room" in sent
                upload.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                client.read_until(b"[DONE]")
            upload.close()
            wait_until(lambda: settled(gateway), 5, "all is given back")


def test_a_failed_prefill_is_a_502_in_the_adapters_words_and_ends_decode(gateway):
    gone = threading.Event()

    def wait(call):
        call.hang()
        gone.set()

    with RawEngine(lambda call: call.reply(500)) as prefill, RawEngine(wait) as decode:
        vip = start(gateway, prefill.address, decode.address)
        reply = complete(vip, "p", stream=True)
        assert (reply.status, reply.json()["error"]["code"]) == (502, "pd_prefill_failed")
        assert reply.json()["error"]["message"] == "nobody is in the room"
        assert gone.wait(10), "decode is ended"


def test_another_prefill_is_asked_when_an_answer_cannot_be_used(gateway):
    met = []

    def decode_script(call):
        answer_when_met(call, met.__contains__)

    def prefill_script(call):
        call.reply(200)
        met.append(call.json()["room"])

    with RawEngine(lambda call: call.reply(500)) as broken, RawEngine(prefill_script) as good, \
            RawEngine(decode_script) as decode:
        vip = gateway.vip()
        gateway.create(rule(vip, [(broken.address, {"ep_role": 1}), (good.address, {"ep_role": 1}),
                                  (decode.address, {"ep_role": 2})], engine="rooms",
                            pd_disagg_mode=True))
        for _ in range(4):
            assert complete(vip, "p").json()["choices"] == ANSWER["choices"]
        assert asked(broken)


@pytest.mark.parametrize("leg", ["prefill", "decode"])
def test_an_error_that_repeats_what_engines_say_to_each_other_is_told_without_it(gateway, leg):
    def say(call):
        call.reply(422, {"detail": f"{{'prompt': 'p', 'room': {call.json()['room']}}}"})

    def wait(call):
        call.hang()

    scripts = {"prefill": (say, wait), "decode": (wait, say)}[leg]
    with RawEngine(scripts[0]) as prefill, RawEngine(scripts[1]) as decode:
        reply = complete(start(gateway, prefill.address, decode.address), "p")
        assert (reply.status, reply.json()["error"]["code"]) == (422, "pd_leg_refused")
        assert b"room" not in reply.body


def test_a_refusal_of_prefill_is_the_clients(gateway):
    with RawEngine(lambda call: call.reply(422, {"detail": "no"})) as prefill, \
            RawEngine(lambda call: call.hang()) as decode:
        vip = start(gateway, prefill.address, decode.address)
        reply = complete(vip, "p")
        assert (reply.status, reply.json()) == (422, {"detail": "no"})
        wait_until(lambda: settled(gateway), 5, "all is given back")


def test_a_room_is_never_entered_twice(gateway):
    deaths, open_rooms = [1], set()

    def die_once(call):
        if deaths:
            deaths.pop()
            call.close()
        else:
            open_rooms.add(call.json()["room"])
            call.reply(200)

    def meet(call):
        answer_when_met(call, open_rooms.__contains__)

    with RawEngine(die_once) as prefill, RawEngine(meet) as decode:
        vip = start(gateway, prefill.address, decode.address)
        assert complete(vip, "p").json()["choices"] == ANSWER["choices"]
        rooms = [body["room"] for body in asked(prefill)]
        assert len(rooms) == len(set(rooms)) == 2
        assert set(b["room"] for b in asked(decode)) <= set(rooms)


def test_nobody_prefills(gateway):
    with RawEngine(lambda call: call.reply(200, ANSWER)) as decode:
        vip = start(gateway, f"127.0.0.1:{free_port()}", decode.address)
        reply = complete(vip, "p")
        assert (reply.status, reply.json()["error"]["code"]) == (503, "pd_pool_unavailable")
