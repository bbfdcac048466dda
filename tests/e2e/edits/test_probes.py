"""Edits and probes: no gap, no burst, and none to what is gone. Another endpoint's probes are the clock."""

from conftest import edited, row
from gateway import complete, rule
from harness import RawClient, request_bytes, wait_until


def probes(engine):
    """How often the engine was probed."""
    return sum(1 for r in engine.requests()
               if r["target"] == "/health" and ["User-Agent", "sluice-probe"] in
               [list(h) for h in r["headers"]])


def probed(vip, engines, **more):
    return rule(vip, [e.address for e in engines], monitor=True, probetype="http", probereq="/health",
                probeTimeout=1, **more)


def own_port(body, engine):
    return edited(body, probeport=int(engine.address.rsplit(":", 1)[1]))


def test_probes_go_on_through_edits_without_gap_or_burst(gateway, engines):
    subject, clock = engines(2)
    vip, clock_vip = gateway.vip(), gateway.vip()
    body = own_port(probed(vip, [subject]), subject)
    gateway.create(own_port(probed(clock_vip, [clock]), clock))
    gateway.create(body)
    wait_until(lambda: probes(subject) >= 1 and probes(clock) >= 1, 10, "first probes")
    first = probes(subject) - probes(clock)
    for n in range(4):
        ticks = probes(clock)
        for m in range(3):
            gateway.create(edited(body, [row(subject.address, 2 + m)], name=f"edit-{n}-{m}"))
        wait_until(lambda t=ticks: probes(clock) > t, 10, "the clock")
        assert abs(probes(subject) - probes(clock) - first) <= 1


def test_a_removed_endpoint_is_not_probed_after_one_interval(gateway, engines):
    leaving, clock = engines(2)
    spare = engines(1, "--decode-us-per-token", 20_000)[0]
    vip, clock_vip = gateway.vip(), gateway.vip()
    body = own_port(probed(vip, [leaving]), leaving)
    gateway.create(own_port(probed(clock_vip, [clock]), clock))
    gateway.create(body)
    wait_until(lambda: probes(leaving) >= 1 and probes(clock) >= 1, 10, "first probes")
    # Neither a stream that began under the rule as it was keeps anything of it, nor one that waits
    # for its answer.
    with RawClient(vip, limit_s=60) as client, RawClient(vip, limit_s=60) as waiting:
        leaving.arm("hang")
        waiting.send(request_bytes("POST", "/v1/completions", {"model": "tiny", "prompt": "wait"}))
        wait_until(lambda: any(r["method"] == "POST" for r in leaving.requests()), 10, "it waits")
        leaving.arm("stall-after:2")
        client.send(request_bytes("POST", "/v1/chat/completions",
                                  {"model": "tiny", "stream": True, "max_tokens": 400,
                                   "messages": [{"role": "user", "content": "go on"}]}))
        assert client.read_until(b"data: ") is not None
        gateway.create(edited(rule(vip, [spare.address])))
        ticks, seen = probes(clock), probes(leaving)
        wait_until(lambda: probes(clock) >= ticks + 3, 20, "three intervals")
        assert probes(leaving) <= seen + 1
    # It comes back: probed at once, and again.
    gateway.create(body)
    wait_until(lambda: probes(leaving) >= seen + 2, 10, "probed again")


def test_probing_of_an_endpoint_that_two_rules_share_is_one_probe_until_both_let_go(gateway, engines):
    shared, clock = engines(2)
    vips = [gateway.vip() for _ in range(3)]
    gateway.create(own_port(probed(vips[2], [clock]), clock))
    bodies = [own_port(probed(vip, [shared]), shared) for vip in vips[:2]]
    for body in bodies:
        gateway.create(body)
    wait_until(lambda: probes(shared) >= 1 and probes(clock) >= 1, 10, "first probes")
    first = probes(shared) - probes(clock)
    ticks = probes(clock)
    wait_until(lambda: probes(clock) >= ticks + 2, 10, "the clock")
    assert abs(probes(shared) - probes(clock) - first) <= 1
    port = vips[0].rsplit(":", 1)[1]
    assert gateway.delete(f"/config/loadbalancer/externalipaddress/127.0.0.1/port/{port}/protocol/tcp"
                          ).status == 200
    ticks, seen = probes(clock), probes(shared)
    wait_until(lambda: probes(clock) >= ticks + 2, 10, "the clock")
    assert probes(shared) > seen


def test_another_interval_brings_no_dead_endpoint_back(gateway, engines):
    sick = engines(1)[0]
    vip = gateway.vip()
    body = own_port(probed(vip, [sick], probeRetries=1), sick)
    gateway.create(body)
    sick.arm("health:503", 0)
    wait_until(lambda: gateway.find(body)["endpoints"][0]["state"] == "inactive", 10, "inactive")
    for n, change in enumerate([edited(body, probeTimeout=60, probeRetries=9), edited(body, probereq="/ping"),
                                edited(body, [row(sick.address, 3)], probeTimeout=30)]):
        gateway.create(change)
        reply = complete(vip, "x")
        assert reply.status == 503 and reply.json()["error"]["code"] == "no_healthy_backend", n
    with sick.client() as client:
        client.send(request_bytes("DELETE", "/sim/fault"))
        assert client.read_reply().status == 200
    gateway.create(body)
    wait_until(lambda: gateway.find(body)["endpoints"][0]["state"] == "active", 10, "active again")
    assert complete(vip, "x").status == 200
