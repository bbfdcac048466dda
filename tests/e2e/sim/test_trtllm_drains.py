"""How drains of the simulated TensorRT-LLM last, are counted, overlap and get lost."""

import threading
import time

import pytest

from harness import RawClient, request_bytes, start_trt, wait_until

FAST = ("--decode-us-per-token", 0, "--prefill-us-per-token", 0, "--tokens-per-block", 8)
TAIL = 1000
SLOW_ERAS = ("0.21", "1.1", "1.2", "1.3-early")


def ask(engine, first=0):
    body = {"model": "sim", "prompt": list(range(first, first + 25)), "max_tokens": 1}
    assert engine.post("/v1/completions", body).status == 200


def timed_drain(engine):
    begun = time.monotonic()
    events = engine.drain()
    return events, time.monotonic() - begun


@pytest.mark.parametrize("era", ["1.3-late", "main"])
def test_late_builds_answer_at_once(era):
    with start_trt("--era", era, *FAST) as engine:
        assert engine.drain() == []
        ask(engine)
        assert engine.drain() != []


@pytest.mark.parametrize("era", SLOW_ERAS)
def test_older_builds_wait_for_silence(era):
    with start_trt("--era", era, "--drain-tail-ms", TAIL, *FAST) as engine:
        ask(engine)
        events, took = timed_drain(engine)
        assert events and took >= TAIL / 1000


def test_the_tail_is_two_seconds():
    with start_trt("--era", "1.2", *FAST) as engine:
        ask(engine)
        assert timed_drain(engine)[1] >= 2


def test_the_first_builds_need_a_request_before_the_first_drain_and_before_each_next_one():
    with start_trt("--era", "1.0", "--drain-tail-ms", TAIL, *FAST) as engine:
        assert engine.post("/kv_cache_events").status == 500
        ask(engine)
        assert timed_drain(engine)[1] >= TAIL / 1000
        odd = {"event_id": 99, "data": {"type": "strange"}, "window_size": 4096}
        engine.add_events(odd)
        assert engine.drain() == []  # nobody asked anything since
        ask(engine)
        events, took = timed_drain(engine)
        assert odd in events and took >= TAIL / 1000


def test_a_drain_beside_another_is_refused_and_counted():
    with start_trt(*FAST) as engine:
        ask(engine)
        engine.arm_drain("slow-head:1000")
        first = threading.Thread(target=engine.drain)
        first.start()
        wait_until(lambda: engine.drains()["in_flight"] == 1, 5, "a drain in flight")
        assert engine.post("/kv_cache_events").status == 409
        first.join()
        counts = engine.drains()
        assert (counts["count"], counts["overlaps"], counts["max_in_flight"]) == (1, 1, 2)
        engine.delete("/sim/drains")
        assert engine.drains()["overlaps"] == 0


@pytest.mark.parametrize("era", ["1.1", "1.2"])
def test_a_drain_runs_on_when_its_client_leaves_and_takes_its_events_along(era):
    with start_trt("--era", era, "--drain-tail-ms", 1000, *FAST) as engine:
        ask(engine)
        with RawClient(engine.address) as client:
            client.send(request_bytes("POST", "/kv_cache_events"))
            wait_until(lambda: engine.drains()["in_flight"] == 1, 5, "a drain in flight")
        assert engine.post("/kv_cache_events").status == 409
        wait_until(lambda: engine.drains()["in_flight"] == 0, 10, "its end")
        wait_until(lambda: engine.drains()["lost"] > 0, 5, "what it collected is lost")
        assert engine.drain() == []


def test_drains_can_be_made_to_fail():
    with start_trt(*FAST) as engine:
        engine.arm_drain("status:500")
        assert engine.post("/kv_cache_events").status == 500
        ask(engine)
        engine.arm_drain("garbage")
        with pytest.raises(ValueError):
            engine.post("/kv_cache_events").json()
        assert engine.drain() == []  # what the reply would have held is gone
        ask(engine, 50)
        engine.arm_drain("cut-after:5")
        assert not engine.post("/kv_cache_events").is_complete
        engine.arm_drain("reset")
        assert engine.post("/kv_cache_events") is None
        assert engine.get("/kv_cache_events").status == 405
