"""What probes are for: who fails gets nothing, who recovers gets its share again, and nothing is asked too much."""

from gateway import complete, rule, split_address
from harness import RawClient, request_bytes, wait_until
from targets import HttpTarget


class Site:
    """Two engines, each with a health server on one port of an address of its own."""

    def __init__(self, ends, engines, gateway, **more):
        self.gateway = gateway
        self.engines = engines(2)
        first = ends.enter_context(HttpTarget(host="127.0.1.1"))
        self.health = [first, ends.enter_context(HttpTarget(host="127.0.1.2", port=first.port))]
        self.vip = gateway.vip()
        self.body = rule(self.vip, [(e.address, {"monitorAddress": h.host})
                                    for e, h in zip(self.engines, self.health)],
                         probetype="http", probeport=first.port, probereq="/health",
                         **{"probeTimeout": 1, "probeRetries": 2, **more})
        gateway.create(self.body)
        wait_until(lambda: all(h.asked for h in self.health), 20, "first probes")

    def endpoint(self, i):
        host, port = split_address(self.engines[i].address)
        return next(e for e in self.gateway.find(self.body)["endpoints"]
                    if (e["endpointIP"], e["targetPort"]) == (host, port))

    def becomes(self, i, state):
        wait_until(lambda: self.endpoint(i)["state"] == state, 20, state)

    def served(self, i):
        return sum(1 for r in self.engines[i].requests() if r["method"] == "POST")

    def send(self, count):
        """The statuses of so many requests."""
        return [complete(self.vip, f"say {n}").status for n in range(count)]

    def flips(self, word):
        return self.gateway.log().count(word)


def test_pt1_probed_endpoints_that_answer_are_active(ends, engines, gateway):
    site = Site(ends, engines, gateway)
    assert [site.endpoint(i)["state"] for i in (0, 1)] == ["active", "active"]
    assert all("inActiveEP" not in site.endpoint(i) for i in (0, 1))
    assert gateway.metric("loxilb_healthy_endpoints") == 2
    assert gateway.metric("loxilb_unhealthy_endpoints") == 0
    assert site.send(6) == [200] * 6 and [site.served(i) for i in (0, 1)] == [3, 3]


def test_pt2_a_failing_endpoint_is_detected_after_its_retries(ends, engines, gateway):
    site = Site(ends, engines, gateway)
    before = len(site.health[0].asked)
    site.health[0].answer = (503, "")
    site.becomes(0, "inactive")
    assert len(site.health[0].asked) >= before + 2
    assert site.endpoint(0)["reason"] == "probe: status 503" and site.endpoint(0)["inActiveEP"] is True
    assert gateway.metric("loxilb_healthy_endpoints") == 1
    assert gateway.metric("loxilb_unhealthy_endpoints") == 1
    # However often it goes on failing, it is said once.
    seen = len(site.health[0].asked)
    wait_until(lambda: len(site.health[0].asked) >= seen + 2, 20, "two more failures")
    assert site.flips("endpoint is down") == 1


def test_pt3_a_failed_endpoint_gets_no_traffic(ends, engines, gateway):
    site = Site(ends, engines, gateway, probeRetries=1)
    site.health[0].answer = (503, "")
    site.becomes(0, "inactive")
    before = site.served(0)
    assert site.send(6) == [200] * 6
    assert site.served(0) == before


def test_pt4_recovery_is_detected_by_one_success(ends, engines, gateway):
    site = Site(ends, engines, gateway, probeRetries=1)
    site.health[0].answer = (503, "")
    site.becomes(0, "inactive")
    site.health[0].answer = (200, "")
    site.becomes(0, "active")
    assert "reason" not in site.endpoint(0) and "inActiveEP" not in site.endpoint(0)
    assert gateway.metric("loxilb_healthy_endpoints") == 2
    assert site.flips("endpoint is up again") == 1


def test_pt5_a_recovered_endpoint_gets_its_share_again(ends, engines, gateway):
    site = Site(ends, engines, gateway, probeRetries=1)
    site.health[0].answer = (503, "")
    site.becomes(0, "inactive")
    site.health[0].answer = (200, "")
    site.becomes(0, "active")
    before = site.served(0)
    assert site.send(6) == [200] * 6
    assert site.served(0) == before + 3


