"""A rule that comes late to engines another rule follows."""

from conftest import edited
from gateway import complete
from harness import wait_until

PROMPT = "The harbour master wrote down every ship that came in with the tide. " * 12


def test_a_second_rule_on_the_same_engines_knows_at_once_what_the_first_knows(gateway, site):
    two = site(2)
    vip, late_vip = gateway.vip(), gateway.vip()
    body = two.rule(vip, [0, 1])
    gateway.create(body)
    gateway.wait_signal(body, ("ok", "quiet"))
    assert complete(vip, PROMPT, request_id="first").status == 200
    receipt = gateway.receipt("first")
    home = receipt["legs"][-1]["endpoint"]
    gateway.wait_blocks(body, home, receipt["prompt_tokens"] // 16)
    connects = [two.connects(i) for i in (0, 1)]
    before = [(e["kv"]["blocks"], e["kv"]["signal"]) for e in gateway.find(body)["endpoints"]]

    late = edited(two.rule(late_vip, [1, 0]), name="late")
    gateway.create(late)
    assert complete(late_vip, PROMPT, request_id="late").status == 200
    leg = gateway.receipt("late")["legs"][-1]
    assert (leg["endpoint"], leg["tier"]) == (home, "kv_exact")
    assert [two.connects(i) for i in (0, 1)] == connects
    after = [(e["kv"]["blocks"], e["kv"]["signal"]) for e in gateway.find(body)["endpoints"]]
    assert after == before
    signals = {e["kv"]["signal"] for e in gateway.find(late)["endpoints"]}
    assert signals <= {"ok", "quiet"}

    # Both follow what comes; the first one's end is nothing to the second.
    assert complete(vip, "Another. " + PROMPT).status == 200
    ip, port = vip.rsplit(":", 1)
    assert gateway.delete(f"/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/tcp"
                          ).status == 200
    assert [two.connects(i) for i in (0, 1)] == connects

    def agree():
        read_back = {f"{e['endpointIP']}:{e['targetPort']}": e["kv"]["blocks"]
                     for e in gateway.find(late)["endpoints"]}
        return all(read_back[tap.address] == len(engine.cache())
                   for tap, engine in zip(two.http, two.engines))
    wait_until(agree, 10, "inventories as the caches")
