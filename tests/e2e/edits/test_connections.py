"""Edits and connections: clients stay connected, engines are not connected to anew, listeners stay."""

import threading

from conftest import edited, row
from gateway import complete, rule, split_address
from harness import RawClient, request_bytes, wait_until
from tap import Tap


def listeners(vip):
    """The kernel's numbers of the sockets that listen on a VIP."""
    ip, port = split_address(vip)
    name = "".join(f"{int(part):02X}" for part in reversed(ip.split("."))) + f":{port:04X}"
    with open("/proc/net/tcp") as f:
        rows = [line.split() for line in f.readlines()[1:]]
    return sorted(r[9] for r in rows if r[1] == name and r[3] == "0A")


def ask(client, **headers):
    client.send(request_bytes("POST", "/v1/completions",
                              {"model": "tiny", "prompt": "hello", "max_tokens": 1},
                              list(headers.items())))
    return client.read_reply()


def edits_of(body, spare):
    first = body["endpoints"][0]
    for n in range(12):
        yield [edited(body, [{**first, "weight": n + 2}]),
               edited(body, [first, row(spare, 0)]),
               edited(body, [first], timeouts={"chunk_gap_ms": 50_000 + n}),
               edited(body, [first], name=f"edit-{n}", sel=4),
               edited(body, [first], retry={"connect": n % 10})][n % 5]


def test_kept_connections_of_clients_and_to_engines_survive_edits(gateway, engines, ends):
    engine, spare = engines(2)
    tap = ends.enter_context(Tap(engine.address))
    vip = gateway.vip()
    body = rule(vip, [tap.address])
    gateway.create(body)
    clients = [ends.enter_context(RawClient(vip)) for _ in range(8)]
    for client in clients:
        assert ask(client).status == 200
    connects = tap.connects
    assert 1 <= connects <= 2  # one a worker
    for change in edits_of(body, spare.address):
        gateway.create(change)
        for client in clients:
            assert ask(client).status == 200
    assert tap.connects == connects
    assert tap.open == connects


def test_a_listener_is_not_touched_by_edits_of_its_rules_or_of_others(gateway, engines):
    engine, spare = engines(2)
    vip, other_vip = gateway.vip(), gateway.vip()
    body = rule(vip, [engine.address], model_name="tiny")
    second = rule(vip, [engine.address], model_name="other")
    other = rule(other_vip, [engine.address])
    gateway.create(body)
    before = listeners(vip)
    assert len(before) == 2  # one a worker
    gateway.create(second)
    gateway.create(other)
    others = listeners(other_vip)
    for change in edits_of(body, spare.address):
        gateway.create(change)
        gateway.create(edited(other, name=change["serviceArguments"].get("name", "x") + "!"))
        gateway.create(edited(other, timeouts={"header_ms": 9_000}))
    # New limits reach it in place.
    gateway.create(edited(body, timeouts={"header_ms": 20_000, "client_idle_ms": 30_000}))
    assert listeners(vip) == before
    assert listeners(other_vip) == others
    # With the first of two rules gone it goes on for the second, with the last it ends.
    ip, port = split_address(vip)
    path = f"/config/loadbalancer/externalipaddress/{ip}/port/{port}/protocol/tcp"
    assert gateway.delete(path + "?model_name=other").status == 200
    assert listeners(vip) == before
    assert complete(vip, "x").status == 200
    assert gateway.delete(path + "?model_name=tiny").status == 200
    assert listeners(vip) == []
    assert listeners(other_vip) == others
    assert complete(other_vip, "x").status == 200


def test_two_thousand_requests_pass_fifty_edits(gateway, engines, ends):
    both = engines(2)
    spare = engines(1)[0]
    vip = gateway.vip()
    body = rule(vip, [e.address for e in both])
    gateway.create(body)
    statuses, lock, stop = [], threading.Lock(), threading.Event()

    def run():
        mine = []
        with RawClient(vip, limit_s=60) as client:
            for _ in range(125):
                reply = ask(client)
                mine.append(reply.status if reply else 0)
        with lock:
            statuses.extend(mine)

    def edit():
        rows = body["endpoints"]
        for n in range(50):
            gateway.create([edited(body, [{**rows[0], "weight": n + 2}, rows[1]]),
                            edited(body, [rows[0]], name=f"n{n}"),
                            edited(body, [rows[1], row(spare.address)], sel=2),
                            edited(body, [*rows, row(spare.address, n)], sel=4,
                                   timeouts={"connect_ms": 2000 + n})][n % 4])
        stop.set()
    threads = [threading.Thread(target=run) for _ in range(16)]
    editor = threading.Thread(target=edit)
    for t in [*threads, editor]:
        t.start()
    for t in [*threads, editor]:
        t.join(120)
    assert stop.is_set()
    assert len(statuses) == 2000 and set(statuses) == {200}
    wait_until(lambda: not any(e["inflight"] for e in gateway.find(body)["endpoints"]), 5, "nothing held")
