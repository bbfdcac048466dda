"""The breaker of a single pool: what opens it, who tries again, and what never counts."""

import re
import threading

import pytest

from gateway import chat, complete, rule
from harness import RawClient, request_bytes, wait_until
from raw_engine import RawEngine

CLOSED = {"failures": 3, "open_ms": 3_600_000}


def breakers(gateway, body):
    return [e["breaker"] for e in gateway.find(body)["endpoints"]]


def flips(gateway):
    """From and to of every flip, as the log has them."""
    return re.findall(r"breaker flipped\" .*from=(\w+) to=(\w+)", gateway.log())


def change(gateway, body, **numbers):
    """Other numbers of the breaker; nothing else."""
    body["serviceArguments"]["breaker"] = {**body["serviceArguments"]["breaker"], **numbers}
    assert gateway.create(body)


def guarded(vip, addresses, **more):
    return rule(vip, addresses, cb_enable=True, breaker=dict(CLOSED), **more)


def code_of(reply):
    return reply.json()["error"]["code"]


def test_it_opens_half_opens_closes_and_reopens(gateway):
    """TI on a single pool."""
    engine = RawEngine(lambda call: call.reply(), start=False)
    vip = gateway.vip()
    body = guarded(vip, [engine.address])
    with engine:
        gateway.create(body)
        assert breakers(gateway, body) == ["closed"]
        for _ in range(3):
            reply = complete(vip, "x")
            assert (reply.status, code_of(reply)) == (502, "backend_unreachable")
        assert breakers(gateway, body) == ["open"]
        row = gateway.find(body)["endpoints"][0]
        assert (row["state"], row["inActiveEP"], row["reason"]) == ("inactive", True, "breaker open")
        engine.open()
        reply = complete(vip, "x", request_id="shut")
        assert (reply.status, code_of(reply)) == (503, "no_healthy_backend")
        assert reply.header("retry-after") == "60"
        assert gateway.receipt("shut")["candidates"][0]["excluded"] == "open"
        assert engine.accepts == 0

        engine.shut()
        change(gateway, body, open_ms=1)
        wait_until(lambda: breakers(gateway, body) == ["half_open"], 5, "half open")
        assert complete(vip, "x").status == 502
        assert flips(gateway)[-1] == ("half_open", "open")

        engine.open()
        wait_until(lambda: breakers(gateway, body) == ["half_open"], 5, "half open")
        assert complete(vip, "x").status == 200
        assert breakers(gateway, body) == ["closed"]
        assert gateway.metric("loxilb_pd_cb_flips_total") == 5
        assert gateway.metric("loxilb_pd_cb_proactive_heal_total") == 2
        assert flips(gateway) == [("closed", "open"), ("open", "half_open"), ("half_open", "open"),
                                  ("open", "half_open"), ("half_open", "closed")]


def test_an_open_endpoint_gets_nothing_and_the_others_go_on(gateway, engines):
    well = engines(1)[0]
    with RawEngine(lambda call: call.close()) as ill:
        vip = gateway.vip()
        body = guarded(vip, [ill.address, well.address])
        gateway.create(body)
        statuses = [complete(vip, "x").status for _ in range(6)]
        assert statuses.count(502) == 3 and breakers(gateway, body) == ["open", "closed"]
        seen = len(ill.calls)
        assert [complete(vip, "x").status for _ in range(10)] == [200] * 10
        assert len(ill.calls) == seen


def test_one_bad_client_opens_nothing(gateway, engines):
    """G1: 4xx is success for health."""
    engine = engines(1)[0]
    vip = gateway.vip()
    body = guarded(vip, [engine.address])
    gateway.create(body)
    bad = request_bytes("POST", "/v1/completions", {"model": "tiny", "prompt": "x", "n": -1})
    for _ in range(50):
        with RawClient(vip) as client:
            client.send(bad)
            assert client.read_reply().status == 400
    assert complete(vip, "x").status == 200
    assert breakers(gateway, body) == ["closed"]


@pytest.mark.parametrize("status, headers, opens", [
    (500, (), True), (503, (), True), (429, (), False), (503, (("Retry-After", "1"),), False),
    (404, (), False)])
def test_errors_of_the_endpoint_open_it_and_load_does_not(gateway, status, headers, opens):
    with RawEngine(lambda call: call.reply(status, headers=headers)) as engine:
        vip = gateway.vip()
        body = guarded(vip, [engine.address])
        gateway.create(body)
        for _ in range(3):
            assert complete(vip, "x").status == status
        assert breakers(gateway, body) == ["open" if opens else "closed"]


def test_5xx_count_only_when_the_rule_says_so(gateway):
    with RawEngine(lambda call: call.reply(500)) as engine:
        vip = gateway.vip()
        body = guarded(vip, [engine.address])
        body["serviceArguments"]["breaker"]["origin_5xx"] = 0
        gateway.create(body)
        assert [complete(vip, "x").status for _ in range(10)] == [500] * 10
        assert breakers(gateway, body) == ["closed"]


def test_streams_that_always_break_off_open_it(gateway, engines):
    engine = engines(1)[0]
    vip = gateway.vip()
    body = guarded(vip, [engine.address])
    gateway.create(body)
    engine.arm("cut-after:2", 0)
    for _ in range(3):
        assert chat(vip, [{"role": "user", "content": "x"}], stream=True).status == 200
    assert breakers(gateway, body) == ["open"]


