"""One drain in flight for each endpoint in the whole gateway, whatever happens to its rules."""

import copy

import pytest

from gateway import complete
from harness import wait_until

from world import PROMPT, ask, assert_exact, assert_lone_reader, delete_rule, settled, trt_rule, wait_kv

SLOW_ERAS = ("1.1", "1.2")


def more_drains(engine, n=2, limit_s=40):
    """Waits for so many further drains."""
    before = engine.drains()["count"]
    wait_until(lambda: engine.drains()["count"] >= before + n, limit_s, f"{n} more drains")


def edited(body, **more):
    out = copy.deepcopy(body)
    out["serviceArguments"].update(more)
    return out


@pytest.mark.parametrize("era", ["1.3-late", *SLOW_ERAS])
def test_three_rules_that_name_an_endpoint_have_one_reader(gateway, engines, era):
    (engine,) = engines(1, "--era", era, "--drain-tail-ms", 1000)
    vips = [gateway.vip() for _ in range(3)]
    bodies = [trt_rule(vip, [engine]) for vip in vips]
    for body in bodies:
        gateway.create(body)
    assert complete(vips[0], PROMPT).status == 200
    for vip, body in zip(vips, bodies):
        assert settled(gateway, body, engine) > 10
        reply, receipt = ask(gateway, vip, PROMPT, f"by-{vip}")
        assert receipt["legs"][-1]["tier"] == "kv_exact"
    more_drains(engine)
    assert_lone_reader(engine)
    # One of them less changes nothing for the others.
    delete_rule(gateway, vips[0])
    more_drains(engine)
    assert_lone_reader(engine)
    reply, receipt = ask(gateway, vips[2], PROMPT, "after")
    assert receipt["legs"][-1]["tier"] == "kv_exact"


@pytest.mark.parametrize("era", SLOW_ERAS)
def test_rules_edited_while_a_build_holds_a_drain_do_not_start_another(gateway, engines, era):
    (engine,) = engines(1, "--era", era, "--drain-tail-ms", 1500)
    vip = gateway.vip()
    body = trt_rule(vip, [engine])
    gateway.create(body)
    assert complete(vip, PROMPT).status == 200
    for n, change in enumerate([{"kvBlockSize": 16}, {"kvBlockSize": 0}, {"name": "renamed"},
                                {"kvMinMatchTokens": 32}, {"kvBlockSize": 16}]):
        wait_until(lambda: engine.drains()["in_flight"] == 1, 20, "a drain in flight")
        change = edited(body, **change)
        if change["serviceArguments"].get("kvBlockSize") == 0:
            del change["serviceArguments"]["kvBlockSize"]
        gateway.create(change)
        assert complete(vip, f"{n} " + PROMPT).status == 200
    more_drains(engine)
    assert_lone_reader(engine)


def test_a_rule_deleted_and_made_anew_during_a_drain_waits_for_its_end(gateway, engines):
    (engine,) = engines(1, "--era", "1.2", "--drain-tail-ms", 1500)
    vip = gateway.vip()
    body = trt_rule(vip, [engine])
    for _ in range(3):
        gateway.create(body)
        assert complete(vip, PROMPT).status == 200
        wait_until(lambda: engine.drains()["in_flight"] == 1, 20, "a drain in flight")
        delete_rule(gateway, vip)
    gateway.create(body)
    more_drains(engine)
    assert_lone_reader(engine)


def test_a_drain_that_hangs_once_is_not_joined_by_another(gateway, engines):
    (engine,) = engines(1)
    vip = gateway.vip()
    body = trt_rule(vip, [engine])
    gateway.create(body)
    gateway.wait_signal(body, ("ok", "quiet"))
    engine.arm_drain("slow-head:4000")
    wait_until(lambda: engine.drains()["in_flight"] == 1, 10, "a drain in flight")
    assert complete(vip, PROMPT).status == 200
    more_drains(engine)
    assert settled(gateway, body, engine) > 10
    assert_lone_reader(engine)


