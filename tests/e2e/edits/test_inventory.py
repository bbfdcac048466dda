"""Edits and KV inventories: what stays keeps its blocks and its subscription, what is new starts new."""

from conftest import edited, endpoint_of, row
from gateway import API, complete
from harness import RawClient, exchange, request_bytes, wait_until

PROMPT = "The harbour master wrote down every ship that came in with the tide. " * 12


def blocks(gateway, body, address):
    endpoint = endpoint_of(gateway.find(body), address)
    return endpoint["kv"]["blocks"] if endpoint else None


def fill(gateway, site, body, vip):
    """Prompts until every engine of the rule holds some blocks and all of them are known."""
    for i in range(8):
        assert complete(vip, f"Log {i}. " + PROMPT).status == 200
    settled(gateway, site, body)


def settled(gateway, site, body):
    """Until the inventory of each endpoint of the rule is the engine's cache."""
    def agree():
        read_back = gateway.find(body)
        for tap, engine in zip(site.http, site.engines):
            endpoint = endpoint_of(read_back, tap.address)
            if endpoint is not None and endpoint["kv"]["blocks"] != len(engine.cache()):
                return False
        return True
    wait_until(agree, 20, "inventories as the caches")


def test_edits_leave_the_inventory_and_the_subscription_of_what_stays(gateway, site):
    three = site(3)
    vip = gateway.vip()
    body = three.rule(vip, [0, 1], sel=0, kvLbMode="off")
    gateway.create(body)
    gateway.wait_signal(body, ("ok", "quiet"))
    # Without matches in the way, both get their share.
    for i in range(2):
        complete(vip, f"{i} " * 40, max_tokens=1)
    fill(gateway, three, body, vip)
    held = [blocks(gateway, body, three.http[i].address) for i in (0, 1)]
    connects = [three.connects(i) for i in (0, 1)]
    assert sum(held) > 0 and all(pub == 1 for pub, _ in connects)
    first, second = body["endpoints"]
    for n, change in enumerate([
            edited(body, [{**first, "weight": 9}, second]),
            edited(body, name="renamed"),
            edited(body, timeouts={"chunk_gap_ms": 1_000, "connect_ms": 500}),
            edited(body, [second, first], sel=4),
            edited(body, [first, second, row(three.http[2].address)]),
            edited(body, kvMinMatchTokens=32, kvMeanLoadFactor=200, kvLbMode="hard"),
            edited(body, kvWarmupSec=1, kvColdSeedEvery=7),
            edited(body, kvMaxBlocks=500_000)]):
        gateway.create(change)
        if len(change["endpoints"]) == 3:
            wait_until(lambda: three.connects(2)[0] == 1, 10, "the new one is followed")
        assert [blocks(gateway, body, three.http[i].address) for i in (0, 1)] == held, n
        assert [three.connects(i) for i in (0, 1)] == connects, n
    # And what was known is used: the same prompt again is routed by it.
    gateway.create(body)
    assert complete(vip, "Log 3. " + PROMPT, request_id="known").status == 200
    assert gateway.receipt("known")["legs"][-1]["tier"] == "kv_exact"