def test_clients_that_leave_say_nothing_of_the_endpoint(gateway, engines):
    engine = engines(1)[0]
    vip = gateway.vip()
    body = guarded(vip, [engine.address])
    gateway.create(body)
    engine.arm("hang", 0)
    for _ in range(5):
        with RawClient(vip) as client:
            client.send(request_bytes("POST", "/v1/completions", {"model": "tiny", "prompt": "x"}))
            wait_until(lambda: gateway.find(body)["endpoints"][0]["inflight"] == 1, 5, "in flight")
        wait_until(lambda: gateway.find(body)["endpoints"][0]["inflight"] == 0, 5, "released")
    assert breakers(gateway, body) == ["closed"]


def test_exactly_so_many_try_a_half_open_endpoint(gateway):
    """B53: half-open is a gate with permits, and one whose client left gives its own back."""
    go = threading.Event()

    def script(call):
        go.wait(20)
        call.reply()

    engine = RawEngine(script, start=False)
    vip = gateway.vip()
    body = guarded(vip, [engine.address])
    body["serviceArguments"]["breaker"].update(failures=1, half_open_trials=2)
    with engine:
        gateway.create(body)
        assert complete(vip, "x").status == 502
        engine.open()
        change(gateway, body, open_ms=1)
        wait_until(lambda: breakers(gateway, body) == ["half_open"], 5, "half open")
        ask = request_bytes("POST", "/v1/completions", {"model": "tiny", "prompt": "x"})
        with RawClient(vip, limit_s=30) as first:
            leaver = RawClient(vip)
            for client, count in ((first, 1), (leaver, 2)):
                client.send(ask)
                wait_until(lambda: len(engine.calls) == count, 5, "trial")
            for _ in range(3):
                reply = complete(vip, "x")
                assert (reply.status, code_of(reply)) == (503, "no_healthy_backend")
            leaver.close()
            wait_until(lambda: gateway.find(body)["endpoints"][0]["inflight"] == 1, 5, "given back")
            with RawClient(vip, limit_s=30) as third:
                third.send(ask)
                wait_until(lambda: len(engine.calls) == 3, 5, "trial")
                assert complete(vip, "x").status == 503
                go.set()
                assert first.read_reply().status == third.read_reply().status == 200
        assert complete(vip, "x").status == 200
        assert breakers(gateway, body) == ["closed"]


def test_an_edit_of_something_else_keeps_its_state_and_switching_it_off_forgets(gateway):
    engine = RawEngine(lambda call: call.reply(), start=False)
    vip = gateway.vip()
    body = guarded(vip, [engine.address])
    with engine:
        gateway.create(body)
        for _ in range(3):
            complete(vip, "x")
        body["serviceArguments"]["name"] = "other"
        gateway.create(body)
        assert breakers(gateway, body) == ["open"]
        engine.open()
        del body["serviceArguments"]["breaker"]
        body["serviceArguments"]["cb_enable"] = False
        gateway.create(body)
        assert "breaker" not in gateway.find(body)["endpoints"][0]
        assert complete(vip, "x").status == 200


def test_a_generation_is_not_repeated(gateway):
    """G18: one failure stays one arrival, whoever answers for the engine that may have begun."""
    scripts = [(lambda call: call.close(), 502)]
    scripts += [(lambda call, code=code: call.reply(code), code) for code in (500, 502, 504)]
    for engine in ("vllm", "trtllm"):
        for script, status in scripts:
            with RawEngine(script) as one, RawEngine(script) as two:
                vip = gateway.vip()
                body = guarded(vip, [one.address, two.address], kvEngineType=engine)
                gateway.create(body)
                assert complete(vip, "x").status == status
                assert sum(1 for call in one.calls + two.calls if call.body) == 1


def test_a_busy_word_and_a_spike_of_failures_pass_by_themselves(gateway):
    """G2, G3: marks expire; nothing has to change for the endpoint to be used again."""
    answers = [503, 503, 503]

    def script(call):
        call.reply(answers.pop() if answers else 200)

    with RawEngine(script) as engine, RawEngine(lambda call: call.reply()) as other:
        vip = gateway.vip()
        gateway.create(rule(vip, [engine.address, other.address], kvEngineType="vllm"))

        def served():
            assert complete(vip, "x").status == 200
            return not answers and sum(1 for c in engine.calls if c.path != "/metrics") > 5

        wait_until(served, 20, "the endpoint is used again")


def test_when_all_are_full_the_client_is_told_and_nobody_is_asked_twice(gateway):
    """G19"""
    with RawEngine(lambda call: call.reply(429 if call.body else 404)) as one, \
            RawEngine(lambda call: call.reply(429 if call.body else 404)) as two:
        vip = gateway.vip()
        body = guarded(vip, [one.address, two.address], kvEngineType="vllm")
        gateway.create(body)
        for _ in range(5):
            asked = sum(1 for e in (one, two) for c in e.calls if c.body)
            reply = complete(vip, "x")
            assert (reply.status, reply.header("retry-after")) == (429, "1")
            assert sum(1 for e in (one, two) for c in e.calls if c.body) == asked + 2
        assert breakers(gateway, body) == ["closed", "closed"]


def test_one_that_never_answers_holds_up_nobody_else(gateway, engines):
    """G7"""
    well = engines(1)[0]
    with RawEngine(lambda call: call.hang()) as stuck:
        vip, other = gateway.vip(), gateway.vip()
        gateway.create(rule(vip, [stuck.address]))
        gateway.create(rule(other, [well.address]))
        clients = [RawClient(vip, limit_s=30) for _ in range(50)]
        for client in clients:
            client.send(request_bytes("POST", "/v1/completions", {"model": "tiny", "prompt": "x"}))
        wait_until(lambda: len(stuck.calls) == 50, 10, "all of them wait")
        assert [complete(other, "x").status for _ in range(20)] == [200] * 20
        for client in clients:
            client.close()