@pytest.mark.parametrize("fault", ["garbage", "cut-after:40"])
def test_a_200_that_cannot_be_read_empties_the_inventory(gateway, engines, fault):
    (engine,) = engines(1)
    vip = gateway.vip()
    body = trt_rule(vip, [engine])
    gateway.create(body)
    ask(gateway, vip, PROMPT, "first")
    held = settled(gateway, body, engine)
    engine.arm_drain(fault)
    # cut-after needs something to cut; either way the events of this prompt are lost.
    ask(gateway, vip, "Other words before. " + PROMPT, "lost")
    wait_until(lambda: gateway.find(body)["endpoints"][0]["kv"]["blocks"] < held, 10, "emptied")
    engine.post("/sim/reset")
    settled(gateway, body, engine)
    ask(gateway, vip, PROMPT, "anew")
    settled(gateway, body, engine)
    reply, receipt = ask(gateway, vip, PROMPT, "known")
    assert_exact(reply, receipt, at_least=1)
    assert_lone_reader(engine)


@pytest.mark.parametrize("fault", ["status:500", "reset", "close"])
def test_a_drain_without_a_usable_reply_keeps_what_is_known(gateway, engines, fault):
    (engine,) = engines(1)
    vip = gateway.vip()
    body = trt_rule(vip, [engine])
    gateway.create(body)
    ask(gateway, vip, PROMPT, "first")
    held = settled(gateway, body, engine)
    engine.arm_drain(fault, 2)
    more_drains(engine, 4)
    assert gateway.find(body)["endpoints"][0]["kv"]["blocks"] == held
    reply, receipt = ask(gateway, vip, PROMPT, "still")
    assert_exact(reply, receipt, at_least=1)
    assert_lone_reader(engine)


@pytest.mark.parametrize("era", ["0.21", "1.0", "1.1", "1.2", "1.3-early"])
def test_older_builds_are_followed_with_a_note(gateway, engines, era):
    (engine,) = engines(1, "--era", era, "--drain-tail-ms", 1000)
    vip = gateway.vip()
    body = trt_rule(vip, [engine])
    gateway.create(body)
    assert complete(vip, PROMPT).status == 200
    words = wait_kv(gateway, body, engine, signal=("ok", "quiet"), reason="legacy")
    assert words["detail"]
    settled(gateway, body, engine)
    reply, receipt = ask(gateway, vip, PROMPT, "again")
    assert receipt["legs"][-1]["tier"] == "kv_exact"
    assert receipt["tokens"]["predicted_cached"] > 0
    assert_lone_reader(engine)


def test_a_build_that_collects_while_events_flow_is_waited_for(gateway, engines):
    """Its drain ends only when the flow does: nothing is lost, and nobody drains beside it."""
    (engine,) = engines(1, "--era", "1.2", "--drain-tail-ms", 1500)
    vip = gateway.vip()
    body = trt_rule(vip, [engine])
    gateway.create(body)
    wait_until(lambda: engine.drains()["in_flight"] == 1, 20, "a drain in flight")
    finished = engine.drains()["count"]
    for i in range(12):
        assert complete(vip, f"{i} in the flow. " + PROMPT, max_tokens=20).status == 200
    assert engine.drains()["count"] <= finished + 1
    settled(gateway, body, engine)
    reply, receipt = ask(gateway, vip, "11 in the flow. " + PROMPT, "known")
    assert_exact(reply, receipt, at_least=1)
    counts = engine.drains()
    assert counts["lost"] == counts["overflowed"] == 0
    assert_lone_reader(engine)


def test_nothing_that_takes_from_others_is_ever_read(gateway, engines):
    pool = engines(2, "--return-perf-metrics", "--enable-iter-perf-stats")
    vip = gateway.vip()
    body = trt_rule(vip, pool, monitor=True, probetype="http", probereq="/health",
                    probeport=int(pool[0].address.rsplit(":", 1)[1]), probeTimeout=1, probeRetries=1)
    gateway.create(body)
    for i in range(6):
        assert complete(vip, f"{i} " + PROMPT).status == 200
    for engine in pool:
        wait_until(lambda engine=engine: engine.drains()["reads"]["prometheus"] > 1, 15, "a scrape")
        assert_lone_reader(engine)
        targets = {r["target"] for r in engine.requests()}
        assert not targets & {"/metrics", "/perf_metrics", "/health_generate", "/load"}