def test_a_removed_endpoint_loses_its_inventory_and_starts_anew_when_it_comes_back(gateway, site):
    two = site(2)
    vip = gateway.vip()
    body = two.rule(vip, [0, 1], kvLbMode="off")
    gateway.create(body)
    gateway.wait_signal(body, ("ok", "quiet"))
    fill(gateway, two, body, vip)
    before = gateway.find(body)
    staying, leaving = (tap.address for tap in two.http)
    ours, theirs = two.connects(0), two.connects(1)
    held = blocks(gateway, body, staying)

    # A request that waits for the leaving engine all the while holds on to the rule as it was.
    two.engines[1].arm("hang")
    waiting = RawClient(vip)
    gateway.create(edited(body, [row(leaving)]))
    assert blocks(gateway, body, staying) is None
    waiting.send(request_bytes("POST", "/v1/completions", {"model": "tiny", "prompt": "wait"}))
    wait_until(lambda: endpoint_of(gateway.find(body), leaving)["inflight"] == 1, 5, "a waiting request")
    gateway.create(edited(body, [row(leaving), row(staying)]))
    wait_until(lambda: blocks(gateway, body, staying) == held, 20, "the first one's blocks are back")

    subscriptions = two.connects(0)[0]
    assert subscriptions == ours[0] + 1
    gateway.create(edited(body, [row(staying)]))
    assert blocks(gateway, body, leaving) is None
    wait_until(lambda: two.pub[1].open == 0, 5, "the subscription has ended")
    gateway.create(edited(body, [row(staying), row(leaving)]))
    wait_until(lambda: two.connects(1)[0] == theirs[0] + 1, 10, "a new subscription")
    wait_until(lambda: two.connects(1)[1] > theirs[1], 10, "a new replay")
    settled(gateway, two, body)
    assert two.connects(0)[0] == subscriptions
    after = gateway.find(body)
    numbers = {e["ep_idx"] for e in before["endpoints"]}
    assert all(e["ep_idx"] not in numbers for e in after["endpoints"])
    waiting.close()


def test_declarations_of_one_rule_subscribe_anew_there_and_nowhere_else(gateway, site):
    three = site(3, "--num-gpu-blocks-override", 200, "--max-model-len", 3000)
    vip, other_vip = gateway.vip(), gateway.vip()
    body, other = three.rule(vip, [0, 1], kvLbMode="off"), three.rule(other_vip, [2])
    gateway.create(body)
    gateway.create(other)
    for one in (body, other):
        gateway.wait_signal(one, ("ok", "quiet"))
    fill(gateway, three, body, vip)
    fill(gateway, three, other, other_vip)
    connects = [three.connects(i) for i in range(3)]
    held = blocks(gateway, other, three.http[2].address)
    gateway.create(edited(body, kvBlockSize=16))
    for i in (0, 1):
        wait_until(lambda i=i: three.pub[i].connects == connects[i][0] + 1, 10, "a new subscription")
        wait_until(lambda i=i: three.replay[i].connects > connects[i][1], 10, "a new replay")
    settled(gateway, three, body)
    assert three.connects(2) == connects[2]
    assert blocks(gateway, other, three.http[2].address) == held
    # Nothing was counted twice: what the engines drop is dropped here.
    for i in range(40):
        assert complete(vip, f"Chapter {i}. " + PROMPT).status == 200
    settled(gateway, three, body)
    for i in (0, 1):
        assert three.pub[i].connects == connects[i][0] + 1


def test_another_event_port_is_followed_from_its_beginning(gateway, site, ends):
    from tap import Tap, free_on
    two = site(2)
    hosts = [tap.host for tap in two.http]
    port = free_on(*hosts)
    elsewhere = [ends.enter_context(Tap(e.pub[0], host, port)) for host, e in zip(hosts, two.engines)]
    vip = gateway.vip()
    body = two.rule(vip, [0, 1], kvLbMode="off")
    gateway.create(body)
    gateway.wait_signal(body, ("ok", "quiet"))
    fill(gateway, two, body, vip)
    gateway.create(edited(body, kvZmqPort=port))
    for i in (0, 1):
        wait_until(lambda i=i: elsewhere[i].connects == 1, 10, "the new port")
        wait_until(lambda i=i: two.pub[i].open == 0, 10, "the old port is let go")
    gateway.wait_signal(body, ("ok", "quiet"))
    settled(gateway, two, body)
    assert complete(vip, "One more. " + PROMPT).status == 200
    settled(gateway, two, body)