def test_g5_when_the_last_endpoint_is_down_requests_are_refused_well_formed(ends, engines, gateway):
    site = Site(ends, engines, gateway, probeRetries=1)
    for health in site.health:
        health.answer = (503, "")
    for i in (0, 1):
        site.becomes(i, "inactive")
    reply = complete(site.vip, "x")
    assert (reply.status, reply.json()["error"]["code"]) == (503, "no_healthy_backend")
    assert [site.served(i) for i in (0, 1)] == [0, 0]


def test_g6_a_slow_answer_within_the_limit_is_no_failure(ends, engines, gateway):
    site = Site(ends, engines, gateway, probeTimeout=4, probeRetries=1)
    seen = len(site.health[0].asked)
    site.health[0].hold.set()
    wait_until(lambda: len(site.health[0].asked) > seen, 20, "a probe waits")
    site.health[0].release()
    wait_until(lambda: len(site.health[0].asked) > seen + 1, 20, "the next")
    assert site.endpoint(0)["state"] == "active" and site.flips("endpoint is down") == 0


def test_g7_an_endpoint_that_never_answers_holds_up_no_other(ends, engines, gateway):
    site = Site(ends, engines, gateway, probeRetries=1)
    site.health[0].hold.set()
    site.becomes(0, "inactive")
    assert "timed out" in site.endpoint(0)["reason"]
    seen = len(site.health[1].asked)
    wait_until(lambda: len(site.health[1].asked) >= seen + 2, 20, "the other is probed on")
    assert site.endpoint(1)["state"] == "active" and site.send(4) == [200] * 4


def test_g8_probes_follow_the_rule_also_out_of_a_try(ends, engines, gateway):
    site = Site(ends, engines, gateway)
    # The first try of another probe hangs; then the rule is gone, and so is the try.
    site.health[0].hold.set()
    site.body["serviceArguments"]["probereq"] = "/other"
    gateway.create(site.body)
    wait_until(lambda: site.health[0].busy == 1, 20, "it hangs")
    assert gateway.delete("/config/loadbalancer/all").status == 200
    seen = len(site.health[0].asked)
    site.health[0].release()
    with HttpTarget() as clock:
        gateway.create(rule(gateway.vip(), [clock.address], probetype="http", probeport=clock.port, probeTimeout=1))
        wait_until(lambda: len(clock.asked) >= 3, 20, "two intervals")
    assert len(site.health[0].asked) == seen


def test_g9_probes_go_on_through_reloads_while_streams_do(ends, engines, gateway):
    site = Site(ends, engines, gateway)
    with RawClient(site.vip, limit_s=60) as client:
        client.send(request_bytes("POST", "/v1/completions",
                                  {"model": "tiny", "prompt": "go on", "stream": True, "max_tokens": 64}))
        for n in range(10):
            seen = [len(h.asked) for h in site.health]
            site.body["endpoints"][n % 2]["weight"] = 2 + n
            gateway.create(site.body)
            if n % 5 == 4:
                wait_until(lambda s=seen: all(len(h.asked) > k for h, k in zip(site.health, s)), 20, "probes go on")
        reply = client.read_reply()
        assert reply.status == 200 and reply.events()[-1] == "[DONE]"
    assert max(h.most_busy for h in site.health) == 1


def test_g14_a_slow_health_path_is_never_asked_in_parallel(ends, engines, gateway):
    engine = engines(1)[0]
    slow, clock = ends.enter_context(HttpTarget()), ends.enter_context(HttpTarget())
    gateway.create(rule(gateway.vip(), [clock.address], probetype="http", probeport=clock.port, probeTimeout=1))
    slow.hold.set()
    # Rules that differ in times and in what they expect ask the same question.
    for n in range(3):
        gateway.create(rule(gateway.vip(), [(engine.address, {"monitorAddress": slow.host,
                                                              "expectedCodes": f"20{n}"})],
                            probetype="http", probeport=slow.port, probereq="/health", probeTimeout=60 + n))
    wait_until(lambda: slow.busy, 20, "one is asked")
    ticks = len(clock.asked)
    wait_until(lambda: len(clock.asked) > ticks, 20, "an interval")
    assert len(slow.asked) == 1
    slow.release()
    wait_until(lambda: len(slow.asked) == 3, 20, "the others have their turn")
    assert slow.most_busy == 1