def test_kv_routing_can_be_switched_on_and_off_on_a_live_rule(gateway, site):
    two = site(2)
    vip = gateway.vip()
    exact = two.rule(vip, [0, 1])
    plain = edited(exact, kvExactMode=0, kvEngineType="vllm")
    exact = edited(exact, kvEngineType="vllm")
    gateway.create(plain)
    assert complete(vip, PROMPT).status == 200
    assert [two.connects(i) for i in (0, 1)] == [(0, 0), (0, 0)]
    for turn in (1, 2):
        gateway.create(exact)
        gateway.wait_signal(exact, ("ok", "quiet"))
        settled(gateway, two, exact)
        assert complete(vip, PROMPT, request_id=f"on-{turn}").status == 200
        assert gateway.receipt(f"on-{turn}")["legs"][-1]["tier"] == "kv_exact"
        assert [two.pub[i].connects for i in (0, 1)] == [turn, turn]
        gateway.create(plain)
        for i in (0, 1):
            wait_until(lambda i=i: two.pub[i].open == 0, 10, "the subscription has ended")
        assert complete(vip, PROMPT, request_id=f"off-{turn}").status == 200
        assert gateway.receipt(f"off-{turn}")["legs"][-1]["tier"] == "selector"


def test_a_smaller_bound_is_kept_at_once(gateway, site):
    one = site(1, "--num-gpu-blocks-override", 4000)
    vip = gateway.vip()
    body = one.rule(vip, [0])
    gateway.create(body)
    gateway.wait_signal(body, ("ok", "quiet"))

    for i in range(60):
        assert complete(vip, f"Volume {i}. " + PROMPT * 4, max_tokens=1).status == 200
    wait_until(lambda: blocks(gateway, body, one.http[0].address) > 1000, 20, "many blocks")
    connects = one.connects(0)
    gateway.create(edited(body, kvMaxBlocks=1000))
    wait_until(lambda: 0 < blocks(gateway, body, one.http[0].address) <= 1000, 10, "the bound")
    assert one.connects(0) == connects


def test_patches_and_attached_endpoints_disturb_as_little(gateway, site):
    three = site(3)
    vip = gateway.vip()
    body = three.rule(vip, [0, 1], kvLbMode="off")
    gateway.create(body)
    gateway.wait_signal(body, ("ok", "quiet"))
    fill(gateway, three, body, vip)
    held = [blocks(gateway, body, three.http[i].address) for i in (0, 1)]
    connects = [three.connects(i) for i in (0, 1)]
    numbers = {e["endpointIP"]: e["ep_idx"] for e in gateway.find(body)["endpoints"]}
    ip, port = vip.rsplit(":", 1)
    path = f"{API}/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/tcp"
    first, second = body["endpoints"]
    third = row(three.http[2].address)
    key = {k: body["serviceArguments"][k] for k in ("externalIP", "port", "protocol", "mode", "sel")}
    for n, (method, target, change) in enumerate([
            ("PATCH", path, {"serviceArguments": {"name": "patched", "timeouts": {"connect_ms": 700}}}),
            ("PATCH", path, {"endpoints": [{**first, "weight": 7}, second]}),
            ("PATCH", path, {"serviceArguments": {"kvMaxBlocks": 400_000, "sel": 2}}),
            ("POST", f"{API}/config/loadbalancer",
             {"serviceArguments": {**key, "sel": 2, "oper": 1}, "endpoints": [third]}),
            ("POST", f"{API}/config/loadbalancer",
             {"serviceArguments": {**key, "sel": 2, "oper": 2}, "endpoints": [third]}),
            ("PATCH", path, {"serviceArguments": {"timeouts": None, "name": None}})]):
        reply = exchange(gateway.api, method, target, change)
        assert reply.status == 200, (n, reply.body)
        read_back = gateway.find(body)
        assert [blocks(gateway, body, three.http[i].address) for i in (0, 1)] == held, n
        assert [three.connects(i) for i in (0, 1)] == connects, n
        assert {e["endpointIP"]: e["ep_idx"] for e in read_back["endpoints"]}.items() >= numbers.items()
    assert endpoint_of(gateway.find(body), three.http[2].address) is None
    wait_until(lambda: three.pub[2].open == 0, 5, "nothing follows the one that came and went")
